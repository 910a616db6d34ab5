"""Two-way analysis of differences over seeds and queries, both of them samples.

The model is d[s, q] = m + a[s] + b[q] + e[s, q]; all except m are random. Here a is the variation of the difference
between seeds, b is its variation between queries (query x system), and e is the rest.

Radiology has the same problem: several readers judge the same cases by two methods. Readers are seeds, cases are
queries. For two methods, the variance of this module is that of Dorfman, Berbaum and Metz (1992) and of Obuchowski and
Rockette (1995).
"""

import math
from typing import NamedTuple

import numpy as np

from analysis.stats.estimate import Estimate, guess_deviation
from trainables.utils.arrays import Floats

MIN_SEED_SHARE = 0.01
"""Smallest mean square of the seeds that is accepted, as a share of the mean square of the rest."""
ROUNDING = 1e-10
"""Deviation that is a rounding error, as a share of the differences."""


class TwoWayAnova(NamedTuple):
    """Mean squares of differences (seeds, queries), with at least two of each."""

    seeds: int
    queries: int
    mean: float
    ms_seed: float
    ms_query: float
    ms_residual: float


def two_way_anova(d: Floats) -> TwoWayAnova:
    """Compute the mean squares of d (seeds, queries)."""
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
    """Estimate the mean for new seeds and new queries.

    The variance of the mean is (MS_seed + MS_query - MS_residual) / (S Q), where MS_query - MS_residual is at least 0.
    With more seeds than queries, the two exchange roles. MS_seed is at least a hundredth of MS_residual: seeds may
    agree exactly if a metric has few values, which is no reason to be certain. For the degrees of freedom see
    `Estimate.df_at`.
    """
    few, more, levels = anova.ms_seed, anova.ms_query, (anova.seeds, anova.queries)
    if anova.seeds > anova.queries:
        few, more = more, few
    return combine_mean_squares(
        anova.mean, max(few, MIN_SEED_SHARE * anova.ms_residual), max(more - anova.ms_residual, 0.0), levels
    )


def combine_mean_squares(mean: float, few: float, more: float, levels: tuple[int, int]) -> Estimate:
    """Estimate a mean over seeds and queries from two mean squares.

    If all differences are equal, their deviation is that of `estimate.guess_deviation`.

    Args:
        mean: mean difference.
        few: mean square of the factor with fewer levels.
        more: what the other factor adds to it.
        levels: numbers of seeds and queries.
    """
    if few + more <= (ROUNDING * mean) ** 2:
        few, more = guess_deviation(mean) ** 2 * max(levels), 0.0
    share = few / (few + more) if few + more else 1.0
    return Estimate(mean, math.sqrt((few + more) / math.prod(levels)), min(levels) - 1, share, max(levels) - 1)


def classical_estimate(anova: TwoWayAnova) -> Estimate:
    """Estimate the mean as published for several readers and cases (Obuchowski and Rockette 1995, Hillis 2007).

    The variance is that of `two_way_estimate`, without the floor of MS_seed. The degrees of freedom are those of Hillis
    (2007): only the first term of Satterthwaite's sum, so (S - 1) / share^2, without a caution for few seeds. With more
    seeds than queries, the two exchange roles.

    Example:
        >>> anova = TwoWayAnova(seeds=3, queries=50, mean=0.1, ms_seed=1.0, ms_query=1.5, ms_residual=0.5)
        >>> round(classical_estimate(anova).df, 4), round(classical_estimate(anova).test().p, 4)
        (8.0, 0.4117)
    """
    few, more = anova.ms_seed, anova.ms_query
    if anova.seeds > anova.queries:
        few, more = more, few
    exact = combine_mean_squares(anova.mean, few, max(more - anova.ms_residual, 0.0), (anova.seeds, anova.queries))
    return Estimate(exact.mean, exact.error, exact.df / exact.share**2 if exact.share else math.inf)


def satterthwaite_estimate(anova: TwoWayAnova) -> Estimate:
    """Estimate with Satterthwaite's own degrees of freedom and a floor of the variance.

    Otherwise as `two_way_estimate`. The variance is never below MS_residual / (S Q). With three to ten seeds, the
    level of a test at .05 is between .015, where only the rest varies, and .078. Racing uses it: its levels far below
    .05 were measured with this estimate.
    """
    a, b, rest = anova.ms_seed, anova.ms_query, anova.ms_residual
    seeds, queries = anova.seeds - 1, anova.queries - 1
    total = max(a + b - rest, rest)
    if total <= (ROUNDING * anova.mean) ** 2:
        return combine_mean_squares(anova.mean, 0.0, 0.0, (anova.seeds, anova.queries))
    spread = a**2 / seeds + b**2 / queries + rest**2 / (seeds * queries)
    return Estimate(anova.mean, math.sqrt(total / (anova.seeds * anova.queries)), total**2 / spread)
