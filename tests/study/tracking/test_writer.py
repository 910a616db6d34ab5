"""One writer a W&B run: each process that wants a lock gets it, however the others come and go."""

import errno
import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from study.tracking import Tracking
from study.tracking.payload import RunPayload
from study.tracking.worker_process import _WriterThread
from study.tracking.writer import RunWriter
from tests.study.mirrors import CURVE, LABELS, recorded

LOCK = Path("wandb", ".locks", "abc")


@pytest.fixture(autouse=True)
def _in_the_folder_of_a_study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def writer() -> RunWriter:
    return RunWriter(Tracking(mode="online", project="p", folder=Path()))


def test_a_lock_that_others_take_and_let_go_at_once_is_held_by_one_at_a_time():
    inside, most, faults = 0, 0, list[BaseException]()

    def take() -> None:
        nonlocal inside, most
        own = writer()
        try:
            for _ in range(100):
                with own._hold_run_lock("abc"):
                    inside += 1
                    most = max(most, inside)
                    inside -= 1
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (most, faults, LOCK.exists()) == (1, [], False)


def test_an_evaluation_that_was_set_aside_meanwhile_is_not_written():
    """Its repetition is requested when it has ended."""
    assert writer().write_evaluation("abc", "dev") is None
    assert not LOCK.exists()


HOLDER = """
import fcntl, pathlib, time
path = pathlib.Path("wandb/.locks/abc")
path.parent.mkdir(parents=True)
file = path.open("a")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


def test_the_lock_of_a_process_is_free_once_that_is_killed():
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        assert not writer().try_lock_run("abc")
        holder.kill()
    assert writer().try_lock_run("abc")


def test_a_lock_excludes_a_process_that_locks_the_file_itself():
    own = writer()
    assert own.try_lock_run("abc")
    with LOCK.open("a") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    own.close()


@pytest.mark.filterwarnings("ignore:flock not supported")
@pytest.mark.parametrize(
    ("number", "ignored"), [(errno.ENOLCK, True), (errno.ENOTSUP, True), (errno.ENOSYS, True), (errno.EIO, False)]
)
def test_on_a_file_system_without_locks_there_is_one_driver_that_writes(number, ignored, monkeypatch):
    def refuse(file: int, flags: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", refuse)
    own = writer()
    if not ignored:
        with pytest.raises(OSError, match=os.strerror(number)):
            own.try_lock_run("abc")
        return
    assert own.try_lock_run("abc")
    own.close()
    assert not LOCK.exists()


class Nowhere:
    """A session of no client."""

    url = None

    def __init__(self, *what: object) -> None:
        pass

    def log_rows(self, rows: list[dict[str, Any]], start: int) -> None:
        pass

    def finish(self, found: RunPayload) -> None:
        pass


def test_two_drivers_of_the_same_runs_do_not_wait_for_each_other(tmp_path, monkeypatch, capsys):
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
