"""What the real client does when the server refuses, is busy, or when an answer is lost on its way."""

import subprocess
from pathlib import Path

import pytest

from tests.wandb_server import Server, client

pytestmark = pytest.mark.slow

SHORT = """
run = wandb.init(project="failures", id=sys.argv[-1], dir=".", settings=SETTINGS)
for row in range(5):
    run.log({"row": row})
run.finish()
"""


def _short(server: Server, folder: Path, name: str) -> None:
    client.run(server, folder, *client.script(SHORT), name)


def _whole(server: Server, name: str) -> bool:
    run = server.runs("failures")[name]
    return run.steps == list(range(5)) and run.state == "finished"


def test_a_wrong_key_is_refused(server: Server, tmp_path: Path):
    variables = client.environment(server, tmp_path) | {"WANDB_API_KEY": "f" * 40}
    command = (*client.script(SHORT), "refused")
    result = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert "CommError" in result.stderr
    refused = [request for request in server.requests if b'"refused"' in request.body]
    assert [request.status for request in refused] == [401]
    assert "refused" not in server.runs("failures")


def test_a_busy_server_is_asked_again_when_it_said(server: Server, tmp_path: Path):
    server.fail(429, times=2, where="UpsertBucket", retry_after=1)
    server.fail(429, where="busy/file_stream", retry_after=1)
    _short(server, tmp_path, "busy")
    asked = [r for r in server.requests if r.operation == "UpsertBucket" and b'"busy"' in r.body]
    assert [request.status for request in asked[:3]] == [429, 429, 200]
    assert asked[1].at - asked[0].at >= 0.9
    assert [r.status for r in server.requests if "busy/file_stream" in r.path][:2] == [429, 200]
    assert _whole(server, "busy")


def test_what_took_effect_though_its_answer_was_lost_is_not_doubled(server: Server, tmp_path: Path):
    server.fail(0, where="lost/file_stream", done=True)
    _short(server, tmp_path, "lost")
    first, second = [r for r in server.requests if "lost/file_stream" in r.path][:2]
    assert (first.status, second.status) == (0, 200)
    assert first.body == second.body
    assert _whole(server, "lost")


def test_a_slow_server_is_waited_for(server: Server, tmp_path: Path):
    server.delay(0.5, where="slow/file_stream")
    _short(server, tmp_path, "slow")
    assert _whole(server, "slow")
