"""What a study still has to run, errand by errand: what all kinds of such work have in common. Knows nothing of Ray."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from study.config.schema import Study
from study.config.systems import list_trained_scores
from study.records import run_record as record
from study.records.run_store import RunStore
from study.scheduling.objectives import get_objectives
from study.scheduling.queue import RunCheckpoints, TrialQueue
from study.scheduling.trials import Configuration, ConfigurationFactory, ResolvedInputs, TrialRequest
from trainables.curriculum.settings import CurriculumSettings
from trainables.difficulty import cache as kept
from trainables.specs.base import RunSpec
from trainables.specs.checkpoints import checkpoint_key, plan_checkpoints
from trainables.utils.checksums import is_intact


class BaseScheduler(ABC):
    """Configurations whose runs become errands.

    Args:
        study: what was asked for; its training settings already resolved.
        resolved: data, model and environment.
        ledger: of the study's records.
        plan_hash: goes into every run's labels.
        rounds_left: how many rounds the search of a variant still has to go, by the variant's name.
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
        self.objectives = get_objectives(study)
        self._factory = ConfigurationFactory(study, resolved, plan_hash)
        self._checkpoints: dict[str, RunCheckpoints] = {}
        self._queue = TrialQueue(self._list_checkpoints, count_rounds_left)
        self._scorer_actions: set[str] = set()  # actions of the scorer
        self._failed_evaluations: set[tuple[str, record.Split]] = (
            set()
        )  # evaluations that have had their tries in this start

    @property
    def scorer(self) -> Configuration:
        """The run whose weights say what is difficult, for those scores that ask a trained model."""
        return self._factory.scorer

    @property
    def scorer_failed(self) -> bool:
        """Whether that run has failed by itself."""
        return self.store.get_state(self.scorer.runs[0].id) == "failed"

    @property
    @abstractmethod
    def configurations(self) -> list[Configuration]:
        """All so far."""

    @property
    @abstractmethod
    def n_trials(self) -> int:
        """Errands of the whole work, those already done included."""

    @property
    @abstractmethod
    def is_finished(self) -> bool:
        """Nothing is running and nothing is left to start."""

    @abstractmethod
    def list_needed_checkpoints(self) -> set[str]:
        """Names, in the storage of stages, of all that may still be read."""

    def pop_request(self) -> TrialRequest | None:
        """The next errand to start, or None while others must finish first."""
        return self._queue.pop()

    def mark_ended(self, request: TrialRequest) -> None:
        """The errand ended, well or not: its record says which."""
        run = request.trial.specification
        self._queue.mark_ended(run.id)
        if self.store.refresh(run.id, request.split) == "finished":
            self._queue.mark_finished(run)
        else:
            self._failed_evaluations.add((run.id, request.split))

    def make_labels(self, configuration: Configuration, run: RunSpec) -> dict[str, Any]:
        """The W&B config of a run."""
        return self._factory.make_labels(configuration, run)

    def list_checkpoint_keys(self, run: RunSpec) -> tuple[str, ...]:
        """Keys of the stages that are kept of a run, in the order of training."""
        return tuple(key for _, key in self._list_checkpoints(run))

    def _list_checkpoints(self, run: RunSpec) -> RunCheckpoints:
        """Instances and keys of the states that are kept of a run."""
        if run.training is None:
            return ()
        if run.id not in self._checkpoints:
            stops = plan_checkpoints(run, self._factory.list_fork_points(run))
            self._checkpoints[run.id] = tuple((stop, checkpoint_key(run, stop)) for stop in stops)
        return self._checkpoints[run.id]

    def _enqueue(self, runs: Iterable[tuple[Configuration, RunSpec]], action: str) -> None:
        split: record.Split = "dev" if action == "train" else "test"
        for item, run in runs:
            if self.store.is_finished(run.id, split):
                self._queue.mark_finished(run)
            elif not (
                run.id in self._queue or (run.id, split) in self._failed_evaluations or self._is_given_up(item, run)
            ):
                if run.curriculum and run.curriculum.scorer:
                    self._enqueue_scorer("train")
                self._queue.add(self._factory.make_request(item, run, action))

    def _enqueue_scorer(self, action: kept.Action) -> None:
        """Queues the scorer, once, unless what it says of the queries is there: it may be another study's."""
        item, prepared = self.scorer, self.study.cache / "prepared" / self.resolved.fingerprint
        orders = [CurriculumSettings(score=name, scorer=item.runs[0].id) for name in list_trained_scores(self.study)]
        places = [kept.get_difficulty_path(prepared, order, self.resolved.model_digest, action) for order in orders]
        if (
            orders
            and action not in self._scorer_actions
            and not all(is_intact(place, remove_damaged=True) for place in places)
        ):
            self._scorer_actions.add(action)
            self._queue.add(self._factory.make_request(item, item.runs[0], action))

    def _list_scorers(self) -> list[Configuration]:
        """The scorer, if it is a run of this study."""
        if not list_trained_scores(self.study):
            return []
        own = self.scorer
        return [own] if self._scorer_actions or self.store.get_state(own.runs[0].id) is not None else []

    def _is_given_up(self, item: Configuration, run: RunSpec) -> bool:
        """Whether a run that is not finished is nevertheless not to be tried again."""
        return False
