"""Power of a comparison: its minimum detectable effect, and the seeds and queries that it needs.

A level is that of one comparison, after correction. Differences are in units of the metric.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from analysis.stats.estimate import Estimate
from analysis.stats.two_way import combine_mean_squares

POWER = 0.8
"""Probability of finding the difference."""
_MAX_STANDARD_ERRORS = 1e5
"""Standard errors beyond which no difference is searched: the non-central t distribution takes minutes there."""
_MAX_QUERIES = 10_000_000
"""Largest number of queries that is reported."""
_MAX_SEEDS = 1000
"""Largest number of seeds that is reported."""


class DifferenceVariance(NamedTuple):
    """Variances of a paired difference: between seeds, between queries (query x system), and of the rest."""

    seed: float
    query: float
    rest: float

    def estimate(self, seeds: int, queries: int) -> Estimate:
        """Return the estimate over both factors that this many seeds and queries would give; its mean is 0.

        It is that of `paired_tests.estimate_over_both`.
        """
        few, more = self.rest + queries * self.seed, seeds * self.query
        if seeds > queries:
            few, more = self.rest + seeds * self.query, queries * self.seed
        return combine_mean_squares(0.0, few, more, (seeds, queries))


class SampleSize(NamedTuple):
    """Seeds and queries of a study, and what one of its systems costs.

    Attributes:
        seconds: seconds to train one system with all seeds and to score all queries.
    """

    seeds: int
    queries: int
    seconds: float


def minimum_detectable_effect(estimate: Estimate, level: float) -> float | None:
    """Return the smallest true difference that a two-sided t-test with this standard error finds with 80 % power.

    Solved over the non-central t distribution.

    Args:
        estimate: its standard error and degrees of freedom are used.
        level: significance level of one comparison, after correction.

    Returns:
        The difference, in units of the metric. None if there is no spread, or if the level is out of reach.

    Example:
        >>> from analysis.stats.estimate import Estimate
        >>> round(minimum_detectable_effect(Estimate(mean=0.0, error=0.01, df=100), level=0.05), 4)
        0.0283
    """
    from scipy import optimize

    if estimate.error == 0 or level <= 0:
        return None
    df, critical = _critical_value(estimate, level)
    if critical > _MAX_STANDARD_ERRORS:
        return None

    def shortfall(shift: float) -> float:
        return POWER - _power_at(shift, df, critical)

    upper = 1.0
    while shortfall(upper) > 0:
        if upper > _MAX_STANDARD_ERRORS:
            return None
        upper *= 2
    return float(optimize.brentq(shortfall, 0.0, upper, xtol=1e-12)) * estimate.error


def compute_power(variance: DifferenceVariance, difference: float, seeds: int, queries: int, level: float) -> float:
    """Return the probability that a two-sided test over seeds and queries finds a true difference.

    Returns:
        The power. 1 if there is no spread, and 0 if the level is out of reach.

    Example:
        >>> round(compute_power(DifferenceVariance(1e-6, 0.01, 0.02), 0.01, seeds=5, queries=1231, level=0.05), 3)
        0.8
    """
    estimate = variance.estimate(seeds, queries)
    if estimate.error == 0:
        return 1.0
    df, critical = _critical_value(estimate, level)
    if critical > _MAX_STANDARD_ERRORS:
        return 0.0
    return _power_at(min(difference / estimate.error, _MAX_STANDARD_ERRORS), df, critical)


def required_queries(variance: DifferenceVariance, difference: float, seeds: int, level: float) -> int | None:
    """Return the number of queries that finds a true difference with 80 % power and this number of seeds.

    Returns:
        None if no number suffices: the variance between seeds is too large, and more queries do not reduce it.

    Example:
        >>> required_queries(DifferenceVariance(seed=1e-6, query=0.01, rest=0.02), 0.01, seeds=5, level=0.05)
        1231
    """

    def is_enough(queries: int) -> bool:
        return compute_power(variance, difference, seeds, queries, level) >= POWER

    if not is_enough(_MAX_QUERIES):
        return None
    low, high = 1, 2  # one query has no spread
    while not is_enough(high):
        low, high = high, 2 * high
    return _find_smallest(is_enough, low, high)


def find_cheapest_size(
    variance: DifferenceVariance, difference: float, level: float, train_seconds: float, query_seconds: float
) -> SampleSize | None:
    """Return the seeds and queries that find a true difference with 80 % power at the least cost.

    Returns:
        The cheapest numbers, with fewer seeds where two cost the same. None if a thousand seeds do not suffice.

    Example:
        >>> find_cheapest_size(DifferenceVariance(1e-5, 0.01, 0.02), 0.01, 0.05, train_seconds=100, query_seconds=0.125)
        SampleSize(seeds=5, queries=1592, seconds=1495.0)
    """
    best: SampleSize | None = None
    for seeds in range(2, _MAX_SEEDS + 1):
        if best:
            most = int((best.seconds / seeds - train_seconds) / query_seconds)
            if most < 2:  # more seeds cost more without any queries
                break
            if compute_power(variance, difference, seeds, most, level) < POWER:
                continue
        queries = required_queries(variance, difference, seeds, level)
        seconds = seeds * (train_seconds + (queries or 0) * query_seconds)
        if queries and (best is None or seconds < best.seconds):
            best = SampleSize(seeds, queries, seconds)
    return best


def required_growth(
    variance: DifferenceVariance, found: float, difference: float, seeds: int, queries: int, level: float
) -> tuple[int, int] | None:
    """Return the seeds and queries, in the proportion of a study, that find a smaller difference with 80 % power.

    Args:
        variance: variances of a paired difference. Only their proportion counts: they are scaled to `found`.
        found: minimum detectable effect of the study.
        difference: true difference to find, in units of the metric.
        seeds: number of seeds of the study.
        queries: number of its queries.
        level: significance level of one comparison, after correction.

    Returns:
        The smallest such numbers. None if they are not larger than the study's, or if a thousand seeds do not suffice.

    Example:
        >>> required_growth(DifferenceVariance(1e-4, 0.01, 0.02), 0.02, 0.01, seeds=4, queries=500, level=0.05)
        (10, 1250)
    """
    own = minimum_detectable_effect(variance.estimate(seeds, queries), level)

    def is_enough(number: int) -> bool:
        effect = minimum_detectable_effect(variance.estimate(number, -(-queries * number // seeds)), level)
        return own is not None and effect is not None and effect * found <= difference * own

    if seeds >= _MAX_SEEDS or is_enough(seeds) or not is_enough(_MAX_SEEDS):
        return None
    number = _find_smallest(is_enough, seeds, _MAX_SEEDS)
    return number, -(-queries * number // seeds)


def tabulate_required_queries(
    variance: DifferenceVariance, differences: Sequence[float], seeds: Sequence[int], level: float
) -> list[tuple[float, list[int | None]]]:
    """Return each true difference with the queries needed for each number of seeds.

    More seeds never need more queries than fewer seeds do, since some could be left out. By the formula alone they can:
    with more seeds than queries, the two exchange roles.
    """
    rows = []
    for difference in differences:
        own = {number: required_queries(variance, difference, number, level) for number in seeds}
        least = [
            min((count for fewer, count in own.items() if fewer <= number and count is not None), default=None)
            for number in seeds
        ]
        rows.append((difference, least))
    return rows


def _find_smallest(is_enough: Callable[[int], bool], low: int, high: int) -> int:
    """Return the smallest number that is enough, by bisection: `low` is not, `high` is."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _critical_value(estimate: Estimate, level: float) -> tuple[float, float]:
    """Return the degrees of freedom and the critical value of t of a two-sided test at a level."""
    from scipy import stats

    df = estimate.df_at(level)
    return df, float(stats.t.isf(level / 2, df))


def _power_at(shift: float, df: float, critical: float) -> float:
    """Return the power of a two-sided t-test for a true difference of this many standard errors."""
    from scipy import stats

    tails = stats.nct.sf(critical, df, shift), stats.nct.sf(critical, df, -shift)
    return float(np.nansum(tails))  # the tail of the wrong side is NaN where it is almost 0
