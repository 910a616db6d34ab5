"""Advisory leases with a heartbeat: they avoid duplicate work.

A process that holds a lease computes something; the others wait for the result. Correctness does not depend on leases,
because two holders of the same lease write identical files. On a disk a lease is exclusive. On other file systems it is
exclusive only if they can create a file exclusively. A lease that cannot be renewed or deleted expires, so every
error is ignored there; their types depend on the file system.
"""

import os
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from trainables.storage.base import Marker, Storage
from trainables.utils.system import get_machine_id, has_exited

LEASE_TIMEOUT_S = 60.0
"""Seconds without a heartbeat after which a lease expires."""
LONGEST_WAIT_S = 10.0
"""Seconds between two looks at what another process computes, at most; more if its storage is slow."""
_RANDOM = random.SystemRandom()
"""Draws nothing from a generator that a seed has set."""


class Leases:
    """Leases of one process in one storage.

    Args:
        storage: storage of the results that the leases protect.
        heartbeat_s: seconds between two heartbeats. If None, those of the storage.
        timeout_s: seconds without a heartbeat after which another process may take the lease. This process measures
            them with its own clock, from the moment it saw the last heartbeat, because the clocks of a cluster differ.
    """

    def __init__(self, storage: Storage, heartbeat_s: float | None = None, timeout_s: float = LEASE_TIMEOUT_S) -> None:
        self._storage, self._timeout_s = storage, timeout_s
        self._heartbeat_s = storage.heartbeat_s if heartbeat_s is None else heartbeat_s
        self._seen: dict[str, tuple[Marker, float]] = {}

    @contextmanager
    def try_acquire(self, name: str) -> Iterator[bool]:
        """Hold the lease of `name` during the block, without waiting for it.

        Yields:
            True if this process holds the lease, False if another running process holds it.
        """
        marker, owner = f"{name}.claim", f"{get_machine_id()} {os.getpid()} {uuid.uuid4().hex}"
        if not self._storage.create_marker(marker, owner):
            is_free = self._delete_if_stale(marker)
            if not is_free or not self._storage.create_marker(marker, owner):
                yield False
                return
        released = threading.Event()
        heartbeats = threading.Thread(target=self._send_heartbeats, args=(marker, owner, released), daemon=True)
        heartbeats.start()
        try:
            yield True
        finally:
            released.set()
            heartbeats.join()
            with suppress(Exception):
                self._storage.delete_marker(marker, owner)

    @contextmanager
    def acquire(self, name: str, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Wait for the lease of `name`, then hold it during the block; `on_wait` is called repeatedly meanwhile."""
        for wait in self.iterate_waits():
            with self.try_acquire(name) as acquired:
                if acquired:
                    yield
                    return
            time.sleep(wait)
            on_wait()

    def run_once(
        self, name: str, is_done: Callable[[], bool], compute: Callable[[], object], on_wait: Callable[[], None]
    ) -> None:
        """Compute a result that does not exist yet, or call `on_wait` while another process computes it."""
        waits = self.iterate_waits()
        while not is_done():
            with self.try_acquire(name) as acquired:
                if acquired and not is_done():
                    compute()
            if not acquired:
                time.sleep(next(waits))
                on_wait()

    def discard_if_stale(self, name: str) -> None:
        """Remove the lease of `name` if its holder was killed after it had made the result, which nobody waits for."""
        with suppress(Exception):
            self._delete_if_stale(f"{name}.claim")

    def iterate_waits(self) -> Iterator[float]:
        """Yield the seconds to wait before each further look at what others compute.

        A wait is about a fifth of the time waited so far, so that a thousand processes look rarely at what takes long.
        It is drawn at random, so that those that began together do not go on together.
        """
        shortest, waited = self._storage.poll_interval_s, 0.0
        while True:
            wait = min(max(shortest, 0.2 * waited), max(shortest, LONGEST_WAIT_S)) * (0.75 + 0.5 * _RANDOM.random())
            waited += wait
            yield wait

    def _send_heartbeats(self, marker: str, owner: str, released: threading.Event) -> None:
        """Renew a lease until it is released.

        Runs in a thread, because a training step or an evaluation may take longer than the timeout of a lease.
        """
        while not released.wait(self._heartbeat_s):
            with suppress(Exception):
                self._storage.refresh_marker(marker, owner)

    def _delete_if_stale(self, marker: str) -> bool:
        """Delete a marker if its holder is dead, and return whether there is none now."""
        current = self._storage.read_marker(marker)
        if current is None:
            return True
        last, since = self._seen.get(marker, (None, 0.0))
        if last != current:
            since = time.monotonic()
            self._seen[marker] = (current, since)
        if _is_owner_dead(current.text) or time.monotonic() - since > self._timeout_s:
            self._storage.delete_marker(marker, current.text)
            return True
        return False


def _is_owner_dead(text: str) -> bool:
    """Return whether the process that wrote a lease is known to have abandoned it.

    That is a process that has ended, or this process: it executes one run after the other, and would otherwise wait for
    itself.
    """
    parts = text.split()
    if len(parts) != 3 or not parts[1].isdigit():  # incompletely written
        return False
    machine_id, pid = parts[0], int(parts[1])
    return has_exited(machine_id, pid) or (machine_id, pid) == (get_machine_id(), os.getpid())
