"""Runs the search of one system in rounds and records the state of every proposal."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from records.search_log import ProposalState
from search_spaces.search import SeedAveragedSearch
from search_spaces.space import Params
from study.folder.run_store import RunStore
from study.scheduling.choice import collect_per_query, compute_mean, compute_mean_of_finished, extrapolate_mean
from study.scheduling.racing import FIRST_ROUND_SEEDS, find_pruned
from study.scheduling.trials import PlannedConfiguration
from trainables.metrics import LOWER_IS_BETTER
from trainables.specs.run_spec import RunSpec
from trainables.utils.hashing import hash_json


class SystemSearch:
    """Search of one system. The first round begins at once, unless a budget is exhausted.

    Args:
        search: proposes hyperparameters.
        make_configuration: creates a configuration from hyperparameters.
        store: the run records.
        metric: metric of the search.
        racing: whether seeds are started in several steps and significantly worse configurations get no further seeds.
        find_exhausted_budget: returns the key of an exhausted budget, or None.
        previous_log: log of this search from an earlier start (see `build_log`), or None.

    Attributes:
        search: proposes hyperparameters.
        n_requested: number of proposals that the study asks for.
        stopped_by: key of the budget that stopped the search, or None.
        configurations: all proposed configurations in the order of proposal.
        reported: value that was reported to the sampler, by id of the configuration; None if it has no result.
        pruned: number of seeds that each pruned configuration got, by its id.
    """

    def __init__(
        self,
        search: SeedAveragedSearch,
        make_configuration: Callable[[Params], PlannedConfiguration],
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
        self.configurations: list[PlannedConfiguration] = []
        self.reported: dict[str, float | None] = {}
        self.pruned: dict[str, int] = {}
        self._round: list[PlannedConfiguration] = []
        self._seeds_started = 0  # of each configuration of the round that is not pruned
        rows = previous_log["proposals"] if previous_log and previous_log["key"] == self._key else []
        self._previous_rows = [row for row in rows if not row.get("swept")]
        self._start_next_round()

    @property
    def is_finished(self) -> bool:
        """True if no proposal is in progress and none will follow."""
        return not self._round

    @property
    def rounds_left(self) -> int:
        """Number of rounds after the current one."""
        return -(-(self.search.n_configurations - len(self.configurations)) // self.search.round_size)

    @property
    def is_catching_up(self) -> bool:
        """True if proposals of an earlier start are left to make again."""
        return not self.is_finished and len(self.configurations) < min(len(self._previous_rows), self.n_requested)

    @property
    def in_progress(self) -> list[PlannedConfiguration]:
        """Configurations of the current round that are not pruned."""
        return [item for item in self._round if item.id not in self.pruned]

    @property
    def _complete(self) -> list[PlannedConfiguration]:
        return [item for item in self.configurations if self.get_state(item) == "complete"]

    def get_due_runs(self) -> list[tuple[PlannedConfiguration, RunSpec]]:
        """Return the runs of the current round that have been started, finished ones included."""
        return [
            (item, run) for item in self._round for run in item.runs[: self.pruned.get(item.id, self._seeds_started)]
        ]

    def advance(self) -> None:
        """Start the next seed or the next round after all due runs have ended, and prune configurations."""
        if self._seeds_started < len(self._round[0].runs):
            self._prune()
            self._seeds_started += 1
            if self.in_progress:
                return
        self._tell()
        self._start_next_round()

    def get_state(self, item: PlannedConfiguration) -> ProposalState:
        """Return the state of a proposal."""
        if item.id in self.pruned:
            return "dropped"
        states = [self._store.get_state(run.id, "dev") for run in item.runs]
        if all(state == "finished" for state in states):
            return "complete"
        return "incomplete" if "failed" in states else "unknown"

    def iter_reachable(self) -> Iterator[PlannedConfiguration]:
        """Yield the configurations that may still be proposed."""
        return map(self._make_configuration, self.search.list_remaining())

    def _prune(self) -> None:
        """Prune what is worse than the best of the round and of the complete configurations, over the seeds so far."""
        candidates = {item.id: item for item in self.in_progress}
        sign = -1 if self._metric in LOWER_IS_BETTER else 1
        values_by_id = {
            key: sign * values
            for key, item in {**{item.id: item for item in self._complete}, **candidates}.items()
            if (values := collect_per_query(item.runs[: self._seeds_started], self._store, self._metric)) is not None
        }
        n_seeds, n_competitors = len(self._round[0].runs), self.n_requested - 1
        for key in find_pruned(values_by_id, candidates, n_seeds, n_competitors):
            self.pruned[key] = self._seeds_started

    def _tell(self) -> None:
        """Report the round to the sampler."""
        complete, n_told = self._complete, len(self.reported)
        reported = {item.id: self._compute_value(item, complete) for item in self._round}
        self.search.tell([*reported.values()])
        previous_rows = self._previous_rows[n_told : n_told + len(reported)]
        if [*reported.items()] != [(row["configuration_id"], row["reported"]) for row in previous_rows]:
            self._previous_rows = []  # after different results, the sampler may make different proposals
        self.reported |= reported
        self._round = []

    def _compute_value(self, item: PlannedConfiguration, complete: list[PlannedConfiguration]) -> float | None:
        if item.id in self.pruned:
            return extrapolate_mean(item, self.pruned[item.id], complete, self._store, self._metric)
        return compute_mean(item, self._store, self._metric)

    def _start_next_round(self) -> None:
        """Start the next round, unless a budget is exhausted and no earlier start has begun that round."""
        earlier = self._find_earlier_proposals()
        proposals = self.search.ask(earlier)
        if not proposals:
            return
        configurations = [self._make_configuration(params) for params in proposals]
        has_begun = earlier or any(self._store.get_state(run.id, "dev") for item in configurations for run in item.runs)
        self.stopped_by = None if has_begun else self._find_exhausted_budget()
        if self.stopped_by:
            self.search.cancel_last_ask()
        else:
            self._round, n_seeds = configurations, len(configurations[0].runs)
            self.configurations += configurations
            self._seeds_started = min(FIRST_ROUND_SEEDS, n_seeds) if self._racing else n_seeds

    @property
    def _key(self) -> str:
        """Hash of everything that the proposals depend on, except the results."""
        return hash_json([self.search.key, self._metric, self._racing])

    def _find_earlier_proposals(self) -> list[Params]:
        """Return the next proposals of an earlier start, if its sampler got the same results until here."""
        rows = self._previous_rows[len(self.reported) : len(self.reported) + self.search.round_size]
        known = {tuple(sorted(params.values.items())): params for params in self.search.configurations} if rows else {}
        proposals = [known.get(tuple(sorted(row["values"].items()))) for row in rows]
        return [params for params in proposals if params is not None]

    def build_log(
        self,
        winner: PlannedConfiguration | None,
        default: PlannedConfiguration,
        swept: Sequence[PlannedConfiguration] = (),
    ) -> dict[str, Any]:
        """Return the log of the search for search.json and the report.

        Args:
            winner: the chosen configuration, or None.
            default: the default configuration of the system.
            swept: configurations of W&B sweeps that the search did not propose; the log lists them after the proposals.
        """
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
                    "reported": self.reported.get(item.id),
                    "untuned": item.id == default.id,
                    **({"swept": True} if item in swept else {}),
                }
                for number, item in enumerate([*self.configurations, *swept])
            ],
            "winner": winner.id if winner else None,
            "untuned": default.id,
        }
