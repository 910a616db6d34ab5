"""Base class of the schedulers, which decide which trial runs next.

A scheduler does not depend on Ray.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from records.run_record import Split
from study.config.schema import Study
from study.config.systems import list_trained_scores
from study.folder.run_store import RunStore
from study.scheduling.queue import RunCheckpoints, TrialQueue
from study.scheduling.trials import ConfigurationFactory, PlannedConfiguration, ResolvedInputs, TrialRequest
from trainables.curriculum.curriculum_settings import CurriculumSettings
from trainables.difficulty.cache import Action, get_difficulty_path
from trainables.specs.checkpoint_chain import checkpoint_key, plan_checkpoints
from trainables.specs.run_spec import RunSpec
from trainables.utils.checksums import is_intact


class BaseScheduler(ABC):
    """Base class of a scheduler: turns the runs of configurations into trials.

    Args:
        study: the study, with its training length in instances.
        resolved: data, model and environment of the study.
        store: the run records of the study.
        plan_hash: hash of the plan, a label of every run.
        count_rounds_left: returns the number of remaining search rounds of a system, by its name.

    Attributes:
        scorer: configuration of the scoring run. Its model computes the difficulty scores that need one.
        make_labels: returns the W&B config of a run, from its configuration and its specification.
    """

    def __init__(
        self,
        study: Study,
        resolved: ResolvedInputs,
        store: RunStore,
        plan_hash: str,
        count_rounds_left: Callable[[str], int] = lambda name: 0,
    ) -> None:
        self.study, self.resolved, self.store, self.folder = study, resolved, store, store.folder
        self.metric = study.analysis.metric
        self._factory = ConfigurationFactory(study, resolved, plan_hash)
        self.scorer, self.make_labels = self._factory.scorer, self._factory.make_labels
        self._checkpoints: dict[str, RunCheckpoints] = {}
        self._queue = TrialQueue(self._list_checkpoints, count_rounds_left)
        self._scorer_actions: set[str] = set()  # actions of the scoring run that were queued in this start
        self._failed_evaluations: set[tuple[str, Split]] = set()  # evaluations that used up their tries in this start

    @property
    def scorer_failed(self) -> bool:
        """True if the scoring run has failed on its own."""
        return self.store.get_state(self.scorer.runs[0].id) == "failed"

    @property
    @abstractmethod
    def configurations(self) -> list[PlannedConfiguration]:
        """All configurations so far."""

    @property
    def n_trials(self) -> int:
        """Number of trials in total, finished ones included."""
        return sum(self.count_trials().values())

    @abstractmethod
    def count_trials(self) -> dict[Split, int]:
        """Return the number of trials by the split that they evaluate, finished ones included."""

    @property
    @abstractmethod
    def is_finished(self) -> bool:
        """True if no trial is running and none is left to start."""

    @property
    def is_catching_up(self) -> bool:
        """True while it does not know all that an earlier start has proposed, and so not which checkpoints it needs."""
        return False

    @abstractmethod
    def list_needed_checkpoints(self) -> set[str]:
        """Return the names of all checkpoints that may still be read."""

    def pop_request(self) -> TrialRequest | None:
        """Return the next trial to start, or None while running trials must end first."""
        return self._queue.pop()

    def mark_ended(self, request: TrialRequest) -> None:
        """Record that a trial ended; its run record says whether it succeeded."""
        run = request.trial.specification
        self._queue.mark_ended(run.id)
        if self.store.refresh(run.id, request.split) == "finished":
            self._queue.mark_finished(run)
        else:
            self._failed_evaluations.add((run.id, request.split))

    def list_checkpoint_keys(self, run: RunSpec) -> tuple[str, ...]:
        """Return the keys of a run's checkpoints in the order of training."""
        return tuple(key for _, key in self._list_checkpoints(run))

    def _list_checkpoints(self, run: RunSpec) -> RunCheckpoints:
        if run.training is None:
            return ()
        if run.id not in self._checkpoints:
            stops = plan_checkpoints(run, self._factory.list_fork_points(run))
            self._checkpoints[run.id] = tuple((stop, checkpoint_key(run, stop)) for stop in stops)
        return self._checkpoints[run.id]

    def _enqueue(self, runs: Iterable[tuple[PlannedConfiguration, RunSpec]], action: str) -> None:
        """Queue the runs that are not finished, queued or given up."""
        split: Split = "dev" if action == "train" else "test"
        for item, run in runs:
            if self.store.is_finished(run.id, split):
                self._queue.mark_finished(run)
            elif not (
                run.id in self._queue or (run.id, split) in self._failed_evaluations or self._is_given_up(item, run)
            ):
                if run.curriculum and run.curriculum.scorer:
                    self._enqueue_scorer("train")
                self._queue.add(self._factory.make_request(item, run, action))

    def _enqueue_scorer(self, action: Action) -> None:
        """Queue the scoring run once, unless it is recorded and its difficulty scores exist.

        Another study may have computed them. Then it trains nothing and is recorded: records depend on the study alone.
        """
        split: Split = "dev" if action == "train" else "test"
        item, prepared = self.scorer, self.study.cache_folder / "prepared" / self.resolved.fingerprint
        orders = [CurriculumSettings(score=name, scorer=item.runs[0].id) for name in list_trained_scores(self.study)]
        paths = [get_difficulty_path(prepared, order, self.resolved.model_digest, action) for order in orders]
        is_recorded = self.store.is_finished(item.runs[0].id, split)
        if (
            orders
            and action not in self._scorer_actions
            and not (is_recorded and all(is_intact(path, remove_damaged=True) for path in paths))
        ):
            self._scorer_actions.add(action)
            self._queue.add(self._factory.make_request(item, item.runs[0], action))

    def _list_scorers(self) -> list[PlannedConfiguration]:
        """Return the scoring run in a list, or an empty list if this study does not run it."""
        if not list_trained_scores(self.study):
            return []
        scorer = self.scorer
        return [scorer] if self._scorer_actions or self.store.get_state(scorer.runs[0].id) is not None else []

    def _is_given_up(self, item: PlannedConfiguration, run: RunSpec) -> bool:
        """Return whether an unfinished run must not be tried again."""
        return False
