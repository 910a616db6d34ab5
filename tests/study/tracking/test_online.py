"""Content that the logger brings to a W&B server, with the real client: every run and point once, despite failures."""

import platform
import shlex
import sys
import time
from pathlib import Path

import pytest

from study.tracking import WandbLogger
from study.tracking.sync_state import is_evaluation_synced
from study.utils.live_view import LiveView
from study.workflows.session import flush_wandb
from tests.study.mirrors import CURVE, LABELS, SPLITS, log_evaluations, recorded, whole

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]


def test_a_run_is_shown_while_it_trains_and_ends_as_its_record_says(server, tracking):
    """Rows that come again, or after a gap, are no other points."""
    logger = WandbLogger(tracking, print)
    for start in (1, 0, 0):
        logger.log_rows(LABELS, CURVE[start : start + 1], start)
    deadline = time.monotonic() + 60
    while not (found := server.runs(tracking.project).get("abc")) or not found.history:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert (found.state, found.history) == ("running", CURVE[:1])
    for split in SPLITS:
        recorded(tracking.folder, split)
        logger.log_evaluation("abc", split)
    assert logger.flush(), logger.failure_reason
    logger.close()
    assert logger.get_run_url("abc") == f"{server.url}/{server.entity}/{tracking.project}/runs/abc"
    whole(server.runs(tracking.project)["abc"], tracking.folder)


def test_a_run_after_a_stop_of_its_driver_goes_on_where_it_was(server, tracking):
    logger = WandbLogger(tracking, print)
    logger.log_rows(LABELS, CURVE[:1], 0)
    logger.close()
    stopped = server.runs(tracking.project)["abc"]
    assert stopped.state == "running"  # for W&B, until it misses the signs of life
    assert stopped.history in ([], CURVE[:1])
    again = WandbLogger(tracking, print)
    again.log_rows(LABELS, CURVE, 0)
    recorded(tracking.folder, "dev")
    again.log_evaluation("abc", "dev")
    assert again.flush(), again.failure_reason
    again.close()
    whole(server.runs(tracking.project)["abc"], tracking.folder, ("dev",))


@pytest.mark.long
def test_a_logger_killed_at_any_moment_loses_and_doubles_nothing(server, tracking):
    evaluations = [(f"run{number}", split) for number in range(8) for split in SPLITS]
    for run_id, split in evaluations:
        recorded(tracking.folder, split, run_id=run_id)
    for seconds in (3.0, 4.0):
        logger = WandbLogger(tracking, print)
        for run_id, split in evaluations:
            logger.log_evaluation(run_id, split)
        process = logger._process
        assert process is not None
        time.sleep(seconds)
        process.kill()
    logger = log_evaluations(tracking, *evaluations)
    assert not logger.pending, logger.failure_reason
    found = server.runs(tracking.project)
    assert len(found) == 8
    for run in found.values():
        whole(run, tracking.folder)


@pytest.mark.long  # the client waits
def test_without_a_server_the_study_ends_and_a_later_start_brings_all(server, tracking, monkeypatch):
    monkeypatch.setattr("study.tracking.client._MAX_ATTEMPTS", 1)
    recorded(tracking.folder, "dev")
    server.kill()
    try:
        away = log_evaluations(tracking, ("abc", "dev"))
    finally:
        server.start()
    assert away.pending_text == "1 evaluation"
    assert "connection refused" in away.failure_reason
    assert "127.0.0.1" not in away.failure_reason
    assert not is_evaluation_synced(tracking, "abc", "dev", "finished")
    assert not log_evaluations(tracking, ("abc", "dev")).pending
    whole(server.runs(tracking.project)["abc"], tracking.folder, ("dev",))


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("f" * 40, "401"),
        pytest.param("short", "API key must", marks=pytest.mark.long),
        pytest.param("", "No API key", marks=pytest.mark.long),
    ],
)
def test_a_key_that_is_wrong_stops_no_study(server, tracking, monkeypatch, key, told, tmp_path, capsys):
    recorded(tracking.folder, "dev")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WANDB_API_KEY", key)
    refused = log_evaluations(tracking, ("abc", "dev"))
    assert told in refused.failure_reason
    assert "{" not in refused.failure_reason
    flush_wandb(refused, LiveView())
    said = capsys.readouterr().out.splitlines()
    assert [line for line in said if told in line] == [f"cannot write to W&B at the moment ({refused.failure_reason})"]
    left, _, command = said[-1].partition(", run ")
    assert left == "1 evaluation not yet uploaded to W&B; to upload"
    assert shlex.split(command) == ["python", "-m", "study.sync", str(tracking.folder)]
    monkeypatch.setenv("WANDB_API_KEY", server.key)
    assert not log_evaluations(tracking, ("abc", "dev")).pending
    whole(server.runs(tracking.project)["abc"], tracking.folder, ("dev",))


@pytest.mark.long
def test_a_busy_server_is_asked_again(server, tracking):
    for split in SPLITS:
        recorded(tracking.folder, split)
    server.fail(429, times=3, retry_after=1)
    assert not log_evaluations(tracking, *(("abc", split) for split in SPLITS)).pending
    whole(server.runs(tracking.project)["abc"], tracking.folder)


def test_nothing_that_names_key_user_host_or_home_leaves_or_stays(server, tracking, monkeypatch, tmp_path):
    home = tmp_path / "home-of-somebody"
    home.mkdir()
    for name, value in {"HOME": str(home), "USER": "somebody-here", "LOGNAME": "somebody-here"}.items():
        monkeypatch.setenv(name, value)
    before = len(server.requests)
    for split in SPLITS:
        recorded(tracking.folder, split)
    for mode in ("offline", "online"):
        assert not log_evaluations(
            tracking.model_copy(update={"mode": mode}), *(("abc", split) for split in SPLITS)
        ).pending
    assert len(server.requests) > before
    secrets = [server.key, "home-of-somebody", "somebody-here", str(tmp_path), str(ROOT), sys.prefix, str(Path.home())]
    host = platform.node()
    secrets += [host] if len(host) > 3 else []
    sent = b"\n".join(list(server.everything())[before:])
    kept = {path: path.read_bytes() for path in tracking.folder.rglob("*") if path.is_file()}
    assert any(path.suffix == ".wandb" for path in kept)
    for secret in secrets:
        assert secret.encode() not in sent
        assert not [path for path, content in kept.items() if secret.encode() in content]


@pytest.mark.long  # the client waits
@pytest.mark.parametrize(
    ("status", "path", "reason"),
    [(503, "file_stream", "no answer for 8 s"), (404, "file_stream", ""), (400, "CommitArtifact", "")],
)
def test_what_a_server_does_not_take_is_noticed_and_brought_later(server, tracking, monkeypatch, status, path, reason):
    monkeypatch.setattr("study.tracking.client._MAX_ATTEMPTS", 1)
    if reason:
        monkeypatch.setattr("study.tracking.client._FLUSH_TIMEOUT_S", 8.0)
    recorded(tracking.folder, "dev")
    server.fail(status, times=None, path=path)
    started = time.monotonic()
    refused = log_evaluations(tracking, ("abc", "dev"))
    assert refused.pending_text == "1 evaluation"
    assert refused.failure_reason
    assert reason in refused.failure_reason
    assert not reason or time.monotonic() - started < 60
    server.heal()
    assert not log_evaluations(tracking, ("abc", "dev")).pending
    whole(server.runs(tracking.project)["abc"], tracking.folder, ("dev",))
