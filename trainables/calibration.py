"""How fast a run is here: a few seconds of real training and evaluation on the first pairs of the real data."""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from trainables.cross_encoder import CrossEncoder
from trainables.data.tokens import Tokens
from trainables.features import frozen_pairs, token_batch
from trainables.job import Job
from trainables.packed import Batch
from trainables.run import Data, fix_arithmetic, vocabulary
from trainables.specification import VariantSettings
from trainables.stages import Segment
from trainables.training import Pairs, Trainer

_PAIRS = 500


class Rates(NamedTuple):
    """What a trial does in a second."""

    loading: float  # seconds until a run has its model
    frozen: float | None  # pairs through the frozen layers; none where no layer is frozen
    training: float  # instances
    evaluation: float  # pairs


class _First:
    """The first pairs of the training split, what the frozen layers make of them kept in memory."""

    def __init__(self, tokens: Tokens, model: CrossEncoder, first: int, count: int) -> None:
        self._tokens, self._first = tokens, first
        self._kept: list[np.ndarray] | None = None
        if model.lower is not None:
            self._kept = frozen_pairs(tokens, np.arange(first, first + count), model)

    @property
    def lengths(self) -> np.ndarray:
        """(all pairs,) tokens of each pair."""
        return self._tokens.lengths

    def read(self, rows: np.ndarray) -> Batch:
        """These pairs."""
        if self._kept is None:
            return token_batch(self._tokens, rows)
        pieces = np.concatenate([self._kept[row - self._first] for row in rows])
        starts = self._tokens.starts[rows].astype(np.int64)
        return Batch(torch.from_numpy(pieces), self._tokens.lengths[rows], starts)


def rates(job: Job, seconds: float) -> Rates:
    """Measures a training run.

    Args:
        job: any run that trains; its data is prepared.
        seconds: of training, and a third of it of evaluation; at least one batch of each is measured.
    """
    specification = job.specification
    model_settings, training = specification.model, specification.training
    assert model_settings is not None
    assert training is not None
    assert specification.environment is not None
    assert job.model_path is not None
    fix_arithmetic(training.threads)
    data, began = Data(job), time.perf_counter()
    model = CrossEncoder(job.model_path, model_settings, 0, vocabulary(job)).to(specification.environment.kind)
    whole = data.pairs("train")
    loading = time.perf_counter() - began
    count = min(len(whole.relevant), max(_PAIRS // whole.candidates, 2 * training.batch_size) * whole.candidates)
    pairs = Pairs(whole.first, whole.relevant[:count], whole.weak_labels[:count], whole.candidates)
    began = time.perf_counter()
    source = _First(data.tokens, model, pairs.first, count)
    frozen = count / (time.perf_counter() - began) if model_settings.frozen_layers else None
    if model_settings.pooling == "cosine":
        model.calibrate(source.read(pairs.first + np.arange(count)))
    trainer = Trainer(model, training, 0, source)
    segment = Segment(0, training.instances, VariantSettings())

    def step() -> int:
        if trainer.seen + training.batch_size > training.instances:
            trainer.seen = 0
        trainer.train(segment, trainer.seen + training.batch_size, pairs)
        return training.batch_size

    def evaluate() -> int:
        trainer.scores(pairs)
        return count

    return Rates(loading, frozen, _rate(step, seconds), _rate(evaluate, seconds / 3))


def _rate(work: Callable[[], int], seconds: float) -> float:
    """Units a second; a first call, which warms up, does not count."""
    work()
    began, done = time.perf_counter(), 0
    while not done or time.perf_counter() - began < seconds:
        done += work()
    return done / (time.perf_counter() - began)
