"""Keeps the checkpoints of running studies within their budget."""

import math
import time
from collections.abc import Callable, Sequence

from study.scheduling.scheduler import BaseScheduler
from study.scheduling.trials import TrialRequest
from trainables.storage import open_storage
from trainables.storage.base import RESUME_FOLDER
from trainables.storage.eviction import evict

_LISTING_INTERVAL_S = 600.0
"""Seconds after which the checkpoints are listed again."""
_FREED_SHARE = 0.05
"""Share of the budget that an eviction frees for new checkpoints. Fewer unneeded checkpoints than that are kept."""


class CheckpointEvictor:
    """Evicts checkpoints when they exceed the studies' `cache.max_size`.

    Listing a storage takes time, and on object stores requests. So the evictor remembers a listing and adds what the
    studies' own runs have written since, with a request for each trial and each new checkpoint. It lists the storage
    again only when there is something to evict: the checkpoints exceed the budget, and at least 5 % of their bytes are
    no longer needed. Other studies write to the same storage, so it is also listed again after ten minutes.

    Args:
        schedulers: know which checkpoints are still needed, each for its study. All studies have the same cache.
        log: called with one line, once, if the needed checkpoints alone exceed the budget.
    """

    def __init__(self, schedulers: Sequence[BaseScheduler], log: Callable[[str], None]) -> None:
        self._schedulers = {each.study.name: each for each in schedulers}
        self._log, self._has_warned, study = log, False, schedulers[0].study
        self._budget, self._limit = study.cache.max_size, study.cache.max_bytes
        self._storage = open_storage(study.checkpoints_url)
        self._known_sizes: dict[str, int] = {}  # bytes of each known checkpoint, by name
        self._last_listing = -math.inf

    def on_trial_end(self, request: TrialRequest) -> None:
        """Evict checkpoints if the ended trial left too many, or if the last listing is old."""
        if self._limit is None:
            return
        run = request.trial.specification
        scheduler = self._schedulers[request.labels["study"]]
        for name in (*scheduler.list_checkpoint_keys(run), f"{RESUME_FOLDER}/{run.id}"):
            if name not in self._known_sizes and (size := sum(file.size for file in self._storage.list_files(name))):
                self._known_sizes[name] = size
        if time.monotonic() - self._last_listing > _LISTING_INTERVAL_S or self._should_evict(self._limit):
            self.evict_unneeded()

    def _should_evict(self, limit: int) -> bool:
        total = sum(self._known_sizes.values())
        if total <= limit:
            return False
        needed = self._list_needed()
        return sum(size for name, size in self._known_sizes.items() if name not in needed) > _FREED_SHARE * total

    def evict_unneeded(self) -> None:
        """Evict checkpoints that are no longer needed, if the budget is exceeded and it is known what is needed."""
        if self._limit is None or any(each.is_catching_up for each in self._schedulers.values()):
            return
        self._last_listing = time.monotonic()
        result = evict(self._storage, self._list_needed, self._limit, int(_FREED_SHARE * self._limit))
        self._known_sizes = {unit.name: unit.size for unit in result.remaining}
        if result.remaining_bytes > self._limit and not self._has_warned:
            self._has_warned = True
            self._log(
                f"checkpoints still in use need {result.remaining_bytes / 1e9:.3g} GB but cache.max_size is "
                f"{self._budget}; keeping all of them"
            )

    def _list_needed(self) -> set[str]:
        return {name for scheduler in self._schedulers.values() for name in scheduler.list_needed_checkpoints()}
