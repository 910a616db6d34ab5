"""The errands that may start, and those that run: which of them comes next."""

from collections.abc import Callable
from typing import NamedTuple

from study.scheduling.trials import TrialRequest
from trainables.specs.base import RunSpec

RunCheckpoints = tuple[tuple[int, str], ...]
"""Instances and keys of the states that are kept of a run, in the order of training."""


class _Entry(NamedTuple):
    request: TrialRequest
    checkpoints: RunCheckpoints  # of a run that trains
    depends_on: str | None  # the run that must have ended before

    @property
    def first_checkpoint(self) -> str | None:
        """Two with the same one would wait for each other, so that something else had better run meanwhile."""
        return self.checkpoints[0][1] if self.checkpoints else None


class TrialQueue:
    """What is to be done. A run is in it at most once.

    Args:
        stops: of a run.
        rounds_left: how many rounds the search of a variant still has to go, by the variant's name.
    """

    def __init__(
        self, list_checkpoints: Callable[[RunSpec], RunCheckpoints], count_rounds_left: Callable[[str], int]
    ) -> None:
        self._list_checkpoints, self._count_rounds_left = list_checkpoints, count_rounds_left
        self._queue: dict[str, _Entry] = {}
        self._running: dict[str, _Entry] = {}
        self._finished_runs: list[RunSpec] = []  # finished runs whose states are not among the following yet
        self._saved_keys: set[str] = set()

    def __contains__(self, run_id: str) -> bool:
        """Whether a run is queued or running."""
        return run_id in self._queue or run_id in self._running

    def __len__(self) -> int:
        """Runs that are queued or running."""
        return len(self._queue) + len(self._running)

    def add(self, request: TrialRequest) -> None:
        """Queues it; a run whose curriculum asks a scorer begins when the scorer has ended."""
        run = request.trial.specification
        checkpoints = self._list_checkpoints(run) if request.trial.action == "train" else ()
        self._queue[run.id] = _Entry(request, checkpoints, run.curriculum.scorer if run.curriculum else None)

    def pop(self) -> TrialRequest | None:
        """The next to start, if there is one: one that others wait for, then the one with the longest way before it.

        That is the rounds which its search still has to go, then the instances that it has to train itself. One that
        begins as a running one does comes last, since it would wait for that one's stages.
        """
        free = [key for key, entry in self._queue.items() if entry.depends_on is None or entry.depends_on not in self]
        if not free:
            return None
        while self._finished_runs:  # only here, since a study that is finished needs none of them
            self._saved_keys.update(key for _, key in self._list_checkpoints(self._finished_runs.pop()))
        busy = {entry.first_checkpoint for entry in self._running.values()} - {None}
        awaited = {entry.depends_on for entry in self._queue.values()}
        run_id = max(free, key=lambda key: (key in awaited, *self._compute_priority(self._queue[key], busy)))
        entry = self._running[run_id] = self._queue.pop(run_id)
        return entry.request

    def mark_ended(self, run_id: str) -> None:
        """It does not run any more."""
        self._running.pop(run_id, None)

    def mark_finished(self, run: RunSpec) -> None:
        """A run's states are there for others."""
        self._finished_runs.append(run)

    def _compute_priority(self, entry: _Entry, busy: set[str | None]) -> tuple[bool, int, int]:
        rounds = self._count_rounds_left(entry.request.labels["variant"]) if entry.checkpoints else 0
        done = max((stop for stop, key in entry.checkpoints if key in self._saved_keys), default=0)
        whole = entry.checkpoints[-1][0] if entry.checkpoints else 0
        return entry.first_checkpoint not in busy, rounds, whole - done
