"""Throughput of a sentence encoder's run on this machine, measured on real data.

Training uses the first training sentences, evaluation the first development pairs.
"""

from typing import NamedTuple

import numpy as np

from trainables.models.packing import PackedBatch
from trainables.models.sentence_encoder import SentenceEncoder
from trainables.sentence_encoders.runner import EncoderData
from trainables.sentence_encoders.trainer import EncoderTrainer
from trainables.specs.checkpoints import Segment
from trainables.specs.plugin import Throughput
from trainables.specs.sentence_encoder import as_encoder_spec
from trainables.specs.trial import TrialSpec
from trainables.training.frozen_features import InMemoryFeatures
from trainables.training.throughput import Workload, measure_workload
from trainables.utils.arrays import Ints

_N_PAIRS = 250
_N_BATCHES = 8
"""Batches of training sentences, which are used repeatedly."""


class _FirstSentences(NamedTuple):
    """The first training sentences, as a trainer reads them."""

    features: InMemoryFeatures
    n_training: int

    @property
    def lengths(self) -> Ints:
        return self.features.lengths

    def read(self, rows: Ints) -> PackedBatch:
        return self.features.read(rows)


def measure_throughput(trial: TrialSpec, seconds: float) -> Throughput:
    """Measure the throughput of a run, as `trainables.training.throughput.measure_workload` describes.

    Training uses the noise with which the run's variant begins.
    """
    specification = as_encoder_spec(trial.specification)
    assert specification.training is not None
    training, data = specification.training, EncoderData(trial)
    data.tokenize_once(lambda: None)
    first, second = data.tokens.get_first_rows("dev")[:_N_PAIRS], data.tokens.get_second_rows("dev")[:_N_PAIRS]
    n_training = min(data.n_training, _N_BATCHES * training.batch_size)
    rows = np.union1d(np.arange(n_training), np.union1d(first, second))
    segment = Segment(0, training.instances, specification.variant.to_constant())

    def make_workload(model: SentenceEncoder, features: InMemoryFeatures) -> Workload:
        trainer = EncoderTrainer(model, training, 0, _FirstSentences(features, n_training))
        return Workload(
            trainer, lambda until: trainer.train(segment, until), lambda: len(trainer.score_pairs(first, second))
        )

    return measure_workload(trial, seconds, data, rows, lambda: data.load_model(seed=0), make_workload)
