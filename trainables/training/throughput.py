"""How fast a run is here: a few seconds of real training and evaluation on the first of the real data."""

import time
from collections.abc import Callable

from trainables.specs.plugin import Throughput, get_trainable
from trainables.specs.trial import TrialSpec


def measure_throughput(trial: TrialSpec, seconds: float) -> Throughput:
    """Measures a training run.

    Args:
        job: any run that trains; its data is prepared.
        seconds: of training, and a third of it of evaluation; at least one batch of each is measured.
    """
    return get_trainable(trial.specification).training_backend.measure_throughput(trial, seconds)


def measure_rate(run_once: Callable[[], int], seconds: float) -> float:
    """Units a second; a first call, which warms up, does not count."""
    run_once()
    began, done = time.perf_counter(), 0
    while not done or time.perf_counter() - began < seconds:
        done += run_once()
    return done / (time.perf_counter() - began)
