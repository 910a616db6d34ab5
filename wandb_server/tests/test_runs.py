"""Runs of the real client: as they were logged, resumed, and over the death of the server."""

import time
from pathlib import Path

import pytest

from wandb_server import Server, client

LOGGED = """
for name, code in (("good", 0), ("bad", 3)):
    run = wandb.init(project="logged", id=name, name="a " + name, group="g", job_type="search", tags=["t"], dir=".",
                     config={"rate": 1e-5, "deep": {"list": [1, 2]}}, settings=SETTINGS)
    for instances in (16, 32, 48):
        run.log({"instances": instances, "train/loss": 1 / instances})
    run.summary["dev/R10@1"] = 0.1 + 0.2
    run.finish(exit_code=code)
"""

RESUMED = """
for part in range(2):
    config = {f"part{part}": part}
    run = wandb.init(project="resumed", id="abc", resume="allow", config=config, dir=".", settings=SETTINGS)
    print(run.starting_step)
    for row in range(3):
        run.log({"row": 3 * part + row})
    run.finish()
"""

WATCHED = """
quick = {"x_file_stream_transmit_interval": 1, "x_file_stream_retry_wait_max_seconds": 1}
run = wandb.init(project="killed", id="abc", dir=".", settings=wandb.Settings(**QUIET, **quick))
for part in range(3):
    for row in range(20):
        run.log({"row": 20 * part + row})
    print("logged", flush=True)
    input()
run.finish()
"""


@pytest.fixture(scope="module")
def logged(server: Server, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Two runs of the project of that name."""
    client.run(server, tmp_path_factory.mktemp("logged"), *client.script(LOGGED))


@pytest.mark.usefixtures("logged")
def test_a_run_is_as_it_was_logged(server: Server):
    good, bad = server.runs("logged").values()
    assert (good.id, good.name, good.group, good.job_type, good.tags) == ("good", "a good", "g", "search", ["t"])
    assert good.config == {"rate": 1e-5, "deep": {"list": [1, 2]}}
    assert good.history == [{"instances": n, "train/loss": 1 / n} for n in (16, 32, 48)]
    assert good.steps == [0, 1, 2]
    assert good.summary == {"instances": 48, "train/loss": 1 / 48, "dev/R10@1": 0.1 + 0.2}
    assert (good.state, good.exit_code) == ("finished", 0)
    assert (bad.state, bad.exit_code) == ("failed", 3)


@pytest.mark.usefixtures("logged")
def test_all_that_was_sent_is_kept_but_the_key(server: Server):
    everything = b"".join(server.everything())
    assert b"/files/laboratory/logged/good/file_stream" in everything
    assert b'"displayName":"a good"' in everything
    assert b"User-Agent: wandb-core" in everything
    assert server.key.encode() not in everything


def test_a_resumed_run_goes_on_where_it_ended(server: Server, tmp_path: Path):
    assert client.run(server, tmp_path, *client.script(RESUMED)).split() == ["0", "3"]
    run = server.runs("resumed")["abc"]
    assert run.steps == list(range(6))
    assert [row["row"] for row in run.history] == list(range(6))
    assert run.config == {"part0": 0, "part1": 1}
    assert run.state == "finished"


def test_a_server_killed_amid_a_run_has_it_whole_in_the_end(tmp_path: Path):
    with Server(tmp_path / "server") as server, client.start(server, tmp_path, *client.script(WATCHED)) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "logged\n"
        _wait_for_rows(server, 20)
        server.kill()
        before = server.runs("killed")["abc"]
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "logged\n"
        time.sleep(1.5)  # the client finds nobody there
        url = server.url
        server.start()
        assert server.url == url
        found = server.runs("killed")["abc"]  # the client may have sent more by now
        assert found.history[: len(before.history)] == before.history
        process.communicate("\n\n", timeout=60)
        run = server.runs("killed")["abc"]
        assert [row["row"] for row in run.history] == run.steps == list(range(60))
        assert run.state == "finished"


def _wait_for_rows(server: Server, count: int) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if any(len(run.steps) >= count for run in server.runs("killed").values()):
            return
        time.sleep(0.1)
    raise AssertionError(f"no {count} rows within half a minute")
