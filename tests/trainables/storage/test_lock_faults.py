"""A fault of the storage under a claim fails nothing: signs of life go on, and finished work stands."""

import errno
import os
import pathlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

from tests.trainables.small import LS, Fresh, World, finish, job
from tests.trainables.storages import KINDS, place
from trainables.storage import open_storage
from trainables.storage.base import Storage
from trainables.storage.leases import Leases
from trainables.storage.local import LocalStorage

KINDS_OF_ERROR = (errno.ENOSPC, errno.EACCES, errno.ENOENT, errno.EIO, errno.EROFS, errno.ESTALE)
ELSEWHERE = "0123abcd 1 0123456789abcdef"
CALLS = ((os, "rename"), (os, "link"), (os, "unlink"), (pathlib.Path, "read_text"), (MemoryFileSystem, "rm_file"))
"""What a claim is dropped with."""


class ServerGoneError(Exception):
    """An error that packages behind fsspec raise, which is no OSError."""


def broken(patch: pytest.MonkeyPatch, owner: Any, name: str, error: Exception, times: float = float("inf")) -> None:
    """Makes a call fail, the first `times` times, where it is about a claim."""
    real: Callable[..., Any] = getattr(owner, name)
    left = [times]

    def call(*arguments: Any, **named: Any) -> Any:
        if left[0] > 0 and any(".claim" in str(argument) for argument in arguments):
            left[0] -= 1
            raise error
        return real(*arguments, **named)

    patch.setattr(owner, name, call)


@pytest.mark.parametrize("kind", KINDS)
@given(faults=st.dictionaries(st.sampled_from(CALLS), st.sampled_from(KINDS_OF_ERROR), min_size=1))
def test_a_claim_that_cannot_be_dropped_fails_nothing(
    tmp_path: Path, kind: str, faults: dict[tuple[Any, str], int]
) -> None:
    def work(outcome: Callable[[], float]) -> float:
        with pytest.MonkeyPatch.context() as patch, Leases(kept).try_acquire("key") as held:
            assert held  # nothing of this process's own stands in its way
            for (owner, name), number in faults.items():
                broken(patch, owner, name, OSError(number, os.strerror(number)))
            return outcome()

    kept = open_storage(place(kind, tmp_path))
    assert work(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        work(lambda: 1 / 0)


@pytest.mark.parametrize("error", [OSError(errno.EIO, "input/output error"), ServerGoneError("gone")])
@pytest.mark.parametrize("kind", KINDS)
def test_signs_of_life_go_on_after_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, error: Exception
) -> None:
    kept = open_storage(place(kind, tmp_path))
    owner, name = (MemoryFileSystem, "get_file") if kind == "memory" else (pathlib.Path, "read_text")
    with Leases(kept, heartbeat_s=0.01).try_acquire("key"):
        with pytest.MonkeyPatch.context() as patch:
            broken(patch, owner, name, error, times=5)
            time.sleep(0.2)
        before = kept.read_marker("key.claim")
        time.sleep(0.2)
        assert before is not None
        assert kept.read_marker("key.claim") not in (None, before)


@pytest.mark.parametrize("kind", KINDS)
def test_signs_of_life_leave_a_claim_alone_that_was_lost_meanwhile(tmp_path: Path, kind: str) -> None:
    kept = open_storage(place(kind, tmp_path))
    with Leases(kept, heartbeat_s=0.01).try_acquire("key"):
        found = kept.read_marker("key.claim")
        kept.delete_marker("key.claim", found.text)
        time.sleep(0.1)
        assert kept.read_marker("key.claim") is None
        kept.create_marker("key.claim", ELSEWHERE)
        theirs = kept.read_marker("key.claim")
        time.sleep(0.1)
    assert kept.read_marker("key.claim") == theirs


@pytest.mark.parametrize(("kind", "number"), [("folder", errno.ENOSPC), ("memory", errno.EIO)])
def test_a_stretch_with_a_saved_state_does_not_fail(
    world: World, fresh: Fresh, monkeypatch: pytest.MonkeyPatch, kind: str, number: int
) -> None:
    whole = finish(job(world, fresh(), LS))
    cache = fresh()
    trial = job(world, cache, LS, interval=0.0).model_copy(update={"checkpoints": place(kind, cache)})
    for owner, name in ((os, "rename"), (MemoryFileSystem, "rm_file")):
        broken(monkeypatch, owner, name, OSError(number, os.strerror(number)))
    for name in ("rm", "pipe_file"):  # of slots; the notes of when a state was last used
        _broken_folders(monkeypatch, name, OSError(number, os.strerror(number)))
    found = finish(trial)
    assert (found.weights_hash, found.history) == (whole.weights_hash, whole.history)


def _broken_folders(patch: pytest.MonkeyPatch, name: str, error: Exception) -> None:
    real = getattr(MemoryFileSystem, name)

    def call(self: Any, path: str, *arguments: Any, **named: Any) -> Any:
        if "/resume/" in path or path.endswith("/used"):
            raise error
        return real(self, path, *arguments, **named)

    patch.setattr(MemoryFileSystem, name, call)


def test_a_full_disk_leaves_no_half_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others, and the next try, would respect it for a minute."""
    kept: Storage = LocalStorage(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fdopen", _full)
        with pytest.raises(OSError, match="No space left"), Leases(kept).try_acquire("key"):
            pass
    assert kept.read_marker("key.claim") is None


def _full(descriptor: int, *_: Any, **__: Any) -> Any:
    os.close(descriptor)
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
