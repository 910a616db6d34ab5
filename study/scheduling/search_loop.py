"""Runs the search of one system in rounds and records the state of every proposal."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from analysis.data.search_log import ProposalState
from search_spaces.search import SeedAveragedSearch
from search_spaces.space import Params
from study.records.run_store import RunStore
from study.scheduling.choice import compute_mean, compute_mean_of_finished
from study.scheduling.round import SearchRound, extrapolate_mean
from study.scheduling.trials import Configuration
from trainables.specs.base import RunSpec
from trainables.utils.hashing import hash_json


class ReportedProposal(NamedTuple):
    """Proposed configuration with the value that was reported to the sampler, None if it has no result."""

    configuration: Configuration
    reported: float | None


class SystemSearch:
    """Search of one system.

    Args:
        search: proposes hyperparameters.
        make_configuration: creates a configuration from hyperparameters.
        store: the run records.
        metric: metric of the search.
        racing: whether significantly worse configurations are pruned.
        find_exhausted_budget: returns the key of an exhausted budget, or None.
        previous_log: log of this search from an earlier start (see `build_log`), or None.

    Attributes:
        search: proposes hyperparameters.
        n_requested: number of proposals that the study asks for.
        stopped_by: key of the budget that stopped the search, or None.
        entries: proposals of the finished rounds, in their order.
        pruned: number of seeds that each pruned configuration got, by its id.
    """

    def __init__(
        self,
        search: SeedAveragedSearch,
        make_configuration: Callable[[Params], Configuration],
        store: RunStore,
        metric: str,
        racing: bool,
        find_exhausted_budget: Callable[[], str | None],
        previous_log: dict[str, Any] | None = None,
    ) -> None:
        self.search, self._make_configuration, self._store = search, make_configuration, store
        self._metric, self._racing, self._find_exhausted_budget = metric, racing, find_exhausted_budget
        self.n_requested = search.n_configurations
        self.stopped_by: str | None = None
        self.entries: list[ReportedProposal] = []
        self.pruned: dict[str, int] = {}
        self._round: SearchRound | None = None
        rows = previous_log["proposals"] if previous_log and previous_log["key"] == self._key else []
        self._previous_rows = [row for row in rows if not row.get("swept")]

    @property
    def is_finished(self) -> bool:
        """True if no proposal is in progress and none will follow."""
        return self._round is None

    @property
    def configurations(self) -> list[Configuration]:
        """All proposed configurations in the order of proposal."""
        return [entry.configuration for entry in self.entries] + (self._round.configurations if self._round else [])

    @property
    def rounds_left(self) -> int:
        """Number of rounds after the current one."""
        n_proposed = len(self.entries) + (len(self._round.configurations) if self._round else 0)
        return -(-(self.search.n_configurations - n_proposed) // self.search.round_size)

    @property
    def in_progress(self) -> list[Configuration]:
        """Configurations of the current round that are not pruned."""
        return [item for item in self._round.configurations if item.id not in self.pruned] if self._round else []

    def get_due_runs(self) -> list[tuple[Configuration, RunSpec]]:
        """Return the runs of the current round that have been started, finished ones included."""
        return list(self._round.get_due_runs()) if self._round else []

    def begin(self) -> None:
        """Start the first round."""
        self._start_next_round()

    def advance(self) -> None:
        """Start more seeds or the next round after all due runs have ended."""
        assert self._round is not None
        complete = [item for item in self.configurations if self.get_state(item) == "complete"]
        if self._round.advance(complete, self._store, self._metric, self.n_requested - 1):
            self.pruned |= self._round.pruned
            return
        self.pruned |= self._round.pruned
        self._tell(self._round)
        self._start_next_round()

    def get_state(self, item: Configuration) -> ProposalState:
        """Return the state of a proposal."""
        if item.id in self.pruned:
            return "dropped"
        states = [self._store.get_state(run.id, "dev") for run in item.runs]
        if all(state == "finished" for state in states):
            return "complete"
        return "incomplete" if "failed" in states else "unknown"

    def iter_reachable(self) -> Iterator[Configuration]:
        """Yield the configurations that may still be proposed."""
        return map(self._make_configuration, self.search.list_remaining())

    def _tell(self, finished_round: SearchRound) -> None:
        complete = [item for item in self.configurations if self.get_state(item) == "complete"]
        reported = [self._compute_value(item, complete) for item in finished_round.configurations]
        self.search.tell(reported)
        entries = [
            ReportedProposal(item, value) for item, value in zip(finished_round.configurations, reported, strict=True)
        ]
        previous_rows = self._previous_rows[len(self.entries) : len(self.entries) + len(entries)]
        if [(entry.configuration.id, entry.reported) for entry in entries] != [
            (row["configuration_id"], row["reported"]) for row in previous_rows
        ]:
            self._previous_rows = []  # after different results, the sampler may make different proposals
        self.entries += entries
        self._round = None

    def _compute_value(self, item: Configuration, complete: list[Configuration]) -> float | None:
        if item.id in self.pruned:
            return extrapolate_mean(item, self.pruned[item.id], complete, self._store, self._metric)
        return compute_mean(item, self._store, self._metric)

    def _start_next_round(self) -> None:
        """Start the next round, unless a budget is exhausted and no run of that round is recorded yet."""
        proposals = self.search.ask(self._find_earlier_proposals())
        if not proposals:
            return
        configurations = [self._make_configuration(params) for params in proposals]
        has_records = any(self._store.get_state(run.id, "dev") for item in configurations for run in item.runs)
        self.stopped_by = None if has_records else self._find_exhausted_budget()
        if self.stopped_by:
            self.search.cancel_last_ask()
        else:
            self._round = SearchRound(configurations, self._racing)

    @property
    def _key(self) -> str:
        """Hash of everything that the proposals depend on, except the results."""
        return hash_json([self.search.key, self._metric, self._racing])

    def _find_earlier_proposals(self) -> list[Params]:
        """Return the next proposals of an earlier start, if its sampler got the same results until here."""
        rows = self._previous_rows[len(self.entries) : len(self.entries) + self.search.round_size]
        known = {tuple(sorted(params.values.items())): params for params in self.search.configurations} if rows else {}
        proposals = [known.get(tuple(sorted(row["values"].items()))) for row in rows]
        return [params for params in proposals if params is not None]

    def build_log(
        self, winner: Configuration | None, default: Configuration, swept: Sequence[Configuration] = ()
    ) -> dict[str, Any]:
        """Return the log of the search for search.json and the report.

        Args:
            winner: the chosen configuration, or None.
            default: the default configuration of the system.
            swept: configurations of W&B sweeps that the search did not propose; the log lists them after the proposals.
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
                    "mean": compute_mean_of_finished(item, self._store, self._metric),
                    "reported": reported.get(item.id),
                    "untuned": item.id == default.id,
                    **({"swept": True} if item in swept else {}),
                }
                for number, item in enumerate([*self.configurations, *swept])
            ],
            "winner": winner.id if winner else None,
            "untuned": default.id,
        }
