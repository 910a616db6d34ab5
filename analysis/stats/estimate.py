"""A mean difference with its standard error and degrees of freedom."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

_CAUTION, _LEVEL, _POWER = 0.3, 0.05, 0.6
"""Mean squares with few degrees of freedom are assumed to be at a low quantile; see `Estimate.df_at`.

The quantile is .3 at the level .05, and lower at lower levels.
"""
_LOG_OF_NOTHING = -746.0
"""Used as the logarithm of a p-value that is too small for a float: its exponential is 0."""


@dataclass(frozen=True)
class TestResult:
    """Two-sided p-value and confidence interval of the mean difference.

    Attributes:
        p: two-sided p-value.
        low: lower bound of the confidence interval.
        high: upper bound of the confidence interval.
        df: degrees of freedom at the confidence of the interval.
    """

    __test__ = False

    p: float
    low: float
    high: float
    df: float


class Estimate(NamedTuple):
    """A mean difference and its standard error.

    Attributes:
        mean: the difference.
        error: its standard error.
        df: degrees of freedom of the variance, or of the part of it that is known least well.
        share: share of that part in the variance.
        df_more: degrees of freedom of the rest.

    Example:
        >>> estimate = Estimate(mean=0.02, error=0.01, df=100)
        >>> round(estimate.test().p, 3)
        0.048
    """

    mean: float
    error: float
    df: float
    share: float = 1.0
    df_more: float = math.inf

    def df_at(self, level: float) -> float:
        """Return the degrees of freedom of a test at a level: Satterthwaite (1946), corrected for few seeds.

        Satterthwaite's 1 / df is the sum of (share of the variance)^2 / df over the parts. With few seeds, their share
        of the variance is known badly. If the seeds happen to agree, their share is estimated too small and df too
        large: with three seeds, a test at .05 rejects up to .078 of true hypotheses, and a test at .001 up to .016.

        So the share is computed as if the mean square of the seeds were at its lower .3 (level / .05)^.6 quantile, and
        the true value accordingly larger. With 50 to 5,000 queries and any variances, the level at .05 is then .031 to
        .066 with two seeds, .039 to .054 with three, and .045 to .053 with five and with ten. With three seeds or more,
        at nominal levels down to .0002 the true level is at most 1.1 times the nominal one. Where seeds matter less
        than queries, the test is conservative.

        Hillis (2007) has only the first part of the sum and no such correction, see `two_way.classical_estimate`.
        """
        if self.share in (0.0, 1.0):
            return self.df if self.share else self.df_more
        cautious = self.share / (self.share + (1 - self.share) * _chi2_ratio(self.df, min(level, _LEVEL)))
        return min(1 / (share**2 / self.df + (1 - share) ** 2 / self.df_more) for share in (self.share, cautious))

    def test(self, confidence: float = 0.95) -> TestResult:
        """Return the two-sided test; of a zero difference without spread, p is 1 and the interval has no width.

        Args:
            confidence: confidence of the interval, between 0 and 1.
        """
        p = min(1.0, 2 * self.one_sided_p(abs(self.mean)))
        return TestResult(p, *self.confidence_interval(confidence), self.df_at(1 - confidence))

    def confidence_interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return the interval of `test` without p, which takes longer."""
        from scipy import stats

        error = self._get_error(self.mean)
        half = float(stats.t.ppf((1 + confidence) / 2, self.df_at(1 - confidence))) * error
        return self.mean - half, self.mean + half

    def one_sided_p(self, distance: float) -> float:
        """Return the one-sided p-value of a mean that is at this distance on the other side of a bound.

        It is the level of the test that just rejects, with the degrees of freedom of that level.
        """
        from scipy import optimize, stats

        error = self._get_error(distance)
        if error == 0:
            return 0.5

        def p_at_df(df: float) -> float:
            return float(stats.t.sf(distance / error, df))

        def log_excess(log_p: float) -> float:
            return _log(p_at_df(self.df_at(2 * math.exp(log_p)))) - log_p

        least, most = p_at_df(self.df_at(_LEVEL)), p_at_df(self.df)
        low, high = _log(least), _log(most)
        if 2 * least >= _LEVEL or least >= most or log_excess(low) <= 0:
            return least
        if log_excess(high) >= 0:  # the correction is complete at such a low level, or the two differ by rounding only
            return most
        return math.exp(optimize.brentq(log_excess, low, high, xtol=1e-12))

    def _get_error(self, distance: float) -> float:
        """Return the standard error; without spread that of a mean at this distance, see `guess_deviation`."""
        return self.error or guess_deviation(distance) / math.sqrt(self.df + 1)


def guess_deviation(distance: float) -> float:
    """Return the standard deviation that is assumed where all differences agree exactly, so that none is estimated.

    Scores that are rounded, or shares of a number of queries, agree by chance, which is no reason to be certain. Two
    scores do not show the grid that they are on, but its step cannot be larger than their difference. So half of the
    difference is taken. Then n equal differences have t = 2 sqrt(n): p = .216 with two, .074 with three, .011 with
    five.

    Args:
        distance: distance of the differences from the value that they are tested against.
    """
    return abs(distance) / 2


def _log(p: float) -> float:
    return math.log(p) if p > 0 else _LOG_OF_NOTHING


@lru_cache(maxsize=256)
def _chi2_ratio(df: float, level: float) -> float:
    """Return a mean square divided by its expectation, at the quantile of `_CAUTION` for this level."""
    from scipy import stats

    return float(stats.chi2.ppf(_CAUTION * (level / _LEVEL) ** _POWER, df)) / df
