"""Variance components of scores, for planning: seeds, queries and the rest, beyond what all systems share.

A paired difference of two systems depends only on what seeds and queries do to each system apart, so what they do to
all systems alike is no component. Systems share their seeds, so the model is crossed:

    y[k, s, q] = (common to all systems)[s, q] + system[k] + seed[k, s] + query[k, q] + rest[k, s, q]

The mean squares are those of Searle, Casella and McCulloch (1992), Variance Components, chapter 4.

An unbiased estimate of the seeds' component has few degrees of freedom: it is too small more often than too large, and
so is the number of queries that it asks for. Studies are planned with an estimate that is as often too small as too
large, in which the mean square of the seeds is divided by the median of its F distribution.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from analysis.stats.power import DifferenceVariance
from analysis.stats.two_way import two_way_anova
from trainables.utils.arrays import Floats, count_decimals


class VarianceComponents(NamedTuple):
    """Variance components of one system's scores; each is half of that of a difference of two systems.

    Attributes:
        seed_by_system: variance between seeds, of a system's mean over queries.
        query_by_system: variance between queries, of a system's mean over seeds.
        rest: variance of a query in one run beyond these two.
        seed_df: degrees of freedom that `seed_by_system` is estimated with. None if it is no estimate.
        seed_median: estimate of `seed_by_system` that is as often too small as too large. None if it is no estimate.
    """

    seed_by_system: float
    query_by_system: float
    rest: float
    seed_df: int | None = None
    seed_median: float | None = None

    def to_difference_variance(self) -> DifferenceVariance:
        """Return the variances of the paired difference of two systems, to plan with: the seeds' is `seed_median`."""
        seed = self.seed_by_system if self.seed_median is None else self.seed_median
        return DifferenceVariance(2 * seed, 2 * self.query_by_system, 2 * self.rest)


def estimate_variance_components(values: Sequence[Floats]) -> VarianceComponents | None:
    """Estimate the components of systems.

    The mean squares are those of the scores less their mean over systems. Negative estimates are set to 0. With two
    systems, the components are half of those of their difference, by the analysis of variance that the tests use.

    Args:
        values: scores (seeds, queries) of each system, all of one shape. Row s is the same seed for all systems.

    Returns:
        None with fewer than two systems, seeds or queries.

    Example:
        >>> import numpy as np
        >>> baseline = np.array([[0.5, 0.7, 0.3], [0.6, 0.8, 0.4]])  # (seeds, queries)
        >>> gain = np.array([[0.1, 0.2, 0.3], [0.0, 0.1, 0.2]])
        >>> components = estimate_variance_components([baseline, baseline + gain])
        >>> [round(value, 4) for value in components[:3]], components.seed_df
        ([0.0025, 0.005, 0.0], 1)
        >>> [round(value, 4) for value in components.to_difference_variance()]
        [0.0075, 0.01, 0.0]
    """
    from scipy import stats

    if len(values) < 2 or min(values[0].shape) < 2:
        return None
    seeds, queries = values[0].shape
    common = np.sum(values, axis=0) / len(values)
    decimals = count_decimals(*values)
    anovas = [two_way_anova(np.round(scores - common, decimals)) for scores in values]
    df = len(values) - 1
    ms_seed, ms_query, ms_rest = (
        sum(getattr(anova, name) for anova in anovas) / df for name in ("ms_seed", "ms_query", "ms_residual")
    )
    seed_df = df * (seeds - 1)
    median_ratio = float(stats.f.median(seed_df, seed_df * (queries - 1)))
    components = (ms_seed - ms_rest) / queries, (ms_query - ms_rest) / seeds, ms_rest
    median = (ms_seed / median_ratio - ms_rest) / queries
    seed, query, rest, median = (max(round(component, 2 * decimals), 0.0) for component in (*components, median))
    return VarianceComponents(seed, query, rest, seed_df, median)


def describe_deviations(components: VarianceComponents) -> str:
    """Return the square roots of the components in words, how well that of the seeds is known, and what plans use."""
    named = zip(("seeds", "queries", "rest"), components[:3], strict=True)
    deviations = ", ".join(f"{name} {value**0.5:.4f}" for name, value in named)
    text, df = f"standard deviations of one system, beyond what all systems share: {deviations}", components.seed_df
    if df is None or components.seed_median is None:
        return text
    known = f"the variation between seeds is estimated with {df} degree{'s' * (df != 1)} of freedom"
    return f"{text}; {known}, to plan with {components.seed_median**0.5:.4f}, which is as often too small as too large"
