"""Verdicts without the worst seeds: how far a comparison depends on a single bad run."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from analysis.stats.comparison import (
    Comparison,
    ComparisonFamily,
    ComparisonSettings,
    WithoutWorstSeeds,
    compare_family,
)
from analysis.stats.paired_tests import differences
from trainables.metrics import LOWER_IS_BETTER
from trainables.utils.arrays import Floats

_MIN_SEEDS = 5
"""Fewest seeds of a study: the verdict of the two or three that fewer would leave tells nothing."""
_NOT_A_TEST = "This is a sensitivity check, not a test: with fewer seeds the tests also find less."

Sides = tuple[Floats | None, Floats | None]
"""(seeds, queries) or (1, queries) metric of the system and of the baseline; None where a side is incomplete."""


def compare_without_worst_seeds(
    comparisons: Sequence[Comparison],
    family: ComparisonFamily,
    sides: Sequence[Sides],
    seeds: Sequence[Any],
    settings: ComparisonSettings,
) -> list[Comparison]:
    """Return the comparisons of a family with the verdicts that they would have without the worst seeds.

    For each comparison, the seed with the worst mean of the system and that of the baseline are removed. As seeds are
    paired, each is removed on both sides. The family is then compared again in the same way. With fewer than five seeds
    the comparisons are returned as they are.

    Args:
        comparisons: the comparisons of the family, as `compare_family` returns them.
        family: the family.
        sides: the two sides of each comparison.
        seeds: names of the seeds.
        settings: settings of the family's comparisons.
    """
    if len(seeds) < _MIN_SEEDS:
        return list(comparisons)
    removed, pairs = list[list[int] | None](), []
    for c, (system, baseline), (_, _, whole) in zip(comparisons, sides, family.pairs, strict=True):
        rows = _find_worst_rows(system, baseline, c.metric in LOWER_IS_BETTER or settings.less_is_better)
        removed.append(rows)
        if rows is None or system is None or baseline is None:
            pairs.append((c.system, c.baseline, whole))
        else:
            rest = [np.delete(side, rows, axis=0) if len(side) > 1 else side for side in (system, baseline)]
            pairs.append((c.system, c.baseline, differences(*rest)))
    if not any(removed):
        return list(comparisons)
    without = compare_family(replace(family, pairs=pairs), replace(settings, tests=()))
    return [
        c
        if rows is None
        else replace(
            c,
            without_worst_seeds=WithoutWorstSeeds(
                other.verdict,
                other.adjusted[settings.correction],
                [seeds[row] for row in rows],
                len(seeds) - len(rows),
            ),
        )
        for c, other, rows in zip(comparisons, without, removed, strict=True)
    ]


def describe_sensitivity(comparisons: Sequence[Comparison]) -> str:
    """Say how many verdicts do not change without the worst seeds; empty if none could be removed."""
    checks = [(c.verdict, c.without_worst_seeds.verdict) for c in comparisons if c.without_worst_seeds]
    if not checks:
        return ""
    same = sum(verdict == other for verdict, other in checks)
    return f"Without the worst seed of each side, {same} of {len(checks)} verdicts stay the same. {_NOT_A_TEST}"


def _find_worst_rows(system: Floats | None, baseline: Floats | None, less_is_better: bool) -> list[int] | None:
    """Return the rows of the worst seeds; None where a side is incomplete or no side has seeds that differ."""
    if system is None or baseline is None:
        return None
    means = [side.mean(axis=1) * (-1 if less_is_better else 1) for side in (system, baseline)]
    worst = {int(own.argmin()) for own in means if np.ptp(own) > 0}
    return sorted(worst) or None
