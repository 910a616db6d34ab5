"""One run from its specification to its scores, interruptible at evaluations and checkpoints."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from trainables.specs.checkpoint_chain import Segment, get_run_segments
from trainables.specs.environment import check_environment
from trainables.specs.trial import TrialResult, TrialSpec
from trainables.training.frozen_features import EncoderInputs
from trainables.training.process import prepare_process
from trainables.training.resume import ResumableTraining
from trainables.training.trainer import Trainer
from trainables.utils.base_settings import require

if TYPE_CHECKING:
    import pandas as pd


class BaseRun(ABC):
    """A run in progress: call `advance` until it returns a result.

    A subclass defines the model, its training and its evaluation.

    Args:
        trial: the trial that is executed.
        on_wait: called repeatedly while another run trains what this run needs.

    Raises:
        MachineError: if the environment differs from that of the specification.
        FloatingPointError: if the loss or a score is not finite.
    """

    data_class: ClassVar[type[EncoderInputs]]
    """Class of the inputs of the model."""
    data: EncoderInputs
    _pairs: "pd.DataFrame | None" = None
    """Pairs of the last scores, which `_compute_scores` sets if each run has its own. If None, all runs have the same.
    """

    def __init__(self, trial: TrialSpec, on_wait: Callable[[], None] = lambda: None) -> None:
        training, environment = require(trial.specification.training), require(trial.specification.environment)
        check_environment(environment)
        prepare_process(training.threads)
        self.data = self.data_class(trial)
        self.trial, self._start_time, self._on_wait = trial, time.monotonic(), on_wait
        self._training = training
        self.trainer = self._make_trainer()
        self._resumable = ResumableTraining(trial, self.trainer, on_wait)
        # Instances, scores and pairs of the kept weights.
        self._dev_scores: tuple[int, np.ndarray, pd.DataFrame | None] | None = None
        self._instances_per_second: dict[int, float] = {}
        self._interval_instances, self._interval_seconds = 0, 0.0  # instances and seconds since the last evaluation
        self._steps = self._train_and_evaluate()

    @abstractmethod
    def _make_trainer(self) -> Trainer:
        """Return a trainer of the model before training."""

    @abstractmethod
    def _train(self, segment: Segment, until: int, after_step: Callable[[], None]) -> None:
        """Train as `Trainer._train` does."""

    @abstractmethod
    def _compute_scores(self, split: str) -> np.ndarray:
        """Return the scores of the present model on a split, shape (pairs,)."""

    def _score_collections(self) -> dict[str, np.ndarray]:
        """Return the scores on each further collection of the trial, by its label. By default there is none."""
        return {}

    def _add_missed(self, split: str, scores: np.ndarray) -> np.ndarray:
        """Return the scores of all evaluated pairs, -inf for those that the model does not score. By default, none."""
        return scores

    @abstractmethod
    def _compute_metric(self, metric: str, split: str, scores: np.ndarray) -> float:
        """Return a metric of these scores."""

    @property
    def instances_seen(self) -> int:
        """Instances trained so far."""
        return self.trainer.instances_seen

    @property
    def history(self) -> list[dict[str, float]]:
        """Learning curve with one row per batch or evaluation.

        Rows of evaluations contain the throughput, in instances per second, of the training since the evaluation
        before, if this process did that training.
        """
        rows, metric = self.trainer.history, f"dev/{self.trial.metric}"
        return [
            {**row, "train/instances_per_second": self._instances_per_second[int(row["instances"])]}
            if metric in row and row["instances"] in self._instances_per_second
            else row
            for row in rows
        ]

    def advance(self) -> TrialResult | None:
        """Train to the next evaluation or checkpoint, and return the result once training is finished."""
        return next(self._steps)

    def close(self) -> None:
        """Release the lease on the segment in training; needed if a run is not advanced to its result."""
        self._steps.close()

    def _train_and_evaluate(self) -> Generator[TrialResult | None]:
        while not self._resumable.is_finished:
            with self._resumable.lease_to_next_checkpoint() as stop:
                for evaluation in self._training.list_evaluation_points():
                    if not self.trainer.instances_seen < evaluation <= stop:
                        continue
                    self._train_until(evaluation)
                    self._evaluate()
                    if evaluation < stop:
                        self._resumable.on_step_end()
                        yield None
                self._train_until(stop)
            yield None
        yield self._make_result()

    def _train_until(self, stop: int) -> None:
        """Train to `stop`; a resume checkpoint may be saved before `stop`, but not at it.

        An evaluation that follows at `stop` belongs to the checkpoint.
        """

        def after_step() -> None:
            if self.trainer.instances_seen < stop:
                self._resumable.on_step_end()

        for segment in get_run_segments(self.trial.specification):
            if segment.start <= self.trainer.instances_seen < min(stop, segment.stop):
                instances_before, start = self.trainer.instances_seen, time.monotonic()
                self._train(segment, min(stop, segment.stop), after_step)
                self._interval_instances += self.trainer.instances_seen - instances_before
                self._interval_seconds += time.monotonic() - start

    def _evaluate(self) -> None:
        scores, deciding_metric = self._compute_finite_scores("dev"), self._training.checkpoint
        names = dict.fromkeys([self.trial.metric, *([] if deciding_metric == "last" else [deciding_metric])])
        values = {name: self._compute_metric(name, "dev", scores) for name in names}
        if deciding_metric == "last" or self.trainer.record_evaluation(values[deciding_metric]):
            self._dev_scores = self.trainer.instances_seen, scores, self._pairs
        row = {f"dev/{name}": value for name, value in values.items()}
        self.trainer.history.append({"instances": self.trainer.instances_seen, **row})
        if self._interval_instances:
            rate = round(self._interval_instances / self._interval_seconds, 1)
            self._instances_per_second[self.trainer.instances_seen] = rate
        self._interval_instances, self._interval_seconds = 0, 0.0

    def _compute_finite_scores(self, split: str) -> np.ndarray:
        scores = self._compute_scores(split)
        self._check_finite(split, scores)
        return self._add_missed(split, scores)

    def _check_finite(self, name: str, scores: np.ndarray) -> None:
        if n_invalid := np.count_nonzero(~np.isfinite(scores)):
            seen = self.trainer.instances_seen
            raise FloatingPointError(
                f"{n_invalid} of {len(scores)} {name} scores are not finite after {seen} instances"
            )

    def _make_result(self) -> TrialResult:
        split = "dev" if self.trial.action == "train" else "test"
        best = self.trainer.best_evaluation
        kept_instances = best.instances if best else self.trainer.instances_seen
        if split == "dev" and self._dev_scores is not None and self._dev_scores[0] == kept_instances:
            _, scores, self._pairs = self._dev_scores
        else:
            scores = self._compute_finite_scores(split)
        return TrialResult(
            split=split,
            metric=self._compute_metric(self.trial.metric, split, scores),
            scores=scores,
            history=self.trainer.history,
            weights_hash=self.trainer.hash_weights(),
            best_evaluation=best,
            instances_trained=self._resumable.instances_trained,
            instances_resumed=self.trainer.instances_seen
            - self._resumable.instances_trained
            - self._resumable.instances_reused,
            instances_reused=self._resumable.instances_reused,
            checkpoints_reused=self._resumable.reused_keys,
            damaged=self._resumable.damage_messages,
            collections=self._score_collections() if split == "test" else {},
            seconds=round(time.monotonic() - self._start_time, 3),
            texts=len(self.data.tokens),
            texts_truncated=self.data.tokens.n_truncated,
            pairs=self._pairs,
        )
