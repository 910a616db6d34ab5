"""How fast a sentence encoder's run is here: real training, and evaluation of the first development pairs."""

import time

import numpy as np

from trainables.models.sentence_encoder import SentenceEncoder
from trainables.sentence_encoders.runner import SentenceData, encoder
from trainables.sentence_encoders.trainer import EncoderTrainer
from trainables.specs.job import Job
from trainables.specs.plugin import Rates
from trainables.specs.sentence_encoder import encoding
from trainables.specs.stages import Segment
from trainables.training.frozen_features import FewTexts
from trainables.training.runner import fix_arithmetic
from trainables.training.throughput import per_second
from trainables.utils.arrays import Ints

_PAIRS = 250
_BATCHES = 8
"""Of training sentences, which are drawn again and again."""


class _First(FewTexts):
    """The first training sentences, and those of some pairs."""

    def __init__(self, data: SentenceData, training: int, others: Ints, model: SentenceEncoder) -> None:
        self.training = training
        rows = np.union1d(np.arange(training), others)
        super().__init__(data.sentences, rows, model)
        self.count = len(rows)


def rates(job: Job, seconds: float) -> Rates:
    """Measures a run, as `trainables.training.throughput.rates` says; with the noise that its variant begins with."""
    specification = encoding(job.specification)
    training = specification.training
    assert specification.model is not None
    assert training is not None
    fix_arithmetic(training.threads)
    data, began = SentenceData(job), time.perf_counter()
    model = encoder(job, 0)
    loading = time.perf_counter() - began
    first, second = data.sentences.first("dev")[:_PAIRS], data.sentences.second("dev")[:_PAIRS]
    count, others = min(data.training, _BATCHES * training.batch_size), np.union1d(first, second)
    began = time.perf_counter()
    source = _First(data, count, others, model)
    frozen = source.count / (time.perf_counter() - began) if specification.model.frozen_layers else None
    trainer = EncoderTrainer(model, training, 0, source)
    segment = Segment(0, training.instances, specification.variant.constant())

    def step() -> int:
        if trainer.seen + training.batch_size > training.instances:
            trainer.seen = 0
        trainer.train(segment, trainer.seen + training.batch_size)
        return training.batch_size

    def evaluate() -> int:
        trainer.scores(first, second)
        return len(first)

    return Rates(loading, frozen, per_second(step, seconds), per_second(evaluate, seconds / 3))
