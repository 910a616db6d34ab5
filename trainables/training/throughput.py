"""Throughput of a run on this machine: a few seconds of training and evaluation on the first of the real data."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from trainables.specs.plugin import Throughput
from trainables.specs.trial import TrialSpec
from trainables.training.frozen_features import EncoderInputs, InMemoryFeatures
from trainables.training.process import prepare_process
from trainables.training.trainer import Trainer
from trainables.utils.arrays import Ints
from trainables.utils.base_settings import require


class Workload(NamedTuple):
    """Training and evaluation of a run on a part of its data."""

    trainer: Trainer
    train: Callable[[int], None]  # until the trainer has seen a number of instances
    evaluate: Callable[[], int]  # scores some pairs and returns their number


def measure_workload(
    trial: TrialSpec,
    seconds: float,
    data: EncoderInputs,
    rows: Ints,
    make_workload: Callable[[Any, InMemoryFeatures], Workload],
) -> Throughput:
    """Measure the throughput of a training run.

    Args:
        trial: any trial that trains; its data is prepared and its texts have token ids.
        seconds: duration of the measured training. Evaluation takes a third of it. At least one batch of each is
            measured.
        data: inputs of the trial's model.
        rows: numbers of the texts that the workload reads.
        make_workload: returns the workload of the trial's model before training, which reads its texts from memory.

    Returns:
        Seconds of loading, and units per second of the frozen layers, of training and of evaluation.
    """
    training = require(trial.specification.training)
    prepare_process(training.threads)
    start = time.perf_counter()
    model = data.load_model(seed=0)
    loaded = time.perf_counter()
    features = InMemoryFeatures(data.tokens, rows, model)
    frozen = len(rows) / (time.perf_counter() - loaded) if model.lower is not None else None
    trainer, train, evaluate = make_workload(model, features)

    def train_batch() -> int:
        if trainer.instances_seen + training.batch_size > training.instances:
            trainer.instances_seen = 0
        train(trainer.instances_seen + training.batch_size)
        return training.batch_size

    return Throughput(loaded - start, frozen, _measure_rate(train_batch, seconds), _measure_rate(evaluate, seconds / 3))


def _measure_rate(run_once: Callable[[], int], seconds: float) -> float:
    """Return the units per second of a function that processes some units and returns their number, after a warm-up."""
    run_once()
    start, done = time.perf_counter(), 0
    while not done or time.perf_counter() - start < seconds:
        done += run_once()
    return done / (time.perf_counter() - start)
