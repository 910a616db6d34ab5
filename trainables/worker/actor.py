"""Ray Tune trainable that executes runs: one Tune iteration per stretch of training."""

from collections.abc import Iterator
from typing import Any

from ray import tune

from trainables.specs.plugin import ActiveRun, PrecomputeProgress, get_trainable
from trainables.specs.trial import TrialResult, TrialSpec
from trainables.utils.checksums import DamagedError
from trainables.worker.limits import StepLimitEnforcer, StepLimits, empty_gpu_cache

_MAX_REPAIRS = 20
"""Largest number of damaged files that one step repairs; if there are more, the disk is defective."""


class RunTrainable(tune.Trainable):
    """Executes one trial, and then further ones: Tune reuses the actor.

    `config["trial"]` is the `TrialSpec` as JSON. `config["limits"]` is the `StepLimits` as JSON; without it, there
    are no limits.

    Reports `parts` and `total` after each part of the precomputation, `instances` after each stretch of training, and
    `metric` and the values of `make_report` at the end. Checkpoints are in their own storage, not in Tune. Importing
    this class loads no torch.
    """

    _run: ActiveRun | None = None

    def setup(self, config: dict[str, Any]) -> None:
        """Read the trial and its limits from the configuration.

        Nothing is loaded before the first step, so that errors of loading count as errors of the trial.
        """
        self._close_run()
        self.trial = TrialSpec.model_validate_json(config["trial"])
        self.limits = StepLimits.model_validate_json(config.get("limits", "{}"))
        self._enforcer = StepLimitEnforcer(self.limits)
        self._precompute_progress: Iterator[PrecomputeProgress] | None = None
        self._damaged: list[str] = []

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Read the next trial, in the same process."""
        self.setup(new_config)
        return True

    def step(self) -> dict[str, Any]:
        """Precompute one part, train to the next stop, or evaluate; return what to report to Tune."""
        with self._enforcer.enforce():
            parts, outcome = self._work_with_repairs()
            report = self.make_report(outcome) if outcome is not None else {}
        if parts:
            return {"parts": parts.done, "total": parts.total, tune.result.DONE: False}
        if outcome is None:
            assert self._run is not None
            return {"instances": self._run.instances_seen, tune.result.DONE: False}
        self._close_run()
        return {"metric": outcome.metric, **report, tune.result.DONE: True}

    def cleanup(self) -> None:
        """Close the run when Tune stops the trial."""
        self._close_run()

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Do nothing: the checkpoints are in their own storage, and a trial that Tune restores resumes from there."""

    def load_checkpoint(self, checkpoint: dict[str, Any] | None) -> None:
        """Do nothing, for the reason that `save_checkpoint` states."""

    def _close_run(self) -> None:
        """Close the run, since an unfinished run holds a lease for which others wait, and memory of the GPU."""
        if self._run is not None:
            self._run.close()
        self._run = None
        empty_gpu_cache()

    def _work_with_repairs(self) -> tuple[PrecomputeProgress | None, TrialResult | None]:
        """Return the progress of one precomputed part, or the result of one stretch of training.

        A damaged cached file is removed, computed again by the precomputation, and listed in the result.
        """
        for _ in range(_MAX_REPAIRS):
            try:
                return self._work()
            except DamagedError as error:
                if error.unit is None:
                    raise
                error.remove()
                self._damaged.append(f"{error}; it was removed and recomputed")
                self._close_run()
                self._precompute_progress = None
        return self._work()

    def _work(self) -> tuple[PrecomputeProgress | None, TrialResult | None]:
        if parts := self._precompute_part():
            return parts, None
        outcome = self._advance_run()
        return None, outcome and outcome._replace(damaged=[*self._damaged, *outcome.damaged])

    def _precompute_part(self) -> PrecomputeProgress | None:
        """Precompute one part; return None if no part is missing."""
        if self._run is not None:
            return None
        backend = get_trainable(self.trial.specification).training_backend
        self._precompute_progress = self._precompute_progress or backend.precompute(
            self.trial, self._enforcer.reset_timer
        )
        return next(self._precompute_progress, None)

    def _advance_run(self) -> TrialResult | None:
        self._run = self._run or get_trainable(self.trial.specification).training_backend.start_run(
            self.trial, self._enforcer.reset_timer
        )
        return self._run.advance()

    def make_report(self, outcome: TrialResult) -> dict[str, Any]:
        """Return further values to report to Tune at the end of a run, as a hook for subclasses.

        Called once, in the last step of the trial and within its limits.
        """
        return {}
