"""The logger's listener, and the command that brings a study to a server, where something goes wrong."""

import sys
import threading

import pytest

from study.folder.run_store import RunStore
from study.sync import main as sync
from study.tracking import Tracking, WandbLogger
from study.tracking.sync_state import get_evaluation_path, mark_synced
from tests.study.mirrors import PLAN, recorded
from trainables.utils.files import write_json
from trainables.utils.hashing import hash_json


@pytest.fixture
def tracking(tmp_path):
    write_json(tmp_path / "plan.json", {"plan": PLAN, "hash": hash_json(PLAN)})
    return Tracking(mode="offline", project="p", folder=tmp_path)


def test_what_nobody_reads_any_more_keeps_no_one_waiting(tracking):
    def broken(line: str) -> None:
        raise BrokenPipeError

    recorded(tracking.folder, "dev")
    logger = WandbLogger(tracking, broken)
    logger.log_document("plan")
    assert logger.flush()
    assert logger._process is not None
    logger._process.kill()
    logger.log_evaluation("abc", "dev")
    assert logger.flush()
    assert logger.failure_reason == "its process was killed by signal 9"
    logger.close()


@pytest.mark.parametrize("path", ["code", ""])
def test_a_plugin_is_found_where_it_is_found_here(path, tracking, tmp_path_factory, monkeypatch):
    here = tmp_path_factory.mktemp("here")
    (here / path).mkdir(exist_ok=True)
    (here / path / "mine.py").write_text(f"open({str(here / 'found')!r}, 'w').close()\n", encoding="utf-8")
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", [path, *sys.path])
    logger = WandbLogger(tracking.model_copy(update={"plugins": ("mine",)}), print)
    logger.log_document("plan")
    assert logger.flush()
    logger.close()
    assert (here / "found").exists()


def test_an_answer_that_is_none_ends_the_process_and_not_the_waiting(tracking, monkeypatch):
    monkeypatch.setattr("study.tracking.client._FLUSH_TIMEOUT_S", 3.0)
    monkeypatch.setattr(threading, "excepthook", lambda told: None)
    monkeypatch.setattr(WandbLogger, "_mark_done", lambda self, told: told["no such key"])
    recorded(tracking.folder, "dev")
    logger = WandbLogger(tracking, print)
    logger.log_evaluation("abc", "dev")
    settled: list[bool] = []
    waiting = threading.Thread(target=lambda: settled.append(logger.flush()), daemon=True)
    waiting.start()
    waiting.join(30)
    assert settled == [False]
    logger.close()


def test_a_sync_that_finds_no_room_says_so_in_one_line(tracking, monkeypatch, capsys):
    def stopped(self: WandbLogger) -> bool:
        raise OSError(28, "full")

    monkeypatch.setattr(WandbLogger, "flush", stopped)
    monkeypatch.setattr(WandbLogger, "_start_process", lambda self: None)
    monkeypatch.setattr("study.sync._list_server_runs", lambda address: set())
    assert sync([str(tracking.folder)]) == 1
    assert (
        capsys.readouterr().err.strip()
        == "study.sync: no space left on device; free some space and rerun the same command"
    )


def test_what_is_recorded_and_neither_noted_nor_ordered_is_ordered(tracking, monkeypatch):
    ordered: list[tuple[str, str]] = []
    for run_id in ("noted", "ordered", "lacking"):
        recorded(tracking.folder, "dev", run_id=run_id)
    recorded(tracking.folder, "test", run_id="noted")
    mark_synced(get_evaluation_path(tracking.folder, "noted", "dev"), tracking, "finished", None)
    logger = WandbLogger(tracking, print)
    logger.pending["ordered", "dev"] = {}
    monkeypatch.setattr(logger, "log_evaluation", lambda *one: ordered.append(one))
    logger.log_missing_evaluations(RunStore(tracking.folder), ["noted", "ordered", "lacking", "unknown"])
    assert ordered == [("noted", "test"), ("lacking", "dev")]
