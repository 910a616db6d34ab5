"""Throughput of a sentence encoder's run on this machine, measured on real data.

Training uses the first training sentences, evaluation the first development pairs.
"""

import time

import numpy as np

from trainables.models.sentence_encoder import SentenceEncoder
from trainables.sentence_encoders.runner import EncoderData
from trainables.sentence_encoders.trainer import EncoderTrainer
from trainables.specs.checkpoints import Segment
from trainables.specs.plugin import Throughput
from trainables.specs.sentence_encoder import as_encoder_spec
from trainables.specs.trial import TrialSpec
from trainables.training.determinism import enable_determinism
from trainables.training.frozen_features import InMemoryFeatures
from trainables.training.throughput import measure_rate
from trainables.utils.arrays import Ints

_N_PAIRS = 250
_N_BATCHES = 8
"""Batches of training sentences, which are used repeatedly."""


class _FirstSentences(InMemoryFeatures):
    """The first training sentences, and the sentences of some pairs."""

    def __init__(self, data: EncoderData, n_training: int, pair_rows: Ints, model: SentenceEncoder) -> None:
        self.n_training = n_training
        rows = np.union1d(np.arange(n_training), pair_rows)
        super().__init__(data.tokens, rows, model)
        self.count = len(rows)


def measure_throughput(trial: TrialSpec, seconds: float) -> Throughput:
    """Measure the throughput of a run, as `trainables.training.throughput.measure_throughput` describes.

    Training uses the noise with which the run's variant begins.
    """
    specification = as_encoder_spec(trial.specification)
    training = specification.training
    assert specification.model is not None
    assert training is not None
    enable_determinism(training.threads)
    data, start = EncoderData(trial), time.perf_counter()
    model = data.load_model(seed=0)
    loading = time.perf_counter() - start
    first, second = data.tokens.get_first_rows("dev")[:_N_PAIRS], data.tokens.get_second_rows("dev")[:_N_PAIRS]
    count, evaluated_rows = min(data.n_training, _N_BATCHES * training.batch_size), np.union1d(first, second)
    start = time.perf_counter()
    source = _FirstSentences(data, count, evaluated_rows, model)
    frozen = source.count / (time.perf_counter() - start) if specification.model.frozen_layers else None
    trainer = EncoderTrainer(model, training, 0, source)
    segment = Segment(0, training.instances, specification.variant.to_constant())

    def step() -> int:
        if trainer.instances_seen + training.batch_size > training.instances:
            trainer.instances_seen = 0
        trainer.train(segment, trainer.instances_seen + training.batch_size)
        return training.batch_size

    def evaluate() -> int:
        trainer.score_pairs(first, second)
        return len(first)

    return Throughput(loading, frozen, measure_rate(step, seconds), measure_rate(evaluate, seconds / 3))
