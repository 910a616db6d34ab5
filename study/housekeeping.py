"""What a study does for the disk: removes what killed processes left, and keeps the states within their budget."""

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from tempfile import TemporaryFile

from study.config import Study
from study.work import Work
from trainables.eviction import evict
from trainables.files import sweep
from trainables.last_words import FILE
from trainables.storage import storage

_FORGOTTEN = 7 * 24 * 3600.0
"""Seconds."""


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

    Args:
        campaign: knows what is still needed.
        say: told once if that alone exceeds the budget.
    """

    def __init__(self, campaign: Work, say: Callable[[str], None]) -> None:
        self._campaign, self._say, self._told = campaign, say, False
        self._limit = campaign.study.caching.bytes
        self._storage = storage(campaign.study.stages)

    def keep(self) -> None:
        """Evicts what is no longer needed, if there is too much."""
        if self._limit is None:
            return
        left = evict(self._storage, self._campaign.needed, self._limit).left
        if left > self._limit and not self._told:
            self._told = True
            budget = self._campaign.study.caching.budget
            self._say(f"states still needed take {left / 1e9:.3g} GB, more than cache.budget = {budget}; all are kept")
