"""What a study does for the disk: removes what killed processes left, and keeps the states within their budget."""

import math
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from tempfile import TemporaryFile

from study.config.loader import Study
from study.scheduling.scheduler import Work
from study.scheduling.trials import Errand
from trainables.storage import open_storage
from trainables.storage.base import RESUME
from trainables.storage.eviction import evict
from trainables.utils.files import sweep
from trainables.worker.crash_report import FILE

_FORGOTTEN = 7 * 24 * 3600.0
"""Seconds."""
_LISTING = 600.0
"""Seconds after which the states are listed again."""
_ROOM = 0.05
"""Share of the budget that an eviction frees for the states to come, and that may be exceeded until the next one."""


def clean(study: Study, alone: bool = True) -> None:
    """Removes the temporaries of dead processes, in the study's folder and in what it shares with others, the last
    words of trials that were killed with their driver, and preparations that were stopped and nobody has taken up again
    for a week.

    Args:
        study: whose folders.
        alone: whether no other process may be running trials of the study; else their last words stay.
    """
    for folder in {study.folder, study.cache}:
        sweep(folder, deep=True)
    for words in study.folder.glob(f"runs/*/{FILE}") if alone else ():
        words.unlink(missing_ok=True)
    for work in (study.cache / "preparing").glob("*"):
        with suppress(FileNotFoundError):  # another process has just finished it
            if time.time() - work.stat().st_mtime > _FORGOTTEN:
                shutil.rmtree(work, ignore_errors=True)


def check_writable(study: Study) -> None:
    """Before anything is spent: whether files can be made in the study's folder and in the cache.

    Raises:
        OSError: they cannot.
    """
    for folder in (study.folder, study.cache):
        nearest = next(place for place in (folder, *folder.parents) if place.is_dir())
        with TemporaryFile(dir=nearest):
            pass


class Budget:
    """Evicts states when they exceed the study's `cache.budget`.

    Some file systems list a storage by a request for each state. So a listing is remembered, what the study's own runs
    wrote since is added, and the storage is listed again when there is something to evict: more than the budget, and
    of that at least 5 % that nobody needs. As other studies write too, it is listed every ten minutes at the latest.

    Args:
        campaign: knows what is still needed.
        say: told once if that alone exceeds the budget.
    """

    def __init__(self, campaign: Work, say: Callable[[str], None]) -> None:
        self._campaign, self._say, self._told = campaign, say, False
        self._limit = campaign.study.caching.bytes
        self._storage = open_storage(campaign.study.stages)
        self._known: dict[str, int] = {}  # bytes of what is there, by name
        self._listed = -math.inf

    def after(self, errand: Errand) -> None:
        """Evicts if an errand that ended left too much, or if the last listing is old."""
        if self._limit is None:
            return
        run = errand.job.specification
        for name in (*self._campaign.stages(run), f"{RESUME}/{run.id}"):
            if name not in self._known and (size := self._storage.size(name)):
                self._known[name] = size
        if time.monotonic() - self._listed > _LISTING or self._too_much(self._limit):
            self.keep()

    def _too_much(self, limit: int) -> bool:
        total = sum(self._known.values())
        if total <= limit:
            return False
        needed = self._campaign.needed()
        return sum(size for name, size in self._known.items() if name not in needed) > _ROOM * total

    def keep(self) -> None:
        """Evicts what is no longer needed, if there is too much."""
        if self._limit is None:
            return
        self._listed = time.monotonic()
        found = evict(self._storage, self._campaign.needed, self._limit, int(_ROOM * self._limit))
        self._known = {unit.name: unit.bytes for unit in found.staying}
        if found.left > self._limit and not self._told:
            self._told = True
            budget = self._campaign.study.caching.budget
            self._say(
                f"states still needed take {found.left / 1e9:.3g} GB, more than cache.budget = {budget}; all are kept"
            )
