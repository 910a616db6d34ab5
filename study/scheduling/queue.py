"""Queue of trials: pending and running, and which one to start next.

The time of a decision does not grow with the number of pending trials. They are in heaps: two for each system, of the
trials that would wait for a running one and of the others. A trial with a changed priority is put into a heap again,
and its older places are skipped.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from study.scheduling.trials import TrialRequest
from trainables.specs.run_spec import RunSpec

RunCheckpoints = tuple[tuple[int, str], ...]
"""Instances and keys of the checkpoints of a run, in the order of training."""


class _QueuedTrial(NamedTuple):
    request: TrialRequest
    checkpoints: RunCheckpoints  # empty for a run that does not train
    depends_on: str | None  # id of the run that must end before this one starts
    number: int  # of several with the same priority, the one that was added first starts first

    @property
    def first_checkpoint(self) -> str | None:
        """Key of the first checkpoint; of two trials with the same one, the second would wait for the first."""
        return self.checkpoints[0][1] if self.checkpoints else None

    @property
    def searched_system(self) -> str | None:
        """System with the search rounds that count for the priority; None for a run that does not train."""
        return self.request.labels["variant"] if self.checkpoints else None


class _Place(NamedTuple):
    """Place of a pending trial in a heap: the smallest one is next."""

    negative_instances: int  # minus the instances that are left to train
    number: int
    run_id: str


_HeapKey = tuple[str | None, bool]
"""System with the search rounds that count, and whether the trial would wait for a running one."""


class TrialQueue:
    """Queue of the pending and running trials; a run is in it at most once.

    Args:
        list_checkpoints: returns the checkpoints of a run.
        count_rounds_left: returns the number of remaining search rounds of a system, by its name.
    """

    def __init__(
        self, list_checkpoints: Callable[[RunSpec], RunCheckpoints], count_rounds_left: Callable[[str], int]
    ) -> None:
        self._list_checkpoints, self._count_rounds_left = list_checkpoints, count_rounds_left
        self._queue: dict[str, _QueuedTrial] = {}
        self._running: dict[str, _QueuedTrial] = {}
        self._numbers = count()
        self._finished_runs: list[RunSpec] = []  # runs with checkpoints that are not in _saved_keys yet
        self._saved_keys: set[str] = set()
        self._heaps: defaultdict[_HeapKey, list[_Place]] = defaultdict(list)
        self._places: dict[str, tuple[_HeapKey, _Place]] = {}  # by run id, where a pending run that can start is now
        self._done: dict[str, int] = {}  # by id of a pending run, the instances that it need not train
        self._pending_by_checkpoint: defaultdict[str, set[str]] = defaultdict(set)  # ids of the pending runs
        self._dependants: defaultdict[str, set[str]] = defaultdict(set)  # ids of the pending runs that wait for a run
        self._busy: Counter[str] = Counter()  # first checkpoints of the running trials

    def __contains__(self, run_id: str) -> bool:
        """Return whether a run is pending or running."""
        return run_id in self._queue or run_id in self._running

    def __len__(self) -> int:
        """Return the number of pending and running runs."""
        return len(self._queue) + len(self._running)

    def add(self, request: TrialRequest) -> None:
        """Add a trial; if its curriculum needs a scoring run, it starts after the scoring run has ended."""
        run = request.trial.specification
        checkpoints = self._list_checkpoints(run) if request.trial.action == "train" else ()
        number = self._queue[run.id].number if run.id in self._queue else next(self._numbers)
        if run.id in self._queue:
            self._remove(run.id)
        entry = _QueuedTrial(request, checkpoints, run.curriculum.scorer if run.curriculum else None, number)
        self._queue[run.id] = entry
        self._done[run.id] = max((stop for stop, key in checkpoints if key in self._saved_keys), default=0)
        for _, key in checkpoints:
            self._pending_by_checkpoint[key].add(run.id)
        if entry.depends_on is not None:
            self._dependants[entry.depends_on].add(run.id)
        self._put(run.id)
        for dependant in self._dependants.get(run.id, ()):
            self._places.pop(dependant, None)

    def pop(self) -> TrialRequest | None:
        """Return the pending trial with the highest priority, or None if no trial can start.

        Trials are ordered by these criteria, in this order:

        1. Other trials wait for its run.
        2. It does not share its first checkpoint with a running trial, for which it would only wait.
        3. Its search has more rounds left.
        4. It has more instances to train itself.
        5. It was added first.
        """
        if not self._places:
            return None
        self._note_finished_runs()
        places = [self._places[run_id] for run_id in self._dependants if run_id in self._places]
        if not places:
            tops = ((key, self._peek(key)) for key in list(self._heaps))
            places = [(key, top) for key, top in tops if top is not None]
        _, place = min(places, key=lambda found: (found[0][1], -self._count_rounds(found[0][0]), found[1]))
        entry = self._queue[place.run_id]
        self._remove(place.run_id)
        self._running[place.run_id] = entry
        if entry.first_checkpoint is not None:
            self._change_busy(entry.first_checkpoint, 1)
        return entry.request

    def mark_ended(self, run_id: str) -> None:
        """Remove the trial of a run from the running ones."""
        entry = self._running.pop(run_id, None)
        if entry is not None and entry.first_checkpoint is not None:
            self._change_busy(entry.first_checkpoint, -1)
        for dependant in self._dependants.get(run_id, ()):
            self._put(dependant)

    def mark_finished(self, run: RunSpec) -> None:
        """Record that the checkpoints of a finished run are available to other runs."""
        self._finished_runs.append(run)

    def _note_finished_runs(self) -> None:
        """Add the checkpoints of finished runs; late, because a finished study needs no keys of checkpoints."""
        while self._finished_runs:
            for stop, key in self._list_checkpoints(self._finished_runs.pop()):
                if key not in self._saved_keys:
                    self._saved_keys.add(key)
                    for run_id in self._pending_by_checkpoint.get(key, ()):
                        self._done[run_id] = max(self._done[run_id], stop)
                        self._put(run_id)

    def _change_busy(self, first_checkpoint: str, change: int) -> None:
        """Count a trial that starts or ends, and move the pending ones that would, or need no longer, wait for it."""
        was_busy = self._busy[first_checkpoint] > 0
        self._busy[first_checkpoint] += change
        if was_busy != (self._busy[first_checkpoint] > 0):
            for run_id in self._pending_by_checkpoint.get(first_checkpoint, ()):
                if self._queue[run_id].first_checkpoint == first_checkpoint:
                    self._put(run_id)

    def _put(self, run_id: str) -> None:
        """Put a pending trial into the heap where it belongs now, unless it must wait for another run."""
        entry = self._queue[run_id]
        if entry.depends_on is not None and entry.depends_on in self:
            self._places.pop(run_id, None)
            return
        total = entry.checkpoints[-1][0] if entry.checkpoints else 0
        is_busy = entry.first_checkpoint is not None and self._busy[entry.first_checkpoint] > 0
        found = (entry.searched_system, is_busy), _Place(self._done[run_id] - total, entry.number, run_id)
        if self._places.get(run_id) != found:
            self._places[run_id] = found
            heappush(self._heaps[found[0]], found[1])

    def _remove(self, run_id: str) -> None:
        entry = self._queue.pop(run_id)
        del self._done[run_id]
        self._places.pop(run_id, None)
        for _, key in entry.checkpoints:
            _discard(self._pending_by_checkpoint, key, run_id)
        if entry.depends_on is not None:
            _discard(self._dependants, entry.depends_on, run_id)

    def _peek(self, key: _HeapKey) -> _Place | None:
        """Return the next trial of a heap, or None; what is out of date is removed."""
        heap = self._heaps[key]
        while heap:
            if self._places.get(heap[0].run_id) == (key, heap[0]):
                return heap[0]
            heappop(heap)
        return None

    def _count_rounds(self, system: str | None) -> int:
        return 0 if system is None else self._count_rounds_left(system)


def _discard(ids_by_key: defaultdict[str, set[str]], key: str, run_id: str) -> None:
    """Remove an id, and its set if that is empty then."""
    ids_by_key[key].discard(run_id)
    if not ids_by_key[key]:
        del ids_by_key[key]
