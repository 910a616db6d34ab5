"""A run in progress (`trainables.specs.plugin.ActiveRun`): trained from checkpoint to checkpoint, then evaluated."""

import hashlib
import time
from collections.abc import Callable

from own_package.logistic.scorer import LogisticScorer
from trainables.specs.trial import TrialResult, TrialSpec
from trainables.training.resume import ResumableTraining


class LogisticRun:
    """A run that resumes after a kill, and that shares its checkpoints with runs that begin alike."""

    def __init__(self, trial: TrialSpec, on_wait: Callable[[], None]) -> None:
        self.trial, self.start_time = trial, time.monotonic()
        self.scorer = LogisticScorer(trial.specification, trial.metric)
        self.training = ResumableTraining(trial, self.scorer, on_wait)

    @property
    def instances_seen(self) -> int:
        """Instances trained so far."""
        return self.scorer.instances_seen

    @property
    def history(self) -> list[dict[str, float]]:
        """Learning curve."""
        return self.scorer.history

    def advance(self) -> TrialResult | None:
        """Train up to the next checkpoint; once training is finished, return the result."""
        if not self.training.is_finished:
            with self.training.lease_to_next_checkpoint() as stop:
                self.scorer.train(stop, self.training.on_step_end)
            return None
        split = "dev" if self.trial.action == "train" else "test"
        trained, reused = self.training.instances_trained, self.training.instances_reused
        return TrialResult(
            split=split,
            metric=self.scorer.judge(split),
            scores=self.scorer.score(split),
            history=self.history,
            weights_hash=hashlib.sha256(self.scorer.weights.tobytes()).hexdigest(),
            best_evaluation=None,
            instances_trained=trained,
            instances_resumed=self.instances_seen - trained - reused,
            instances_reused=reused,
            checkpoints_reused=self.training.reused_keys,
            damaged=self.training.damage_messages,
            seconds=round(time.monotonic() - self.start_time, 3),
        )

    def close(self) -> None:
        """Do nothing: no lease is held between two calls of `advance`."""
