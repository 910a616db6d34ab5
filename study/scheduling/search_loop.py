"""The search of one variant as a study conducts it: round after round, and what became of each proposal."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from analysis.data.search_log import State
from search_spaces.search import Search
from search_spaces.space import Point
from study.records.run_store import Ledger
from study.scheduling.objectives import front, gains, means, of_finished
from study.scheduling.round import Round, standing
from study.scheduling.trials import Configuration
from trainables.specs.base import Specification
from trainables.utils.hashing import digest


class Entry(NamedTuple):
    """A configuration that was proposed, and what the sampler was told of it."""

    configuration: Configuration
    told: list[float] | None


class Hunt:
    """The search of one variant.

    Args:
        search: proposes.
        make: a configuration from a point.
        ledger: of the records.
        objectives: metrics, the first of which decides.
        race: whether configurations that are behind are dropped.
        spent: the budget that is spent, if one is.
        before: what an earlier start of this study wrote of it (`log`), if there was one.
    """

    def __init__(
        self,
        search: Search,
        make: Callable[[Point], Configuration],
        ledger: Ledger,
        objectives: Sequence[str],
        race: bool,
        spent: Callable[[], str | None],
        before: dict[str, Any] | None = None,
    ) -> None:
        self.search, self._make, self._ledger = search, make, ledger
        self._objectives, self._race, self._spent = objectives, race, spent
        self.wanted = search.proposals
        self.stopped: str | None = None
        self.entries: list[Entry] = []
        self.dropped: dict[str, int] = {}
        self._round: Round | None = None
        rows = before["proposals"] if before and before["key"] == self._key else []
        self._before = [row for row in rows if not row.get("swept")]

    @property
    def over(self) -> bool:
        """No proposal is open, and none will be made."""
        return self._round is None

    @property
    def configurations(self) -> list[Configuration]:
        """All that were proposed, in that order."""
        return [entry.configuration for entry in self.entries] + (self._round.configurations if self._round else [])

    @property
    def rounds_left(self) -> int:
        """Rounds after the present one."""
        return -(-(self.search.proposals - len(self.configurations)) // self.search.parallel)

    @property
    def open(self) -> list[Configuration]:
        """Those of the present round that are still in it."""
        return [item for item in self._round.configurations if item.id not in self.dropped] if self._round else []

    def due(self) -> list[tuple[Configuration, Specification]]:
        """The runs of the present round that may run by now, done or not."""
        return list(self._round.due()) if self._round else []

    def begin(self) -> None:
        """Asks for the first round."""
        self._next()

    def advance(self) -> None:
        """All that was due has ended: more seeds, or the next round."""
        assert self._round is not None
        complete = [item for item in self.configurations if self.state(item) == "complete"]
        if self._round.advance(complete, self._ledger, self._objectives[0], self.wanted - 1):
            self.dropped |= self._round.dropped
            return
        self.dropped |= self._round.dropped
        self._tell(self._round)
        self._next()

    def state(self, item: Configuration) -> State:
        """What became of a proposal."""
        if item.id in self.dropped:
            return "dropped"
        states = [self._ledger.state(run.id, "dev") for run in item.runs]
        if all(state == "finished" for state in states):
            return "complete"
        return "incomplete" if "failed" in states else "unknown"

    def complete(self, swept: Sequence[Configuration] = ()) -> dict[str, tuple[float, ...]]:
        """By configuration, what its objectives are worth, more being better; of the complete ones, in their order."""
        found = {}
        for item in [*self.configurations, *swept]:
            values = means(item, self._ledger, self._objectives) if item.id not in self.dropped else None
            if values is not None:
                found[item.id] = gains(values, self._objectives)
        return found

    def possible(self) -> Iterator[Configuration]:
        """What may still be proposed."""
        return map(self._make, self.search.remaining())

    def _tell(self, ended: Round) -> None:
        complete = [item for item in self.configurations if self.state(item) == "complete"]
        told = [self._value(item, complete) for item in ended.configurations]
        self.search.tell(told)
        entries = [Entry(item, value) for item, value in zip(ended.configurations, told, strict=True)]
        before = self._before[len(self.entries) : len(self.entries) + len(entries)]
        if [(entry.configuration.id, entry.told) for entry in entries] != [
            (row["configuration_id"], row["told"]) for row in before
        ]:
            self._before = []  # the sampler learns something else than then, and may propose something else
        self.entries += entries
        self._round = None

    def _value(self, item: Configuration, complete: list[Configuration]) -> list[float] | None:
        if item.id in self.dropped:
            value = standing(item, self.dropped[item.id], complete, self._ledger, self._objectives[0])
            return None if value is None else [value]
        return means(item, self._ledger, self._objectives)

    def _next(self) -> None:
        """The next round, unless a budget is spent and nothing of that round has begun."""
        points = self.search.round(self._remembered())
        if not points:
            return
        made = [self._make(point) for point in points]
        begun = any(self._ledger.state(run.id, "dev") for item in made for run in item.runs)
        self.stopped = None if begun else self._spent()
        if self.stopped:
            self.search.withdraw()
        else:
            self._round = Round(made, self._race)

    @property
    def _key(self) -> str:
        """What proposals depend on beside the results."""
        return digest([self.search.key, self._objectives, self._race])

    def _remembered(self) -> list[Point]:
        """What an earlier start proposed next, where it was told the same until here."""
        rows = self._before[len(self.entries) : len(self.entries) + self.search.parallel]
        named = {tuple(sorted(point.values.items())): point for point in self.search.points} if rows else {}
        found = [named.get(tuple(sorted(row["values"].items()))) for row in rows]
        return [point for point in found if point is not None]

    def log(
        self, winner: Configuration | None, untuned: Configuration, swept: Sequence[Configuration] = ()
    ) -> dict[str, Any]:
        """What the search did, as it is written down and reported; beside its proposals what was swept and they lack.

        Args:
            winner: the configuration chosen, if there is one.
            untuned: the default of the system.
            swept: configurations that sweeps brought.
        """
        told = {entry.configuration.id: entry.told for entry in self.entries}
        return {
            "key": self._key,
            "sampler": self.search.sampler,
            "size": self.search.size,
            "wanted": self.wanted,
            "proposed": len(self.configurations),
            "stopped": self.stopped,
            "grid": self.search.varied,
            "proposals": [
                {
                    "number": number,
                    "configuration_id": item.id,
                    "values": item.point.values,
                    "state": self.state(item),
                    "seeds": [run.seed for run in item.runs if self._ledger.finished(run.id, "dev")],
                    "objectives": of_finished(item, self._ledger, self._objectives),
                    "told": told.get(item.id),
                    "untuned": item.id == untuned.id,
                    **({"swept": True} if item in swept else {}),
                }
                for number, item in enumerate([*self.configurations, *swept])
            ],
            "winner": winner.id if winner else None,
            "front": front(self.complete(swept)),
            "untuned": untuned.id,
        }
