"""One run from its specification to its scores, cut at the points where states are worth remembering."""

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator

import numpy as np
import torch

from trainables.specs.environment import current
from trainables.specs.job import Job, Outcome
from trainables.specs.stages import Segment, run_segments
from trainables.training.frozen_features import ModelInputs
from trainables.training.resume import Chain
from trainables.training.trainer import Trainer
from trainables.utils.errors import MachineError


class Run(ABC):
    """A run in progress: `advance` until it returns an outcome. What it trains and evaluates, a subclass says.

    Args:
        job: what runs.
        waited: called again and again while another run trains what this one needs.

    Raises:
        FloatingPointError: the loss or a score is not finite.
    """

    data: ModelInputs
    """What the model reads; a subclass makes it first of all."""

    def __init__(self, job: Job, waited: Callable[[], None] = lambda: None) -> None:
        specification = job.specification
        assert specification.training is not None
        assert specification.environment is not None
        if specification.environment != current(specification.environment.kind):
            raise MachineError(
                "this processor or these libraries are not those of the specification; its bits need them"
            )
        fix_arithmetic(specification.training.threads)
        self.job, self._started, self._waited = job, time.monotonic(), waited
        self._training = specification.training
        self.trainer = self._fresh()
        self._chain = Chain(job, self.trainer, waited)
        self._dev_scores: tuple[int, np.ndarray] | None = None  # of the evaluation whose weights would be kept
        self._speeds: dict[int, float] = {}
        self._trained, self._busy = 0, 0.0  # instances and seconds since the last evaluation
        self._work = self._stretches()

    @abstractmethod
    def _fresh(self) -> Trainer:
        """Of the model as it is before training."""

    @abstractmethod
    def _train(self, segment: Segment, until: int, after_step: Callable[[], None]) -> None:
        """As `Trainer`."""

    @abstractmethod
    def _scores(self, split: str) -> np.ndarray:
        """(pairs,) of the model as it is."""

    @abstractmethod
    def _measured(self, metric: str, split: str, scores: np.ndarray) -> float:
        """A metric of these scores."""

    @property
    def seen(self) -> int:
        """Instances trained so far."""
        return self.trainer.seen

    @property
    def history(self) -> list[dict[str, float]]:
        """The curve, one row a batch or evaluation; evaluations have the instances a second of the training before
        them, where this process did it."""
        rows, metric = self.trainer.history, f"dev/{self.job.metric}"
        return [
            {**row, "train/instances_per_second": self._speeds[int(row["instances"])]}
            if metric in row and row["instances"] in self._speeds
            else row
            for row in rows
        ]

    def advance(self) -> Outcome | None:
        """Trains up to the next evaluation or state worth remembering; the outcome once all is trained."""
        return next(self._work)

    def close(self) -> None:
        """Gives up the claim on the stretch that it is in; for a run that is not advanced to its outcome."""
        self._work.close()

    def _stretches(self) -> Generator[Outcome | None]:
        while not self._chain.done:
            with self._chain.stretch() as stop:
                for evaluation in (number for number in self._evaluations() if self.trainer.seen < number <= stop):
                    self._train_until(evaluation)
                    self._evaluate()
                    if evaluation < stop:
                        self._chain.stepped()
                        yield None
                self._train_until(stop)
            yield None
        yield self._outcome()

    def _evaluations(self) -> list[int]:
        parts, total, size = self._training.evaluations, self._training.instances, self._training.batch_size
        return [round(total * (part + 1) / parts / size) * size for part in range(parts)]

    def _train_until(self, stop: int) -> None:
        """No state is kept in between at `stop` itself: what follows there, an evaluation, belongs to it."""

        def after_step() -> None:
            if self.trainer.seen < stop:
                self._chain.stepped()

        for segment in run_segments(self.job.specification):
            if segment.start <= self.trainer.seen < min(stop, segment.stop):
                before, began = self.trainer.seen, time.monotonic()
                self._train(segment, min(stop, segment.stop), after_step)
                self._trained += self.trainer.seen - before
                self._busy += time.monotonic() - began

    def _evaluate(self) -> None:
        scores, decides = self._finite("dev"), self._training.checkpoint
        names = dict.fromkeys([self.job.metric, *([] if decides == "last" else [decides])])
        values = {name: self._measured(name, "dev", scores) for name in names}
        if decides == "last" or self.trainer.evaluated(values[decides]):
            self._dev_scores = self.trainer.seen, scores
        row = {f"dev/{name}": value for name, value in values.items()}
        self.trainer.history.append({"instances": self.trainer.seen, **row})
        if self._trained:
            self._speeds[self.trainer.seen] = round(self._trained / self._busy, 1)
        self._trained, self._busy = 0, 0.0

    def _finite(self, split: str) -> np.ndarray:
        scores = self._scores(split)
        wrong = np.count_nonzero(~np.isfinite(scores))
        if wrong:
            seen = self.trainer.seen
            raise FloatingPointError(f"{wrong} of {len(scores)} {split} scores are not finite after {seen} instances")
        return scores

    def _outcome(self) -> Outcome:
        split = "dev" if self.job.action == "train" else "test"
        best = self.trainer.best
        kept = best.instances if best else self.trainer.seen
        known = self._dev_scores is not None and self._dev_scores[0] == kept and split == "dev"
        scores = self._dev_scores[1] if self._dev_scores and known else self._finite(split)
        return Outcome(
            split=split,
            metric=self._measured(self.job.metric, split, scores),
            scores=scores,
            history=self.trainer.history,
            weights=self.trainer.weights_hash(),
            checkpoint=best,
            instances_trained=self._chain.trained,
            instances_resumed=self.trainer.seen - self._chain.trained - self._chain.instances_reused,
            instances_reused=self._chain.instances_reused,
            stages_reused=self._chain.reused,
            damaged=self._chain.damaged,
            seconds=round(time.monotonic() - self._started, 3),
            texts=len(self.data.texts),
            texts_truncated=self.data.texts.truncated,
        )


def fix_arithmetic(threads: int) -> None:
    """The same bits every time: a fixed number of threads, and no kernel that adds in whatever order."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts; its deterministic products
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    # That would also fill every new tensor, which nothing reads before it is written.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
