"""One writer a W&B run: whoever wants a lock gets it, however the others come and go."""

import os
import threading
from pathlib import Path

import pytest

from study.tracking.locks import Lock


def test_a_lock_that_others_take_and_let_go_at_once_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    inside, most, faults = 0, 0, list[BaseException]()
    path = tmp_path / "locks" / "abc"

    def take() -> None:
        nonlocal inside, most
        try:
            for _ in range(300):
                lock = Lock(path)
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
    lock = Lock(path)
    assert os.fstat is known
    assert path.is_file()
    lock.release()
