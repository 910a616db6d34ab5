"""What a study does for the disk: removes what killed processes left, and keeps the states within their budget."""

import math
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from tempfile import TemporaryFile

from study.config.loader import Study
from study.scheduling.scheduler import BaseScheduler
from study.scheduling.trials import TrialRequest
from trainables.storage import open_storage
from trainables.storage.base import RESUME_FOLDER
from trainables.storage.eviction import evict
from trainables.utils.files import remove_stale_files
from trainables.worker.crash_report import CRASH_REPORT_FILE

_STALE_AFTER_S = 7 * 24 * 3600.0
"""Seconds."""
_LISTING_INTERVAL_S = 600.0
"""Seconds after which the states are listed again."""
_FREED_SHARE = 0.05
"""Share of the budget that an eviction frees for the states to come, and that may be exceeded until the next one."""


def clean_up_study(study: Study, is_exclusive: bool = True) -> None:
    """Removes the temporaries of dead processes, in the study's folder and in what it shares with others, the last
    words of trials that were killed with their driver, and preparations that were stopped and nobody has taken up again
    for a week.

    Args:
        study: whose folders.
        alone: whether no other process may be running trials of the study; else their last words stay.
    """
    for folder in {study.folder, study.cache}:
        remove_stale_files(folder, recursive=True)
    for crash_file in study.folder.glob(f"runs/*/{CRASH_REPORT_FILE}") if is_exclusive else ():
        crash_file.unlink(missing_ok=True)
    for preparation in (study.cache / "preparing").glob("*"):
        with suppress(FileNotFoundError):  # another process has just finished it
            if time.time() - preparation.stat().st_mtime > _STALE_AFTER_S:
                shutil.rmtree(preparation, ignore_errors=True)


def check_writable(study: Study) -> None:
    """Before anything is spent: whether files can be made in the study's folder and in the cache.

    Raises:
        OSError: they cannot.
    """
    for folder in (study.folder, study.cache):
        nearest = next(place for place in (folder, *folder.parents) if place.is_dir())
        with TemporaryFile(dir=nearest):
            pass


class CheckpointEvictor:
    """Evicts states when they exceed the study's `cache.budget`.

    Some file systems list a storage by a request for each state. So a listing is remembered, what the study's own runs
    wrote since is added, and the storage is listed again when there is something to evict: more than the budget, and
    of that at least 5 % that nobody needs. As other studies write too, it is listed every ten minutes at the latest.

    Args:
        campaign: knows what is still needed.
        say: told once if that alone exceeds the budget.
    """

    def __init__(self, scheduler: BaseScheduler, log: Callable[[str], None]) -> None:
        self._scheduler, self._log, self._has_warned = scheduler, log, False
        self._limit = scheduler.study.caching.budget_bytes
        self._storage = open_storage(scheduler.study.checkpoints_url)
        self._known_sizes: dict[str, int] = {}  # bytes of what is there, by name
        self._last_listing = -math.inf

    def on_trial_end(self, request: TrialRequest) -> None:
        """Evicts if an errand that ended left too much, or if the last listing is old."""
        if self._limit is None:
            return
        run = request.trial.specification
        for name in (*self._scheduler.list_checkpoint_keys(run), f"{RESUME_FOLDER}/{run.id}"):
            if name not in self._known_sizes and (size := self._storage.get_folder_size(name)):
                self._known_sizes[name] = size
        if time.monotonic() - self._last_listing > _LISTING_INTERVAL_S or self._should_evict(self._limit):
            self.evict_unneeded()

    def _should_evict(self, limit: int) -> bool:
        total = sum(self._known_sizes.values())
        if total <= limit:
            return False
        needed = self._scheduler.list_needed_checkpoints()
        return sum(size for name, size in self._known_sizes.items() if name not in needed) > _FREED_SHARE * total

    def evict_unneeded(self) -> None:
        """Evicts what is no longer needed, if there is too much."""
        if self._limit is None:
            return
        self._last_listing = time.monotonic()
        found = evict(
            self._storage, self._scheduler.list_needed_checkpoints, self._limit, int(_FREED_SHARE * self._limit)
        )
        self._known_sizes = {unit.name: unit.size for unit in found.remaining}
        if found.remaining_bytes > self._limit and not self._has_warned:
            self._has_warned = True
            budget = self._scheduler.study.caching.budget
            self._log(
                f"states still needed take {found.remaining_bytes / 1e9:.3g} GB, more than cache.budget = {budget}; "
                "all are kept"
            )
