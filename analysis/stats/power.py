"""What a comparison can see: the difference it finds with a given power, and the sample that another one would need."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from analysis.stats.estimate import Estimate
from analysis.stats.two_way import combine_mean_squares

POWER = 0.8
_MAX_STANDARD_ERRORS = 1e5
"""Standard errors beyond which no difference is looked for: the non-central t distribution takes minutes there."""
_MAX_QUERIES = 10_000_000
"""Queries beyond which no number is named."""


class DifferenceVariance(NamedTuple):
    """Variances of a paired difference: between seeds, between queries (query x system), and of the rest."""

    seed: float
    query: float
    rest: float

    def estimate(self, seeds: int, queries: int, mean: float = 0.0) -> Estimate:
        """A mean difference over so many seeds and queries, as `significance.over_both` would find it."""
        few, more = self.rest + queries * self.seed, seeds * self.query
        if seeds > queries:
            few, more = self.rest + seeds * self.query, queries * self.seed
        return combine_mean_squares(mean, few, more, (seeds, queries))


def minimum_detectable_effect(estimate: Estimate, level: float, power: float = POWER) -> float | None:
    """Smallest true difference that a two-sided t-test of this spread finds with this power.

    Solved over the non-central t distribution.

    Args:
        estimate: its standard error and degrees of freedom count.
        level: of one comparison, after correction.
        power: probability of finding it.

    Returns:
        The difference, in units of the metric; None where there is no spread, or the level is out of reach.
    """
    from scipy import optimize, stats

    if estimate.error == 0 or level <= 0:
        return None
    df = estimate.df_at(level)
    critical = stats.t.isf(level / 2, df)
    if critical > _MAX_STANDARD_ERRORS:
        return None

    def shortfall(shift: float) -> float:
        tails = stats.nct.sf(critical, df, shift), stats.nct.sf(critical, df, -shift)
        return float(np.nansum(tails)) - power  # the wrong side's is nan where it is next to nothing

    upper = 1.0
    while shortfall(upper) < 0:
        if upper > _MAX_STANDARD_ERRORS:
            return None
        upper *= 2
    return float(optimize.brentq(shortfall, 0.0, upper, xtol=1e-12)) * estimate.error


def required_queries(
    variance: DifferenceVariance, difference: float, seeds: int, level: float, power: float = POWER
) -> int | None:
    """How many queries find a true difference with this power, over so many seeds.

    Returns:
        None where no number does: the seeds' own variance, which more queries do not lessen, is too large.
    """

    def is_enough(queries: int) -> bool:
        estimate = variance.estimate(seeds, queries)
        found = minimum_detectable_effect(estimate, level, power)
        return estimate.error == 0 or (found is not None and found <= difference)

    if not is_enough(_MAX_QUERIES):
        return None
    low, high = 1, 2  # of one query nothing is known
    while not is_enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def tabulate_required_queries(
    variance: DifferenceVariance, differences: Sequence[float], seeds: Sequence[int], level: float, power: float = POWER
) -> list[tuple[float, list[int | None]]]:
    """Of each true difference, the queries needed with each number of seeds."""
    return [
        (difference, [required_queries(variance, difference, number, level, power) for number in seeds])
        for difference in differences
    ]
