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

from trainables.storage.base import Note, Storage
from trainables.utils.system import gone, machine

BEAT = 5.0
"""Seconds between two signs of life of a claim's holder."""
STALE = 60.0
"""Seconds without a sign of life after which a claim is nobody's."""


class Claims:
    """The claims in one storage, as one process sees them.

    Args:
        storage: where the claimed states will lie.
        beat: seconds between signs of life.
        stale: seconds without one after which a claim is taken over. They are counted on this process's clock from the
            moment it saw the last sign, since the clocks of a cluster disagree.
    """

    def __init__(self, storage: Storage, beat: float = BEAT, stale: float = STALE) -> None:
        self._storage, self._beat, self._stale = storage, beat, stale
        self._seen: dict[str, tuple[Note, float]] = {}

    @contextmanager
    def attempt(self, name: str) -> Iterator[bool]:
        """Holds the claim of `name` for the block; False where somebody else who is alive holds it."""
        note, mine = f"{name}.claim", f"{machine()} {os.getpid()} {uuid.uuid4().hex}"
        if not self._storage.create(note, mine):
            self._drop_if_dead(note)
            if not self._storage.create(note, mine):
                yield False
                return
        ended = threading.Event()
        beats = threading.Thread(target=self._stay_alive, args=(note, mine, ended), daemon=True)
        beats.start()
        try:
            yield True
        finally:
            ended.set()
            beats.join()
            with _ignored_faults():
                self._storage.drop(note, mine)

    @contextmanager
    def held(self, name: str, waited: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Holds the claim of `name` for the block; until nobody else does, waits and calls `waited` again and again."""
        while True:
            with self.attempt(name) as claimed:
                if claimed:
                    yield
                    return
            time.sleep(self._storage.patience)
            waited()

    def once(
        self, name: str, there: Callable[[], bool], make: Callable[[], object], waited: Callable[[], None]
    ) -> None:
        """Makes what is not there, unless somebody else is at it: then waits for that.

        Args:
            name: of the claim.
            there: whether there is nothing to do.
            make: does it.
            waited: called again and again while somebody else does.
        """
        while not there():
            with self.attempt(name) as claimed:
                if claimed and not there():
                    make()
            if not claimed:
                time.sleep(self._storage.patience)
                waited()

    def _stay_alive(self, note: str, mine: str, ended: threading.Event) -> None:
        """In a thread, because a step or an evaluation may take longer than a claim without a sign of life lasts."""
        while not ended.wait(self._beat):
            with _ignored_faults():
                self._storage.renew(note, mine)

    def _drop_if_dead(self, note: str) -> None:
        found = self._storage.peek(note)
        if found is None:
            return
        last, since = self._seen.get(note, (None, 0.0))
        if last != found:
            since = time.monotonic()
            self._seen[note] = (found, since)
        if _dead(found.text) or time.monotonic() - since > self._stale:
            self._storage.drop(note, found.text)


def _ignored_faults() -> AbstractContextManager[None]:
    """Ignores every error: a claim that cannot be renewed or dropped goes stale, while its holder's work stands.

    The file systems of fsspec raise errors of their own kinds.
    """
    return suppress(Exception)


def _dead(text: str) -> bool:
    """Whether the process that wrote a claim is known to be at it no more: gone, or this one, which runs one run after
    the other and would otherwise wait for itself."""
    parts = text.split()
    if len(parts) != 3 or not parts[1].isdigit():  # half written
        return False
    where, process = parts[0], int(parts[1])
    return gone(where, process) or (where, process) == (machine(), os.getpid())
