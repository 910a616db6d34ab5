"""How fast a ranker's run is here: real training and evaluation on the first pairs of the real data."""

import time

import numpy as np

from trainables.models.cross_encoder import CrossEncoder
from trainables.rankers.runner import Data, vocabulary
from trainables.rankers.trainer import Pairs, RankerTrainer
from trainables.specs.job import Job
from trainables.specs.plugin import Rates
from trainables.specs.ranker import VariantSettings, ranking
from trainables.specs.stages import Segment
from trainables.training.frozen_features import FewTexts
from trainables.training.runner import fix_arithmetic
from trainables.training.throughput import per_second

_PAIRS = 500


def rates(job: Job, seconds: float) -> Rates:
    """Measures a run, as `trainables.training.throughput.rates` says."""
    specification = ranking(job.specification)
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
    source = FewTexts(data.tokens, pairs.first + np.arange(count), model)
    frozen = count / (time.perf_counter() - began) if model_settings.frozen_layers else None
    if model_settings.pooling == "cosine":
        model.calibrate(source.read(pairs.first + np.arange(count)))
    trainer = RankerTrainer(model, training, 0, source)
    segment = Segment(0, training.instances, VariantSettings())

    def step() -> int:
        if trainer.seen + training.batch_size > training.instances:
            trainer.seen = 0
        trainer.train(segment, trainer.seen + training.batch_size, pairs)
        return training.batch_size

    def evaluate() -> int:
        trainer.scores(pairs)
        return count

    return Rates(loading, frozen, per_second(step, seconds), per_second(evaluate, seconds / 3))
