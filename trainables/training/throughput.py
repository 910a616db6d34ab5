"""How fast a run is here: a few seconds of real training and evaluation on the first of the real data."""

import time
from collections.abc import Callable

from trainables.specs.job import Job
from trainables.specs.plugin import Rates, of


def rates(job: Job, seconds: float) -> Rates:
    """Measures a training run.

    Args:
        job: any run that trains; its data is prepared.
        seconds: of training, and a third of it of evaluation; at least one batch of each is measured.
    """
    return of(job.specification).runs.rates(job, seconds)


def per_second(work: Callable[[], int], seconds: float) -> float:
    """Units a second; a first call, which warms up, does not count."""
    work()
    began, done = time.perf_counter(), 0
    while not done or time.perf_counter() - began < seconds:
        done += work()
    return done / (time.perf_counter() - began)
