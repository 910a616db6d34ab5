"""Scheduler of a study: search rounds, then confirmation, then the test set.

All decisions are functions of the study file and the finished run records, so a restarted study makes the same
decisions. Time budgets are the only exception; the search log states when one stopped a search. The scheduler does not
depend on Ray.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

from analysis.comparisons.declared import Evaluate
from analysis.comparisons.interim_results import InterimTests, make_interim_tests
from records.plan import Plan
from records.run_record import Split, has_test_scores
from search_spaces.search import SeedAveragedSearch
from search_spaces.space import Params
from study.config.schema import Study
from study.config.spaces import count_proposals, get_fixed_configuration, make_system_space
from study.config.systems import get_baseline, get_systems
from study.folder.kept_models import open_kept_models
from study.folder.run_store import RunStore
from study.plan.run_counts import SCORER, count_runs
from study.scheduling.choice import collect_per_query, select_best, select_best_run
from study.scheduling.scheduler import BaseScheduler
from study.scheduling.search_loop import SystemSearch
from study.scheduling.sweep_trials import freeze_sweep_trials, read_frozen_ids
from study.scheduling.trials import PlannedConfiguration, ResolvedInputs, TrialRequest, get_role
from trainables.metrics import LOWER_IS_BETTER
from trainables.specs.run_spec import RunSpec
from trainables.storage.base import RESUME_FOLDER
from trainables.utils.arrays import Floats

Phase = Literal["search", "confirm", "test"]


class StudyScheduler(BaseScheduler):
    """Scheduler of a whole study; the other arguments are those of `BaseScheduler`.

    Args:
        find_exhausted_budget: returns the key of an exhausted time budget, or None; called before each search round.
        previous_log: logs of the searches from an earlier start, by system (`records.search_log`).
        sweep_params: systems and hyperparameters of the configurations that W&B sweeps have started
            (`study.scheduling.sweep_trials`). They get all their seeds, and the study chooses from them as it chooses
            from the proposals of its searches. Once test scores exist, only those that the study chose from count.
        plan: plan in force, which says at which looks a sequential confirmation stops. Without it, all fresh seeds are
            run.

    Attributes:
        searches: the searches by system.
        looks: the looks of a sequential confirmation so far; None before its first group of seeds is tested.
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
        plan: Plan | None = None,
    ) -> None:
        super().__init__(study, resolved, store, plan_hash, self._count_rounds_left)
        self._phase: Phase = "search"
        self._plan, self._group = plan, 0
        self._has_test_scores = has_test_scores(store.folder)
        self._confirming: list[PlannedConfiguration] = []
        self.looks: InterimTests | None = None
        self.searches: dict[str, SystemSearch] = {}
        self._fixed = self._factory.make_reference_systems()
        counts = count_proposals(study)
        if (baseline := get_baseline(study)) not in counts:
            params = get_fixed_configuration(study, baseline)
            self._fixed.insert(0, self._factory.make_configuration(baseline, params, study.seeds, "baseline"))
        self.searches = {
            name: self._make_search(name, count, find_exhausted_budget, (previous_log or {}).get(name))
            for name, count in counts.items()
        }
        proposals = {name: search.search.n_configurations for name, search in self.searches.items()}
        self._run_counts = [row for row in count_runs(study, proposals) if row.system != SCORER]
        self._due_ids: dict[str, list[str]] = {}  # by system, ids of the due runs, without some that have ended
        self._swept = self._make_sweep_configurations(sweep_params)
        if store.get_state(self.scorer.runs[0].id) is None:
            self._enqueue_scorer("train")
        self._enqueue(((item, run) for item in [*self._fixed, *self._swept] for run in item.runs), "train")
        for name in self.searches:
            self._enqueue_due_runs(name)
        self._advance()

    @property
    def configurations(self) -> list[PlannedConfiguration]:
        """All configurations so far.

        These are the systems without a search, the proposals, the other sweep configurations, those under confirmation
        and the scoring run.
        """
        proposed = [item for search in self.searches.values() for item in search.configurations]
        return [*self._fixed, *proposed, *self._list_unproposed_swept(), *self._confirming, *self._list_scorers()]

    def count_trials(self) -> dict[Split, int]:
        """Return the number of trials of the whole study by the split that they evaluate, finished ones included.

        Racing and a sequential confirmation may reduce it.
        """
        confirmed = len(self._confirming) or sum(row.confirmed for row in self._run_counts)
        searched = sum(row.configurations * row.seeds for row in self._run_counts)
        searched += len(self._list_unproposed_swept()) * len(self.study.seeds)
        dev = searched + confirmed * len(self.study.fresh_seeds) + 2 * len(self._list_scorers())
        return {"dev": dev, "test": sum(row.tests for row in self._run_counts)}

    @property
    def is_finished(self) -> bool:
        """True if no trial is running and none is left to start."""
        return self._phase == "test" and not len(self._queue)

    @property
    def is_catching_up(self) -> bool:
        """True while a search has not made all proposals of an earlier start again: it waits for a failed run."""
        return any(search.is_catching_up for search in self.searches.values())

    def mark_ended(self, request: TrialRequest) -> None:
        """Record that a trial ended, and queue all trials that can start because of it."""
        super().mark_ended(request)
        self._advance()

    def select_winners(self) -> dict[str, PlannedConfiguration]:
        """Return the best complete configuration of each system on the development set, the first on a tie."""
        pruned = {key for search in self.searches.values() for key in search.pruned}
        items = [
            item for item in self.configurations if item.role not in ("confirm", "scorer") and item.id not in pruned
        ]
        return select_best(items, self.store, self.metric)

    def select_for_test(self) -> dict[str, PlannedConfiguration]:
        """Return the configuration of each system for the test set, with fresh seeds if the study has them.

        In a sequential confirmation these are the seeds of the groups so far.
        """
        seeds = self._confirm_seeds_so_far
        return {
            name: self._factory.with_fresh_seeds(item, seeds) if seeds else item
            for name, item in self.select_winners().items()
        }

    def make_default_configuration(self, name: str) -> PlannedConfiguration:
        """Create the default configuration of a searched system, even if the search did not propose it."""
        return self._factory.make_configuration(
            name, self.searches[name].search.space.list_default_configurations()[0], self.study.seeds, "search"
        )

    def build_search_log(self) -> dict[str, Any]:
        """Return the logs of all searches for search.json and the report."""
        winners, swept = self.select_winners(), self._list_unproposed_swept()
        return {
            "systems": {
                name: search.build_log(
                    winners.get(name),
                    self.make_default_configuration(name),
                    [item for item in swept if item.name == name],
                )
                for name, search in self.searches.items()
            }
        }

    def list_models_to_keep(self) -> list[tuple[str, RunSpec]]:
        """Return the systems and runs with final weights that the study's folder lacks, see `output.models`.

        They are finished runs of the configurations that are chosen at present.
        """
        choice, runs = self.study.output.models, list[tuple[str, RunSpec]]()
        if choice is None or self.study.study_type.trainable.export_module is None:
            return []
        for name, item in self.select_for_test().items():
            wanted = [
                run
                for run in item.runs
                if run.training and run.training.instances and self.store.is_finished(run.id, "dev")
            ]
            if wanted and choice == "best":
                wanted = [select_best_run(wanted, self.store, self.metric)]
            runs += [(name, run) for run in wanted]
        kept = open_kept_models(self.folder)
        return [(name, run) for name, run in runs if not kept.exists(run.id)]

    def list_needed_checkpoints(self) -> set[str]:
        """Return the names of all checkpoints that this study may still read.

        These are the checkpoints and resume checkpoints of pending and running runs, the checkpoints from which further
        proposals may start, and the final checkpoints of every configuration that may still be tested or kept.
        """
        in_progress = {(item.id, item.role) for search in self.searches.values() for item in search.in_progress}
        unfinished = [
            item
            for item in self.configurations
            if (item.id, item.role) in in_progress or any(run.id in self._queue for run in item.runs)
        ]  # they may still have runs to start or to finish
        waiting = {run.id: run for item in unfinished for run in item.runs if not self.store.is_finished(run.id, "dev")}
        reachable = (run for search in self.searches.values() for item in search.iter_reachable() for run in item.runs)
        names = {key for run in [*waiting.values(), *reachable] for key in self.list_checkpoint_keys(run)}
        names |= {f"{RESUME_FOLDER}/{run_id}" for run_id in waiting}
        # A complete configuration that is not the best now will never be.
        for item in [*self.select_for_test().values(), *self._list_scorers(), *unfinished]:
            for run in item.runs:
                if not self.store.is_finished(run.id, "test"):
                    names |= set(self.list_checkpoint_keys(run)[-1:])
        return names | {self.list_checkpoint_keys(run)[-1] for _, run in self.list_models_to_keep()}

    def _count_rounds_left(self, name: str) -> int:
        return self.searches[name].rounds_left if name in self.searches else 0

    def _make_search(
        self,
        name: str,
        count: int,
        find_exhausted_budget: Callable[[], str | None],
        previous_log: dict[str, Any] | None,
    ) -> SystemSearch:
        settings, seeds, role = self.study.search, self.study.seeds, get_role(self.study, name)
        if self._has_test_scores and previous_log and previous_log["stopped"]:  # it does not go on after the test
            find_exhausted_budget = partial(previous_log.get, "stopped")
        search = SeedAveragedSearch(
            make_system_space(self.study, name),
            count,
            settings.round_size,
            settings.sampler,
            direction="minimize" if self.metric in LOWER_IS_BETTER else "maximize",
        )
        return SystemSearch(
            search,
            lambda params: self._factory.make_configuration(name, params, seeds, role),
            self.store,
            self.metric,
            settings.pruning == "race",
            find_exhausted_budget,
            previous_log,
        )

    def _make_sweep_configurations(self, sweep_params: Sequence[tuple[str, Params]]) -> list[PlannedConfiguration]:
        """Create the configurations of sweeps that may be chosen, except the systems without a search."""
        configurations = [
            self._factory.make_configuration(name, params, self.study.seeds, get_role(self.study, name))
            for name, params in sweep_params
            if name in get_systems(self.study)
        ]
        distinct = {item.id: item for item in configurations}
        known = {item.id for item in self._fixed}
        eligible = read_frozen_ids(self.folder) if self._has_test_scores else set(distinct)
        return [item for key, item in distinct.items() if key in eligible - known]

    def _list_unproposed_swept(self) -> list[PlannedConfiguration]:
        """Return the sweep configurations that the searches have not proposed so far."""
        proposed = (
            {item.id for search in self.searches.values() for item in search.configurations} if self._swept else set()
        )
        return [item for item in self._swept if item.id not in proposed]

    def _advance(self) -> None:
        """Queue all trials that can start: more seeds, next rounds, the confirmation, then the test set."""
        for name, search in self.searches.items():
            while not search.is_finished and not self._has_due_runs(name):
                search.advance()
                self._enqueue_due_runs(name)
        if self._phase == "test":
            self._enqueue_scorer_test()
        if len(self._queue) or not all(search.is_finished for search in self.searches.values()):
            return
        if self._phase == "search" or (self._phase == "test" and self._reach_next_group()):
            self._phase = "confirm"
            self._confirming = self._select_for_confirmation()
            self._enqueue(((item, run) for item in self._confirming for run in item.runs), "train")
            self._advance()
        elif self._phase == "confirm":
            self._phase = "test"
            if self._swept and not self._has_test_scores:
                freeze_sweep_trials(self.folder, [item.id for item in self._swept])
            searched = self.select_winners()
            self._enqueue(
                (
                    (searched[name] if run.seed in self.study.seeds else item, run)
                    for name, item in self.select_for_test().items()
                    for run in item.runs
                ),
                "test",
            )
            self._advance()

    def _enqueue_due_runs(self, name: str) -> None:
        due = self.searches[name].get_due_runs()
        self._enqueue(due, "train")
        self._due_ids[name] = [run.id for _, run in due]

    def _has_due_runs(self, name: str) -> bool:
        """Return whether a due run of a search is pending or running. Runs that have ended are not asked for again."""
        due_ids = self._due_ids[name]
        while due_ids and due_ids[-1] not in self._queue:
            due_ids.pop()
        return bool(due_ids)

    @property
    def _confirm_seeds_so_far(self) -> tuple[int, ...]:
        """Seeds of the confirmation, in a sequential one those of the groups so far."""
        seeds = self.study.confirm.seeds
        return seeds[: self._plan.looks[self._group]] if self._plan and self._plan.group_size else seeds

    def _reach_next_group(self) -> bool:
        """Look at the test scores of a sequential confirmation, and return whether a later group of seeds is reached.

        A restarted study reaches its last group at once. None follows if everything is decided, or if a run
        failed, because its comparisons cannot be decided.
        """
        if self._plan is None or self._plan.group_size is None:
            return False
        self.looks = make_interim_tests(self._plan, self._make_evaluate)
        before, self._group = self._group, max(self._group, len(self.looks.taken) - self.looks.is_over)
        return self._group > before

    def _make_evaluate(self, plan: Plan) -> Evaluate:
        """Return the function that evaluates the chosen configuration of a system on the test set.

        It does so as the analysis does from the same records: None if one of its runs is not finished.
        """
        chosen, seeds = self.select_winners(), plan.get_seeds("test")

        def evaluate(system: str, phase: str, metric: str) -> Floats | None:
            runs = self._factory.with_fresh_seeds(chosen[system], seeds).runs if system in chosen else ()
            if not runs or not all(self.store.is_finished(run.id) for run in runs):
                return None
            return collect_per_query(runs, self.store, metric, "test")

        return evaluate

    def _select_for_confirmation(self) -> list[PlannedConfiguration]:
        """Return the chosen and the default configurations with the fresh seeds so far, if the study has any.

        If the study chooses nothing, there is no gain of a choice to compare with the defaults.
        """
        seeds = [seed for seed in self._confirm_seeds_so_far if seed not in self.study.seeds]
        if not seeds:
            return []
        searched = [] if self.study.reuses_search_seeds else list(self.searches)
        defaults = [self.make_default_configuration(name) for name in searched]
        selected = [*self.select_winners().values(), *defaults]
        distinct = {item.id: item for item in selected if item.runs[0].seed is not None}
        return [self._factory.with_fresh_seeds(item, seeds) for item in distinct.values()]

    def _is_given_up(self, item: PlannedConfiguration, run: RunSpec) -> bool:
        """Return whether a failed run must not be tried again.

        A failed run of the search is retried only while there are no test scores, because these fix the choice. It is
        retried always if the study chooses nothing.
        """
        if self.study.reuses_search_seeds:
            return False
        is_searched = (item.name in self.searches or item in self._swept) and item.role != "confirm"
        return is_searched and self._has_test_scores and self.store.get_state(run.id, "dev") == "failed"

    def _enqueue_scorer_test(self) -> None:
        """Queue the test of the scoring run, after its training if a cache that was cleared has brought that back."""
        scorer = self.scorer.runs[0].id
        if scorer not in self._queue and not self.scorer_failed and not self.store.is_finished(scorer, "test"):
            self._enqueue_scorer("test")
