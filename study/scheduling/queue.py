"""The errands that may start, and those that run: which of them comes next."""

from collections.abc import Callable
from typing import NamedTuple

from study.scheduling.trials import Errand
from trainables.specs.base import Specification

Stops = tuple[tuple[int, str], ...]
"""Instances and keys of the states that are kept of a run, in the order of training."""


class _Entry(NamedTuple):
    errand: Errand
    stops: Stops  # of a run that trains
    after: str | None  # the run that must have ended before

    @property
    def beginning(self) -> str | None:
        """Two with the same one would wait for each other, so that something else had better run meanwhile."""
        return self.stops[0][1] if self.stops else None


class Agenda:
    """What is to be done. A run is in it at most once.

    Args:
        stops: of a run.
        rounds_left: how many rounds the search of a variant still has to go, by the variant's name.
    """

    def __init__(self, stops: Callable[[Specification], Stops], rounds_left: Callable[[str], int]) -> None:
        self._stops, self._rounds_left = stops, rounds_left
        self._queue: dict[str, _Entry] = {}
        self._running: dict[str, _Entry] = {}
        self._ended: list[Specification] = []  # finished runs whose states are not among the following yet
        self._kept: set[str] = set()

    def __contains__(self, run_id: str) -> bool:
        """Whether a run is queued or running."""
        return run_id in self._queue or run_id in self._running

    def __len__(self) -> int:
        """Runs that are queued or running."""
        return len(self._queue) + len(self._running)

    def add(self, errand: Errand) -> None:
        """Queues it; a run whose curriculum asks a scorer begins when the scorer has ended."""
        run = errand.job.specification
        stops = self._stops(run) if errand.job.action == "train" else ()
        self._queue[run.id] = _Entry(errand, stops, run.curriculum.scorer if run.curriculum else None)

    def take(self) -> Errand | None:
        """The next to start, if there is one: one that others wait for, then the one with the longest way before it.

        That is the rounds which its search still has to go, then the instances that it has to train itself. One that
        begins as a running one does comes last, since it would wait for that one's stages.
        """
        free = [key for key, entry in self._queue.items() if entry.after is None or entry.after not in self]
        if not free:
            return None
        while self._ended:  # only here, since a study that is finished needs none of them
            self._kept.update(key for _, key in self._stops(self._ended.pop()))
        busy = {entry.beginning for entry in self._running.values()} - {None}
        awaited = {entry.after for entry in self._queue.values()}
        run_id = max(free, key=lambda key: (key in awaited, *self._urgency(self._queue[key], busy)))
        entry = self._running[run_id] = self._queue.pop(run_id)
        return entry.errand

    def end(self, run_id: str) -> None:
        """It does not run any more."""
        self._running.pop(run_id, None)

    def finish(self, run: Specification) -> None:
        """A run's states are there for others."""
        self._ended.append(run)

    def _urgency(self, entry: _Entry, busy: set[str | None]) -> tuple[bool, int, int]:
        rounds = self._rounds_left(entry.errand.labels["variant"]) if entry.stops else 0
        done = max((stop for stop, key in entry.stops if key in self._kept), default=0)
        whole = entry.stops[-1][0] if entry.stops else 0
        return entry.beginning not in busy, rounds, whole - done
