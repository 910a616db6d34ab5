"""Differences over seeds and queries, both of them samples: mean squares, parts of variance, the spread of the mean.

The model is d[s, q] = m + a[s] + b[q] + e[s, q], all but m random: a is how the systems differ in their luck with a
seed, b how their difference depends on the query (query x system), e the rest.
"""

import math
from typing import NamedTuple

import numpy as np

from analysis.stats.estimate import Estimate
from trainables.utils.arrays import Floats

_MIN_SEED_SHARE = 0.01
"""Share of the mean square of the rest below which that of the seeds is not believed."""


class TwoWayAnova(NamedTuple):
    """Mean squares of differences (seeds, queries), at least two of each."""

    seeds: int
    queries: int
    mean: float
    ms_seed: float
    ms_query: float
    ms_residual: float


def two_way_anova(d: Floats) -> TwoWayAnova:
    """The mean squares of d (seeds, queries)."""
    seeds, queries = d.shape
    by_seed, by_query, grand = d.mean(axis=1), d.mean(axis=0), float(d.mean())
    residual = d - by_seed[:, None]
    residual -= by_query - grand
    return TwoWayAnova(
        seeds,
        queries,
        grand,
        queries * float(by_seed.var(ddof=1)),
        seeds * float(by_query.var(ddof=1)),
        float(np.vdot(residual, residual)) / ((seeds - 1) * (queries - 1)),
    )


def two_way_estimate(anova: TwoWayAnova) -> Estimate:
    """The mean as an estimate for new seeds and new queries.

    The variance of the mean is (MS_seed + MS_query - MS_residual) / (S Q), where MS_query - MS_residual is no less than
    0; with more seeds than queries the two change places. MS_seed is no less than a hundredth of MS_residual: seeds of
    a metric of few values may agree exactly, which is no reason to be certain. For the degrees of freedom see
    `Estimate.df_at`.
    """
    few, more, levels = anova.ms_seed, anova.ms_query, (anova.seeds, anova.queries)
    if anova.seeds > anova.queries:
        few, more = more, few
    return combine_mean_squares(
        anova.mean, max(few, _MIN_SEED_SHARE * anova.ms_residual), max(more - anova.ms_residual, 0.0), levels
    )


def combine_mean_squares(mean: float, few: float, more: float, levels: tuple[int, int]) -> Estimate:
    """A mean over seeds and queries, from the mean square of the factor with fewer levels and what the other adds."""
    share = few / (few + more) if few + more else 1.0
    return Estimate(mean, math.sqrt((few + more) / math.prod(levels)), min(levels) - 1, share, max(levels) - 1)


def satterthwaite_estimate(anova: TwoWayAnova) -> Estimate:
    """The same with Satterthwaite's own degrees of freedom, and a variance that is never below MS_residual / (S Q).

    With three to ten seeds its levels at .05 go from .018, where only the rest varies, to .078. Racing uses it: its
    levels far below .05 were measured with it.
    """
    a, b, rest = anova.ms_seed, anova.ms_query, anova.ms_residual
    seeds, queries = anova.seeds - 1, anova.queries - 1
    total = max(a + b - rest, rest)
    spread = a**2 / seeds + b**2 / queries + rest**2 / (seeds * queries)
    df = total**2 / spread if spread > 0 else float(min(seeds, queries))
    return Estimate(anova.mean, math.sqrt(total / (anova.seeds * anova.queries)), df)
