"""The Ray Tune trainable of a run, of whatever kind: thin, one Tune iteration a stretch of training."""

from collections.abc import Iterator
from typing import Any

from ray import tune

from trainables.specs.job import Job, Outcome
from trainables.specs.plugin import Parts, Running, of
from trainables.utils.checksums import DamagedError
from trainables.worker.limits import Guard, Limits

_HEALINGS = 20
"""Damaged files that one step makes good; where there are more, the disk is at fault."""


class Worker(tune.Trainable):
    """Executes one Job given as JSON in `config["job"]`, within the Limits in `config["limits"]`, JSON too; none: no
    limits. Actors are reused for the next job.

    Reports `parts` and `total` after each part of the groundwork, `instances` after each stretch and, at the end,
    `metric`. States live in the storage of stages, not in Tune. Whoever only names this class loads no torch.
    """

    _run: Running | None = None

    def setup(self, config: dict[str, Any]) -> None:
        """Takes up the job; nothing is loaded before the first step, so that its errors are the trial's."""
        self._drop()
        self.job = Job.model_validate_json(config["job"])
        self.limits = Limits.model_validate_json(config.get("limits", "{}"))
        self._guard = Guard(self.limits)
        self._groundwork: Iterator[Parts] | None = None
        self._damaged: list[str] = []

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Takes up another job in the same process."""
        self.setup(new_config)
        return True

    def step(self) -> dict[str, Any]:
        """Computes a part of the groundwork, trains to the next stop, or evaluates."""
        try:
            with self._guard.in_force():
                parts, outcome = self._healing()
                if outcome is not None:
                    self.finished(outcome)
        except Exception as error:
            self.failed(error)
            raise
        if parts:
            return {"parts": parts.done, "total": parts.total, tune.result.DONE: False}
        if outcome is None:
            assert self._run is not None
            return {"instances": self._run.seen, tune.result.DONE: False}
        self._drop()
        return {"metric": outcome.metric, tune.result.DONE: True}

    def cleanup(self) -> None:
        """Tune stops the trial."""
        self._drop()

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Nothing: the storage of stages holds the states, and a trial that Tune restores takes them up from there."""

    def load_checkpoint(self, checkpoint: dict[str, Any] | None) -> None:
        """Nothing, for the same reason."""

    def _drop(self) -> None:
        """An unfinished run would keep others waiting for the stretch it is in."""
        if self._run is not None:
            self._run.close()
        self._run = None

    def _healing(self) -> tuple[Parts | None, Outcome | None]:
        """A part of the groundwork, or what training came to; a cached file that turns out to be damaged is removed,
        made anew by the groundwork, and named in the outcome."""
        for _ in range(_HEALINGS):
            try:
                return self._work()
            except DamagedError as error:
                if error.unit is None:
                    raise
                error.remove()
                self._damaged.append(f"{error}; it was removed, and is computed again")
                self._drop()
                self._groundwork = None
        return self._work()

    def _work(self) -> tuple[Parts | None, Outcome | None]:
        if parts := self._part():
            return parts, None
        outcome = self._advance()
        return None, outcome and outcome._replace(damaged=[*self._damaged, *outcome.damaged])

    def _part(self) -> Parts | None:
        """None where nothing is missing."""
        if self._run is not None:
            return None
        runs = of(self.job.specification).runs
        self._groundwork = self._groundwork or runs.groundwork(self.job, self._guard.restart)
        return next(self._groundwork, None)

    def _advance(self) -> Outcome | None:
        self._run = self._run or of(self.job.specification).runs.begin(self.job, self._guard.restart)
        return self._run.advance()

    def finished(self, outcome: Outcome) -> None:
        """For whoever keeps records: called once, in the trial's process, before the trial ends."""

    def failed(self, error: Exception) -> None:
        """The same for a run that failed."""
