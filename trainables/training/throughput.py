"""Throughput of a run on this machine.

It is measured by a few seconds of training and evaluation on the first of the real data.
"""

import time
from collections.abc import Callable

from trainables.specs.plugin import Throughput, get_trainable
from trainables.specs.trial import TrialSpec


def measure_throughput(trial: TrialSpec, seconds: float) -> Throughput:
    """Measure the throughput of a training run.

    Args:
        trial: any trial that trains; its data is prepared.
        seconds: duration of the measured training. Evaluation takes a third of it. At least one batch of each is
            measured.

    Returns:
        Seconds of loading, and units per second of the frozen layers, of training and of evaluation.
    """
    return get_trainable(trial.specification).training_backend.measure_throughput(trial, seconds)


def measure_rate(run_once: Callable[[], int], seconds: float) -> float:
    """Return the units per second of a function that processes some units and returns their number.

    A first call warms up and does not count.

    Args:
        run_once: processes some units and returns their number.
        seconds: minimum duration of the measurement.
    """
    run_once()
    start, done = time.perf_counter(), 0
    while not done or time.perf_counter() - start < seconds:
        done += run_once()
    return done / (time.perf_counter() - start)
