"""Who is computing a state right now, so that others wait for it instead of computing it as well.

No result depends on claims, only whether work is done twice: two processes that hold the same claim write the same
bits. On a disk a claim is exclusive; on other file systems it is as exclusive as their creation of a file.
"""

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

from trainables.storage.base import Marker, Storage
from trainables.utils.system import get_machine_id, has_exited

HEARTBEAT_S = 5.0
"""Seconds between two signs of life of a claim's holder."""
LEASE_TIMEOUT_S = 60.0
"""Seconds without a sign of life after which a claim is nobody's."""


class Leases:
    """The claims in one storage, as one process sees them.

    Args:
        storage: where the claimed states will lie.
        beat: seconds between signs of life.
        stale: seconds without one after which a claim is taken over. They are counted on this process's clock from the
            moment it saw the last sign, since the clocks of a cluster disagree.
    """

    def __init__(self, storage: Storage, heartbeat_s: float = HEARTBEAT_S, timeout_s: float = LEASE_TIMEOUT_S) -> None:
        self._storage, self._heartbeat_s, self._timeout_s = storage, heartbeat_s, timeout_s
        self._seen: dict[str, tuple[Marker, float]] = {}

    @contextmanager
    def try_acquire(self, name: str) -> Iterator[bool]:
        """Holds the claim of `name` for the block; False where somebody else who is alive holds it."""
        note, mine = f"{name}.claim", f"{get_machine_id()} {os.getpid()} {uuid.uuid4().hex}"
        if not self._storage.create_marker(note, mine):
            self._delete_if_stale(note)
            if not self._storage.create_marker(note, mine):
                yield False
                return
        ended = threading.Event()
        beats = threading.Thread(target=self._send_heartbeats, args=(note, mine, ended), daemon=True)
        beats.start()
        try:
            yield True
        finally:
            ended.set()
            beats.join()
            with _ignore_errors():
                self._storage.delete_marker(note, mine)

    @contextmanager
    def acquire(self, name: str, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Holds the claim of `name` for the block; until nobody else does, waits and calls `waited` again and again."""
        while True:
            with self.try_acquire(name) as claimed:
                if claimed:
                    yield
                    return
            time.sleep(self._storage.poll_interval_s)
            on_wait()

    def run_once(
        self, name: str, is_done: Callable[[], bool], compute: Callable[[], object], on_wait: Callable[[], None]
    ) -> None:
        """Makes what is not there, unless somebody else is at it: then waits for that.

        Args:
            name: of the claim.
            there: whether there is nothing to do.
            make: does it.
            waited: called again and again while somebody else does.
        """
        while not is_done():
            with self.try_acquire(name) as claimed:
                if claimed and not is_done():
                    compute()
            if not claimed:
                time.sleep(self._storage.poll_interval_s)
                on_wait()

    def _send_heartbeats(self, marker: str, owner: str, released: threading.Event) -> None:
        """In a thread, because a step or an evaluation may take longer than a claim without a sign of life lasts."""
        while not released.wait(self._heartbeat_s):
            with _ignore_errors():
                self._storage.refresh_marker(marker, owner)

    def _delete_if_stale(self, marker: str) -> None:
        found = self._storage.read_marker(marker)
        if found is None:
            return
        last, since = self._seen.get(marker, (None, 0.0))
        if last != found:
            since = time.monotonic()
            self._seen[marker] = (found, since)
        if _is_owner_dead(found.text) or time.monotonic() - since > self._timeout_s:
            self._storage.delete_marker(marker, found.text)


def _ignore_errors() -> AbstractContextManager[None]:
    """Ignores every error: a claim that cannot be renewed or dropped goes stale, while its holder's work stands.

    The file systems of fsspec raise errors of their own kinds.
    """
    return suppress(Exception)


def _is_owner_dead(text: str) -> bool:
    """Whether the process that wrote a claim is known to be at it no more: gone, or this one, which runs one run after
    the other and would otherwise wait for itself."""
    parts = text.split()
    if len(parts) != 3 or not parts[1].isdigit():  # half written
        return False
    where, process = parts[0], int(parts[1])
    return has_exited(where, process) or (where, process) == (get_machine_id(), os.getpid())
