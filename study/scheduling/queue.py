"""Queue of trials: pending and running, and which one to start next."""

from collections.abc import Callable
from typing import NamedTuple

from study.scheduling.trials import TrialRequest
from trainables.specs.base import RunSpec

RunCheckpoints = tuple[tuple[int, str], ...]
"""Instances and keys of the checkpoints of a run, in the order of training."""


class _Entry(NamedTuple):
    request: TrialRequest
    checkpoints: RunCheckpoints  # empty for a run that does not train
    depends_on: str | None  # id of the run that must end before this one starts

    @property
    def first_checkpoint(self) -> str | None:
        """Key of the first checkpoint; of two trials with the same one, the second would wait for the first."""
        return self.checkpoints[0][1] if self.checkpoints else None


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
        self._queue: dict[str, _Entry] = {}
        self._running: dict[str, _Entry] = {}
        self._finished_runs: list[RunSpec] = []  # runs with checkpoints that are not in _saved_keys yet
        self._saved_keys: set[str] = set()

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
        self._queue[run.id] = _Entry(request, checkpoints, run.curriculum.scorer if run.curriculum else None)

    def pop(self) -> TrialRequest | None:
        """Return the pending trial with the highest priority, or None if no trial can start.

        Trials are ordered by these criteria, in this order:

        1. Other trials wait for its run.
        2. It does not share its first checkpoint with a running trial, for which it would only wait.
        3. Its search has more rounds left.
        4. It has more instances to train itself.
        """
        free = [key for key, entry in self._queue.items() if entry.depends_on is None or entry.depends_on not in self]
        if not free:
            return None
        while self._finished_runs:  # computed late, because a finished study needs no checkpoint keys
            self._saved_keys.update(key for _, key in self._list_checkpoints(self._finished_runs.pop()))
        busy = {entry.first_checkpoint for entry in self._running.values()} - {None}
        awaited = {entry.depends_on for entry in self._queue.values()}
        run_id = max(free, key=lambda key: (key in awaited, *self._compute_priority(self._queue[key], busy)))
        entry = self._running[run_id] = self._queue.pop(run_id)
        return entry.request

    def mark_ended(self, run_id: str) -> None:
        """Remove the trial of a run from the running ones."""
        self._running.pop(run_id, None)

    def mark_finished(self, run: RunSpec) -> None:
        """Record that the checkpoints of a finished run are available to other runs."""
        self._finished_runs.append(run)

    def _compute_priority(self, entry: _Entry, busy: set[str | None]) -> tuple[bool, int, int]:
        rounds = self._count_rounds_left(entry.request.labels["variant"]) if entry.checkpoints else 0
        done = max((stop for stop, key in entry.checkpoints if key in self._saved_keys), default=0)
        total = entry.checkpoints[-1][0] if entry.checkpoints else 0
        return entry.first_checkpoint not in busy, rounds, total - done
