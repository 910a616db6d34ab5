"""Seeds that look collapsed, with the warning about them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from analysis.stats.collapsed import estimate_noise, find_outlying_runs
from analysis.stats.comparison import Comparison
from trainables.metrics import LOWER_IS_BETTER
from trainables.utils.arrays import Floats

_WARNING = "the tests assume that this does not happen (see “Limits” in docs/background/statistics.md)"


class OutlyingSeed(NamedTuple):
    """A run that is far from its system's other seeds: it looks collapsed, or they do.

    Attributes:
        system: name of the system.
        seed: its seed.
        metric: name of the metric; empty if it has none.
        mean: mean of the run.
        others: smallest and largest mean of the system's other runs that are not outlying.
        is_worse: True if the run looks collapsed. If it is better than the others, they may have collapsed.
    """

    system: str
    seed: Any
    metric: str
    mean: float
    others: tuple[float, float]
    is_worse: bool

    def describe(self) -> str:
        """Return the warning in one sentence.

        Example:
            >>> OutlyingSeed("T-LS", 3, "R10@1", 0.412, (0.731, 0.744), True).describe().partition(";")[0]
            'T-LS seed 3 looks collapsed: R10@1 0.4120, its other seeds 0.7310 to 0.7440'
        """
        low, high = self.others
        value = f"{self.metric} {self.mean:.4f}".strip()
        others = f"its other seeds {low:.4f} to {high:.4f}" if low < high else f"its other seed {low:.4f}"
        if self.is_worse:
            return f"{self.system} seed {self.seed} looks collapsed: {value}, {others}; {_WARNING}"
        return (
            f"{self.system} seed {self.seed} is far better than the system's other seeds, which may have collapsed: "
            f"{value}, {others}; {_WARNING}"
        )


def find_outlying_seeds(
    values: Mapping[str, Floats], seeds: Sequence[Any], metric: str = "", less_is_better: bool = False
) -> list[OutlyingSeed]:
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
    return [OutlyingSeed(run.system, seeds[run.row], metric, run.mean, run.others, run.is_worse) for run in runs]


def name_outlying_seeds(comparisons: Sequence[Comparison], outlying: Sequence[OutlyingSeed]) -> list[Comparison]:
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
