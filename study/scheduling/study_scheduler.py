"""What has to run next: search rounds, confirmation, then the test set for the chosen. Knows nothing of Ray.

Everything it decides follows from the study file and from finished records, so a second start of the same study takes
exactly the decisions of the first; but for budgets of time, which say so.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from search_spaces.search import SeedAveragedSearch
from search_spaces.space import Params
from study.config.schema import Study
from study.config.spaces import count_proposals, make_system_space
from study.config.systems import UNTRAINED, get_systems
from study.records import run_record as record
from study.records.run_store import RunStore
from study.scheduling import sweep_trials as swept
from study.scheduling.objectives import get_directions, select_best
from study.scheduling.scheduler import BaseScheduler
from study.scheduling.search_loop import SystemSearch
from study.scheduling.trials import Configuration, ResolvedInputs, TrialRequest, get_role
from trainables.specs.base import RunSpec
from trainables.storage.base import RESUME_FOLDER

Phase = Literal["search", "confirm", "test"]


class StudyScheduler(BaseScheduler):
    """The study in progress.

    Args:
        study: what was asked for; its training settings already resolved.
        resolved: data, model and environment.
        ledger: of the study's records.
        plan_hash: goes into every run's labels.
        spent: the budget of time that is spent, if one is; asked before a round of proposals begins.
        before: by system, what an earlier start wrote of its searches (`study.records.search_log`).
        others: variants and points that sweeps have run or begun (`sweep_trials`): they get all their seeds, and are
            chosen from like what the searches propose. Once test scores exist, only those count that were chosen from.
    """

    def __init__(
        self,
        study: Study,
        resolved: ResolvedInputs,
        store: RunStore,
        plan_hash: str,
        find_exhausted_budget: Callable[[], str | None] = lambda: None,
        previous_log: dict[str, Any] | None = None,
        sweep_params: Sequence[tuple[str, Params]] = (),
    ) -> None:
        super().__init__(study, resolved, store, plan_hash, self._count_rounds_left)
        self._phase: Phase = "search"
        self._has_test_scores = record.has_test_scores(store.folder)
        self._confirming: list[Configuration] = []
        self.searches: dict[str, SystemSearch] = {}
        self._fixed = self._factory.make_reference_systems()
        counts = count_proposals(study)
        if (baseline := study.study_type.baseline) not in counts:
            self._fixed.insert(0, self._factory.make_configuration(baseline, Params(), study.seeds, "baseline"))
        self.searches = {
            name: self._make_search(name, count, find_exhausted_budget, (previous_log or {}).get(name))
            for name, count in counts.items()
        }
        self._swept = self._make_sweep_configurations(sweep_params)
        self._enqueue(((item, run) for item in [*self._fixed, *self._swept] for run in item.runs), "train")
        for search in self.searches.values():
            search.begin()
            self._enqueue(search.get_due_runs(), "train")
        self._advance()

    @property
    def configurations(self) -> list[Configuration]:
        """All so far: the fixed systems, what was proposed, what else was swept, what is confirmed, and the scorer."""
        proposed = [item for hunt in self.searches.values() for item in hunt.configurations]
        return [*self._fixed, *proposed, *self._list_unproposed_swept(), *self._confirming, *self._list_scorers()]

    @property
    def n_trials(self) -> int:
        """Training and test errands of the whole study, those already done included; fewer where a race drops some."""
        seeds, confirm, orders = (
            len(self.study.seeds),
            len(self.study.confirm.seeds),
            len(self.study.study_type.reference_rankings),
        )
        tested = len({*self.searches, self.study.study_type.baseline, UNTRAINED})
        trials = sum(hunt.search.n_configurations for hunt in self.searches.values()) + len(self._fixed)
        trials -= orders
        trials += len(self._list_unproposed_swept())
        confirmed = (len(self._confirming) if self._confirming else tested + len(self.searches)) if confirm else 0
        return trials * seeds + confirmed * confirm + tested * (confirm or seeds) + 2 * orders + self._n_scorer_trials

    @property
    def _n_scorer_trials(self) -> int:
        """Its training, and its test; none where another study has done both."""
        own = "train" in self._scorer_actions or self.store.get_state(self.scorer.runs[0].id) is not None
        return 2 if own and self._list_scorers() else len(self._scorer_actions)

    @property
    def is_finished(self) -> bool:
        """Nothing is running and nothing is left to start."""
        return self._phase == "test" and not len(self._queue)

    def mark_ended(self, errand: TrialRequest) -> None:
        """The errand ended, well or not; whatever its record allows is started."""
        super().mark_ended(errand)
        self._advance()

    def select_winners(self) -> dict[str, Configuration]:
        """By system, the complete configuration that is best on the development set, the first on a tie.

        Of several objectives the first decides, and the others in their order where it does not.
        """
        dropped = {key for hunt in self.searches.values() for key in hunt.pruned}
        items = [
            item for item in self.configurations if item.role not in ("confirm", "scorer") and item.id not in dropped
        ]
        return select_best(items, self.store, self.objectives)

    def select_for_test(self) -> dict[str, Configuration]:
        """By system, the runs that the test set judges: the chosen configuration's, with fresh seeds if there are."""
        fresh = {item.id: item for item in self._confirming}
        return {name: fresh.get(item.id, item) for name, item in self.select_winners().items()}

    def make_default_configuration(self, name: str) -> Configuration:
        """The default of a searched system, whether or not it was proposed."""
        return self._factory.make_configuration(
            name, self.searches[name].search.space.list_default_configurations()[0], self.study.seeds, "search"
        )

    def build_search_log(self) -> dict[str, Any]:
        """What the searches did, for the report."""
        chosen, swept_too = self.select_winners(), self._list_unproposed_swept()
        return {
            "systems": {
                name: hunt.build_log(
                    chosen.get(name),
                    self.make_default_configuration(name),
                    [item for item in swept_too if item.name == name],
                )
                for name, hunt in self.searches.items()
            }
        }

    def list_needed_checkpoints(self) -> set[str]:
        """Names, in the storage of stages, of all that this study may still read: the stages and slots of runs that are
        queued or running, the stages that proposals still possible would start from, and the final weights of every
        configuration that may still be tested."""
        open_ones = [item for item in self.configurations if self._is_open(item)]
        waiting = {run.id: run for item in open_ones for run in item.runs if not self.store.is_finished(run.id, "dev")}
        possible = (run for hunt in self.searches.values() for item in hunt.iter_reachable() for run in item.runs)
        names = {key for run in [*waiting.values(), *possible] for key in self.list_checkpoint_keys(run)}
        names |= {f"{RESUME_FOLDER}/{run_id}" for run_id in waiting}
        tested = [*self.select_for_test().values(), *self._list_scorers()]
        for item in [*tested, *open_ones]:  # who is complete and not the best will not become it
            for run in item.runs:
                if not self.store.is_finished(run.id, "test"):
                    names |= set(self.list_checkpoint_keys(run)[-1:])
        return names

    def _count_rounds_left(self, name: str) -> int:
        return self.searches[name].rounds_left if name in self.searches else 0

    def _make_search(
        self,
        name: str,
        count: int,
        find_exhausted_budget: Callable[[], str | None],
        previous_log: dict[str, Any] | None,
    ) -> SystemSearch:
        settings, seeds, kind = self.study.search, self.study.seeds, get_role(self.study, name)
        search = SeedAveragedSearch(
            make_system_space(self.study, name),
            count,
            settings.parallel,
            settings.sampler,
            settings.seed,
            get_directions(self.objectives),
        )
        return SystemSearch(
            search,
            lambda point: self._factory.make_configuration(name, point, seeds, kind),
            self.store,
            self.objectives,
            settings.pruning == "race",
            find_exhausted_budget,
            previous_log,
        )

    def _make_sweep_configurations(self, sweep_params: Sequence[tuple[str, Params]]) -> list[Configuration]:
        """What was swept, beside the fixed systems, and may be chosen."""
        made = [
            self._factory.make_configuration(name, point, self.study.seeds, get_role(self.study, name))
            for name, point in sweep_params
            if name in get_systems(self.study)
        ]
        distinct = {item.id: item for item in made}
        known = {item.id for item in self._fixed}
        counted = swept.read_frozen_ids(self.folder) if self._has_test_scores else set(distinct)
        return [item for key, item in distinct.items() if key in counted - known]

    def _list_unproposed_swept(self) -> list[Configuration]:
        """What was swept and is not among the proposals so far."""
        proposed = (
            {item.id for hunt in self.searches.values() for item in hunt.configurations} if self._swept else set()
        )
        return [item for item in self._swept if item.id not in proposed]

    def _advance(self) -> None:
        """Starts whatever the finished records allow: more seeds, next rounds, the confirmation, then the test set."""
        for search in self.searches.values():
            while not search.is_finished and not any(run.id in self._queue for _, run in search.get_due_runs()):
                search.advance()
                self._enqueue(search.get_due_runs(), "train")
        if len(self._queue) or not all(hunt.is_finished for hunt in self.searches.values()):
            return
        if self._phase == "search":
            self._phase = "confirm"
            self._confirming = self._select_for_confirmation()
            self._enqueue(((item, run) for item in self._confirming for run in item.runs), "train")
            self._advance()
        elif self._phase == "confirm":
            self._phase = "test"
            if self._swept and not self._has_test_scores:
                swept.freeze_sweep_trials(self.folder, [item.id for item in self._swept])
            scorer = self.scorer.runs[0].id
            if self.store.get_state(scorer) != "failed" and not self.store.is_finished(scorer, "test"):
                self._enqueue_scorer("test")
            self._enqueue(((item, run) for item in self.select_for_test().values() for run in item.runs), "test")

    def _select_for_confirmation(self) -> list[Configuration]:
        """The chosen, and the untuned defaults of what was searched, with fresh seeds; none where there are no such."""
        seeds = self.study.confirm.seeds
        if not seeds:
            return []
        wanted = [*self.select_winners().values(), *(self.make_default_configuration(name) for name in self.searches)]
        distinct = {item.id: item for item in wanted if item.runs[0].seed is not None}
        return [self._factory.with_seeds(item, seeds, "confirm") for item in distinct.values()]

    def _is_open(self, item: Configuration) -> bool:
        """Whether anything of it is still to be run."""
        proposed = any(item in hunt.in_progress for hunt in self.searches.values())
        return proposed or any(run.id in self._queue for run in item.runs)

    def _is_given_up(self, item: Configuration, run: RunSpec) -> bool:
        """A failed run of the search is tried again, but not once test scores exist: they fixed the choice."""
        searched_run = (
            (item.name in self.searches or item in self._swept) and item.role != "confirm" and self._has_test_scores
        )
        return searched_run and self.store.get_state(run.id, "dev") == "failed"
