"""Seeds that look collapsed, with the warning about them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from analysis.stats.comparison import Comparison
from analysis.stats.outlying_runs import OutlyingRun, estimate_noise, find_outlying_runs
from trainables.metrics import LOWER_IS_BETTER
from trainables.utils.arrays import Floats

_WARNING = "the tests assume that this does not happen (see “Limits” in docs/background/statistics.md)"


def describe_outlying_run(run: OutlyingRun) -> str:
    """Return the warning in one sentence.

    Example:
        >>> run = OutlyingRun("T-LS", 3, 0.412, (0.731, 0.744), is_worse=True, metric="R10@1")
        >>> describe_outlying_run(run).partition(";")[0]
        'T-LS seed 3 looks collapsed: R10@1 0.4120, its other seeds 0.7310 to 0.7440'
    """
    low, high = run.others
    value = f"{run.metric} {run.mean:.4f}".strip()
    others = f"its other seeds {low:.4f} to {high:.4f}" if low < high else f"its other seed {low:.4f}"
    if run.is_worse:
        return f"{run.system} seed {run.seed} looks collapsed: {value}, {others}; {_WARNING}"
    return (
        f"{run.system} seed {run.seed} is far better than the system's other seeds, which may have collapsed: "
        f"{value}, {others}; {_WARNING}"
    )


def find_outlying_seeds(
    values: Mapping[str, Floats], seeds: Sequence[Any], metric: str = "", less_is_better: bool = False
) -> list[OutlyingRun]:
    """Return the runs that are far from their system's other seeds, in order of systems and seeds.

    Args:
        values: (seeds, queries) metric of the runs of each system; a row with NaN is a missing run. Systems with one
            row, or the same row for every seed, are ignored.
        seeds: names of the seeds.
        metric: name of the metric. A metric in LOWER_IS_BETTER collapses upwards.
        less_is_better: True if smaller values are better.
    """
    seeded = {name: own for name, own in values.items() if len(own) == len(seeds) > 1 and np.ptp(own, axis=0).any()}
    runs = find_outlying_runs(
        {name: own.mean(axis=1) for name, own in seeded.items()},
        less_is_better or metric in LOWER_IS_BETTER,
        estimate_noise(seeded),
    )
    return [run._replace(seed=seeds[run.seed], metric=metric) for run in runs]


def name_outlying_seeds(comparisons: Sequence[Comparison], outlying: Sequence[OutlyingRun]) -> list[Comparison]:
    """Return the comparisons with the outlying seeds of their two sides, by the metric of the test runs."""
    return [
        replace(
            c,
            outlying_seeds=[{"system": own.system, "seed": own.seed, "looks_collapsed": own.is_worse} for own in found],
        )
        if c.split is None
        and (found := [own for own in outlying if own.system in (c.system, c.baseline) and own.metric == c.metric])
        else c
        for c in comparisons
    ]
