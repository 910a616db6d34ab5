"""Throughput of a ranker's run on this machine, measured on the first pairs of the real data."""

import time

import numpy as np

from trainables.rankers.runner import RankerData
from trainables.rankers.trainer import Pairs, RankerTrainer
from trainables.specs.checkpoints import Segment
from trainables.specs.plugin import Throughput
from trainables.specs.ranker import LabelSmoothing, as_ranker_spec
from trainables.specs.trial import TrialSpec
from trainables.training.determinism import enable_determinism
from trainables.training.frozen_features import InMemoryFeatures
from trainables.training.throughput import measure_rate

_N_PAIRS = 500


def measure_throughput(trial: TrialSpec, seconds: float) -> Throughput:
    """Measure the throughput of a run, as `trainables.training.throughput.measure_throughput` describes."""
    specification = as_ranker_spec(trial.specification)
    model_settings, training = specification.model, specification.training
    assert model_settings is not None
    assert training is not None
    enable_determinism(training.threads)
    data, start = RankerData(trial), time.perf_counter()
    model = data.load_model(seed=0)
    train_pairs = data.select_pairs("train")
    loading = time.perf_counter() - start
    count = min(
        len(train_pairs.relevant),
        max(_N_PAIRS // train_pairs.candidates, 2 * training.batch_size) * train_pairs.candidates,
    )
    pairs = Pairs(
        train_pairs.first_row, train_pairs.relevant[:count], train_pairs.weak_labels[:count], train_pairs.candidates
    )
    start = time.perf_counter()
    source = InMemoryFeatures(data.tokens, pairs.first_row + np.arange(count), model)
    frozen = count / (time.perf_counter() - start) if model_settings.frozen_layers else None
    if model_settings.pooling == "cosine":
        model.standardize_cosine(source.read(pairs.first_row + np.arange(count)))
    trainer = RankerTrainer(model, training, 0, source)
    segment = Segment(0, training.instances, LabelSmoothing())

    def step() -> int:
        if trainer.instances_seen + training.batch_size > training.instances:
            trainer.instances_seen = 0
        trainer.train(segment, trainer.instances_seen + training.batch_size, pairs)
        return training.batch_size

    def evaluate() -> int:
        trainer.score_pairs(pairs)
        return count

    return Throughput(loading, frozen, measure_rate(step, seconds), measure_rate(evaluate, seconds / 3))
