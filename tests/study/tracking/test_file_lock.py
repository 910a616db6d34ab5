"""One writer a W&B run: whoever wants a lock gets it, however the others come and go."""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from study.tracking import Tracking
from study.tracking.file_lock import FileLock
from study.tracking.payload import RunPayload
from study.tracking.worker_process import _WriterThread
from tests.study.mirrors import CURVE, LABELS, recorded


def test_a_lock_that_others_take_and_let_go_at_once_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    inside, most, faults = 0, 0, list[BaseException]()
    path = tmp_path / "locks" / "abc"

    def take() -> None:
        nonlocal inside, most
        try:
            for _ in range(300):
                lock = FileLock(path)
                inside += 1
                most = max(most, inside)
                inside -= 1
                lock.release()
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (most, faults, path.exists()) == (1, [], False)


def test_a_file_that_goes_while_it_is_compared_is_locked_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, known = tmp_path / "abc", os.fstat

    def gone(file: int) -> os.stat_result:
        monkeypatch.setattr("os.fstat", known)
        path.unlink()
        return known(file)

    monkeypatch.setattr("os.fstat", gone)
    lock = FileLock(path)
    assert os.fstat is known
    assert path.is_file()
    lock.release()


class Nowhere:
    """A session of no client."""

    url = None

    def __init__(self, *what: object) -> None:
        pass

    def log_rows(self, rows: list[dict[str, Any]], start: int) -> None:
        pass

    def finish(self, found: RunPayload) -> None:
        pass


def test_two_drivers_of_the_same_runs_do_not_wait_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("study.tracking.writer.WandbRun", Nowhere)
    workers = [_WriterThread(Tracking(mode="online", project="p", folder=tmp_path)) for _ in range(2)]
    for number, run_id in enumerate(("one", "other")):
        recorded(tmp_path, "dev", run_id=run_id)
        workers[number].requests.put(rows(run_id))
    while len(list((tmp_path / "wandb" / ".locks").glob("*"))) < 2:
        time.sleep(0.01)
    for worker, runs in zip(workers, (("other", "one"), ("one", "other")), strict=True):
        for number, run_id in enumerate(runs):
            worker.requests.put(rows(run_id))
            worker.requests.put({"do": "evaluation", "run": run_id, "split": "dev", "number": number})
    told: list[str] = []
    deadline = time.monotonic() + 20
    while len(told) < 4 and time.monotonic() < deadline:
        time.sleep(0.05)
        told += capsys.readouterr().out.splitlines()
    assert sorted(json.loads(line)["done"] for line in told) == ["one", "one", "other", "other"]
    for worker in workers:
        worker.requests.put(None)
        worker.join(20)


def rows(run_id: str) -> dict[str, Any]:
    return {"do": "rows", "run": run_id, "labels": LABELS | {"specification_id": run_id}, "rows": CURVE, "start": 0}
