"""The search of one variant as a study conducts it: round after round, and what became of each proposal."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from analysis.data.search_log import ProposalState
from search_spaces.search import SeedAveragedSearch
from search_spaces.space import Params
from study.records.run_store import RunStore
from study.scheduling.objectives import compute_means, compute_means_of_finished, pareto_front, to_maximization_values
from study.scheduling.round import SearchRound, extrapolate_mean
from study.scheduling.trials import Configuration
from trainables.specs.base import RunSpec
from trainables.utils.hashing import hash_json


class ReportedProposal(NamedTuple):
    """A configuration that was proposed, and what the sampler was told of it."""

    configuration: Configuration
    reported: list[float] | None


class SystemSearch:
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
        search: SeedAveragedSearch,
        make_configuration: Callable[[Params], Configuration],
        store: RunStore,
        objectives: Sequence[str],
        racing: bool,
        find_exhausted_budget: Callable[[], str | None],
        previous_log: dict[str, Any] | None = None,
    ) -> None:
        self.search, self._make_configuration, self._store = search, make_configuration, store
        self._objectives, self._racing, self._find_exhausted_budget = objectives, racing, find_exhausted_budget
        self.n_requested = search.n_configurations
        self.stopped_by: str | None = None
        self.entries: list[ReportedProposal] = []
        self.pruned: dict[str, int] = {}
        self._round: SearchRound | None = None
        rows = previous_log["proposals"] if previous_log and previous_log["key"] == self._key else []
        self._previous_rows = [row for row in rows if not row.get("swept")]

    @property
    def is_finished(self) -> bool:
        """No proposal is open, and none will be made."""
        return self._round is None

    @property
    def configurations(self) -> list[Configuration]:
        """All that were proposed, in that order."""
        return [entry.configuration for entry in self.entries] + (self._round.configurations if self._round else [])

    @property
    def rounds_left(self) -> int:
        """Rounds after the present one."""
        return -(-(self.search.n_configurations - len(self.configurations)) // self.search.round_size)

    @property
    def in_progress(self) -> list[Configuration]:
        """Those of the present round that are still in it."""
        return [item for item in self._round.configurations if item.id not in self.pruned] if self._round else []

    def get_due_runs(self) -> list[tuple[Configuration, RunSpec]]:
        """The runs of the present round that may run by now, done or not."""
        return list(self._round.get_due_runs()) if self._round else []

    def begin(self) -> None:
        """Asks for the first round."""
        self._start_next_round()

    def advance(self) -> None:
        """All that was due has ended: more seeds, or the next round."""
        assert self._round is not None
        complete = [item for item in self.configurations if self.get_state(item) == "complete"]
        if self._round.advance(complete, self._store, self._objectives[0], self.n_requested - 1):
            self.pruned |= self._round.pruned
            return
        self.pruned |= self._round.pruned
        self._tell(self._round)
        self._start_next_round()

    def get_state(self, item: Configuration) -> ProposalState:
        """What became of a proposal."""
        if item.id in self.pruned:
            return "dropped"
        states = [self._store.get_state(run.id, "dev") for run in item.runs]
        if all(state == "finished" for state in states):
            return "complete"
        return "incomplete" if "failed" in states else "unknown"

    def compute_complete_values(self, swept: Sequence[Configuration] = ()) -> dict[str, tuple[float, ...]]:
        """By configuration, what its objectives are worth, more being better; of the complete ones, in their order."""
        found = {}
        for item in [*self.configurations, *swept]:
            values = compute_means(item, self._store, self._objectives) if item.id not in self.pruned else None
            if values is not None:
                found[item.id] = to_maximization_values(values, self._objectives)
        return found

    def iter_reachable(self) -> Iterator[Configuration]:
        """What may still be proposed."""
        return map(self._make_configuration, self.search.list_remaining())

    def _tell(self, finished_round: SearchRound) -> None:
        complete = [item for item in self.configurations if self.get_state(item) == "complete"]
        reported = [self._compute_value(item, complete) for item in finished_round.configurations]
        self.search.tell(reported)
        entries = [
            ReportedProposal(item, value) for item, value in zip(finished_round.configurations, reported, strict=True)
        ]
        before = self._previous_rows[len(self.entries) : len(self.entries) + len(entries)]
        if [(entry.configuration.id, entry.reported) for entry in entries] != [
            (row["configuration_id"], row["told"]) for row in before
        ]:
            self._previous_rows = []  # the sampler learns something else than then, and may propose something else
        self.entries += entries
        self._round = None

    def _compute_value(self, item: Configuration, complete: list[Configuration]) -> list[float] | None:
        if item.id in self.pruned:
            value = extrapolate_mean(item, self.pruned[item.id], complete, self._store, self._objectives[0])
            return None if value is None else [value]
        return compute_means(item, self._store, self._objectives)

    def _start_next_round(self) -> None:
        """The next round, unless a budget is spent and nothing of that round has begun."""
        points = self.search.ask(self._find_earlier_proposals())
        if not points:
            return
        made = [self._make_configuration(point) for point in points]
        begun = any(self._store.get_state(run.id, "dev") for item in made for run in item.runs)
        self.stopped_by = None if begun else self._find_exhausted_budget()
        if self.stopped_by:
            self.search.cancel_last_ask()
        else:
            self._round = SearchRound(made, self._racing)

    @property
    def _key(self) -> str:
        """What proposals depend on beside the results."""
        return hash_json([self.search.key, self._objectives, self._racing])

    def _find_earlier_proposals(self) -> list[Params]:
        """What an earlier start proposed next, where it was told the same until here."""
        rows = self._previous_rows[len(self.entries) : len(self.entries) + self.search.round_size]
        named = {tuple(sorted(point.values.items())): point for point in self.search.configurations} if rows else {}
        found = [named.get(tuple(sorted(row["values"].items()))) for row in rows]
        return [point for point in found if point is not None]

    def build_log(
        self, winner: Configuration | None, default: Configuration, swept: Sequence[Configuration] = ()
    ) -> dict[str, Any]:
        """What the search did, as it is written down and reported; beside its proposals what was swept and they lack.

        Args:
            winner: the configuration chosen, if there is one.
            untuned: the default of the system.
            swept: configurations that sweeps brought.
        """
        reported = {entry.configuration.id: entry.reported for entry in self.entries}
        return {
            "key": self._key,
            "sampler": self.search.sampler,
            "size": self.search.space_size,
            "wanted": self.n_requested,
            "proposed": len(self.configurations),
            "stopped": self.stopped_by,
            "grid": self.search.searched_values,
            "proposals": [
                {
                    "number": number,
                    "configuration_id": item.id,
                    "values": item.params.values,
                    "state": self.get_state(item),
                    "seeds": [run.seed for run in item.runs if self._store.is_finished(run.id, "dev")],
                    "objectives": compute_means_of_finished(item, self._store, self._objectives),
                    "told": reported.get(item.id),
                    "untuned": item.id == default.id,
                    **({"swept": True} if item in swept else {}),
                }
                for number, item in enumerate([*self.configurations, *swept])
            ],
            "winner": winner.id if winner else None,
            "front": pareto_front(self.compute_complete_values(swept)),
            "untuned": default.id,
        }
