"""The Ray Tune trainable of a run, of whatever kind: thin, one Tune iteration a stretch of training."""

from collections.abc import Iterator
from typing import Any

from ray import tune

from trainables.specs.plugin import ActiveRun, PrecomputeProgress, get_trainable
from trainables.specs.trial import TrialResult, TrialSpec
from trainables.utils.checksums import DamagedError
from trainables.worker.limits import StepLimitEnforcer, StepLimits

_MAX_REPAIRS = 20
"""Damaged files that one step makes good; where there are more, the disk is at fault."""


class RunTrainable(tune.Trainable):
    """Executes one Job given as JSON in `config["job"]`, within the Limits in `config["limits"]`, JSON too; none: no
    limits. Actors are reused for the next job.

    Reports `parts` and `total` after each part of the groundwork, `instances` after each stretch and, at the end,
    `metric`. States live in the storage of stages, not in Tune. Whoever only names this class loads no torch.
    """

    _run: ActiveRun | None = None

    def setup(self, config: dict[str, Any]) -> None:
        """Takes up the job; nothing is loaded before the first step, so that its errors are the trial's."""
        self._close_run()
        self.job = TrialSpec.model_validate_json(config["job"])
        self.limits = StepLimits.model_validate_json(config.get("limits", "{}"))
        self._enforcer = StepLimitEnforcer(self.limits)
        self._precompute_progress: Iterator[PrecomputeProgress] | None = None
        self._damaged: list[str] = []

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Takes up another job in the same process."""
        self.setup(new_config)
        return True

    def step(self) -> dict[str, Any]:
        """Computes a part of the groundwork, trains to the next stop, or evaluates."""
        try:
            with self._enforcer.enforce():
                parts, outcome = self._work_with_repairs()
                if outcome is not None:
                    self.on_run_complete(outcome)
        except Exception as error:
            self.on_run_error(error)
            raise
        if parts:
            return {"parts": parts.done, "total": parts.total, tune.result.DONE: False}
        if outcome is None:
            assert self._run is not None
            return {"instances": self._run.instances_seen, tune.result.DONE: False}
        self._close_run()
        return {"metric": outcome.metric, tune.result.DONE: True}

    def cleanup(self) -> None:
        """Tune stops the trial."""
        self._close_run()

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Nothing: the storage of stages holds the states, and a trial that Tune restores takes them up from there."""

    def load_checkpoint(self, checkpoint: dict[str, Any] | None) -> None:
        """Nothing, for the same reason."""

    def _close_run(self) -> None:
        """An unfinished run would keep others waiting for the stretch it is in."""
        if self._run is not None:
            self._run.close()
        self._run = None

    def _work_with_repairs(self) -> tuple[PrecomputeProgress | None, TrialResult | None]:
        """A part of the groundwork, or what training came to; a cached file that turns out to be damaged is removed,
        made anew by the groundwork, and named in the outcome."""
        for _ in range(_MAX_REPAIRS):
            try:
                return self._work()
            except DamagedError as error:
                if error.unit is None:
                    raise
                error.remove()
                self._damaged.append(f"{error}; it was removed, and is computed again")
                self._close_run()
                self._precompute_progress = None
        return self._work()

    def _work(self) -> tuple[PrecomputeProgress | None, TrialResult | None]:
        if parts := self._precompute_part():
            return parts, None
        outcome = self._advance_run()
        return None, outcome and outcome._replace(damaged=[*self._damaged, *outcome.damaged])

    def _precompute_part(self) -> PrecomputeProgress | None:
        """None where nothing is missing."""
        if self._run is not None:
            return None
        runs = get_trainable(self.job.specification).training_backend
        self._precompute_progress = self._precompute_progress or runs.precompute(self.job, self._enforcer.reset_timer)
        return next(self._precompute_progress, None)

    def _advance_run(self) -> TrialResult | None:
        self._run = self._run or get_trainable(self.job.specification).training_backend.start_run(
            self.job, self._enforcer.reset_timer
        )
        return self._run.advance()

    def on_run_complete(self, outcome: TrialResult) -> None:
        """For whoever keeps records: called once, in the trial's process, before the trial ends."""

    def on_run_error(self, error: Exception) -> None:
        """The same for a run that failed."""
