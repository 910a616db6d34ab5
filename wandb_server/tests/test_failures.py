"""The real client meets a server that refuses, is busy, or loses its answer."""

import subprocess
import time
from pathlib import Path

from wandb_server import Server, client

SHORT = """
settings = wandb.Settings(**QUIET, x_file_stream_retry_wait_min_seconds=1)
run = wandb.init(project="failures", id=sys.argv[-1], dir=".", settings=settings)
for row in range(5):
    run.log({"row": row})
run.finish()
"""


def _short(server: Server, folder: Path, name: str) -> None:
    client.run(server, folder, *client.script(SHORT), name)


def _whole(server: Server, name: str) -> bool:
    run = server.runs("failures")[name]
    return run.steps == list(range(5)) and run.state == "finished"


def test_a_wrong_key_is_an_error(server: Server, tmp_path: Path):
    variables = client.environment(server, tmp_path) | {"WANDB_API_KEY": "f" * 40}
    command = (*client.script(SHORT), "refused")
    result = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert "CommError" in result.stderr
    refused = [request for request in server.requests if b'"refused"' in request.body]
    assert [request.status for request in refused] == [401]
    assert "refused" not in server.runs("failures")


def test_a_busy_server_is_asked_again_when_it_said(server: Server, tmp_path: Path):
    server.fail(429, path="UpsertBucket", retry_after=1)
    server.fail(429, path="busy/file_stream", retry_after=1)
    _short(server, tmp_path, "busy")
    asked = [r for r in server.requests if r.operation == "UpsertBucket" and b'"busy"' in r.body]
    assert [request.status for request in asked[:2]] == [429, 200]
    assert asked[1].at - asked[0].at >= 0.9
    assert [r.status for r in server.requests if "busy/file_stream" in r.path][:2] == [429, 200]
    assert _whole(server, "busy")


def test_what_took_effect_though_its_answer_was_lost_is_not_doubled(server: Server, tmp_path: Path):
    server.fail(0, path="lost/file_stream", done=True)
    _short(server, tmp_path, "lost")
    first, second = [r for r in server.requests if "lost/file_stream" in r.path][:2]
    assert (first.status, second.status) == (0, 200)
    assert first.body == second.body
    assert _whole(server, "lost")


def test_a_delay_lasts_until_the_server_is_healed(server: Server):
    def seconds() -> float:
        start = time.monotonic()
        client.upsert(server, "failures", "slow")
        return time.monotonic() - start

    server.delay(1, path="/graphql")
    assert seconds() >= 1
    assert seconds() >= 1
    server.heal()
    assert seconds() < 1
