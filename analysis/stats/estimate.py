"""A mean difference as a t-test has it: how large, how sure."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

_CAUTION, _LEVEL, _POWER = 0.3, 0.05, 0.6
"""At the level .05 a mean square of few degrees of freedom is supposed to have come out at its .3 quantile, and at
lower levels at lower ones; see `Estimate.df_at`."""
_LOG_OF_NOTHING = -746.0
"""Stands for the logarithm of a p-value too small for a number: its exponential is 0."""


@dataclass(frozen=True)
class TestResult:
    """Two-sided p-value, confidence interval of the mean difference, degrees of freedom at that confidence."""

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
        df: degrees of freedom of the variance, or of the part of it that is known worst.
        share: of the variance, that part.
        df_more: degrees of freedom of the rest.
    """

    mean: float
    error: float
    df: float
    share: float = 1.0
    df_more: float = math.inf

    def df_at(self, level: float) -> float:
        """Degrees of freedom of a test at a level, after Satterthwaite (1946), with a caution.

        Satterthwaite's 1 / df is the sum of (share of the variance)^2 / df over the parts. With three seeds the seeds'
        share is known so badly that a test at .05 rejects up to .078 of true hypotheses, and one at .001 up to .016:
        where the seeds happen to agree, their share comes out too small and df too large. So the share is computed as
        if their mean square had come out at its lower .3 (level / .05)^.6 quantile, and the truth were accordingly
        larger. Whatever the variances are, with 200 queries or more, the level at .05 is then .033 to .068 with two
        seeds, .038 to .055 with three, .045 to .052 with five and with ten; levels down to .0002 are not exceeded by
        more than a tenth with three seeds or more, and where seeds matter less than queries they are not reached.
        """
        if self.share in (0.0, 1.0):
            return self.df if self.share else self.df_more
        cautious = self.share / (self.share + (1 - self.share) * _chi2_ratio(self.df, min(level, _LEVEL)))
        return min(1 / (share**2 / self.df + (1 - share) ** 2 / self.df_more) for share in (self.share, cautious))

    def test(self, confidence: float = 0.95) -> TestResult:
        """Two-sided; without spread a zero difference has p 1 and any other has p 0."""
        df = self.df_at(1 - confidence)
        if self.error == 0:
            return TestResult(1.0 if self.mean == 0 else 0.0, self.mean, self.mean, df)
        return TestResult(min(1.0, 2 * self.one_sided_p(abs(self.mean))), *self.confidence_interval(confidence), df)

    def confidence_interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """That of the test, without its p, which takes longer; without spread it has no width."""
        from scipy import stats

        if self.error == 0:
            return self.mean, self.mean
        half = float(stats.t.ppf((1 + confidence) / 2, self.df_at(1 - confidence))) * self.error
        return self.mean - half, self.mean + half

    def one_sided_p(self, distance: float) -> float:
        """p-value, one-sided, of a mean that is so far on the other side of a bound.

        It is the level of the test that just rejects, for which the degrees of freedom are those of that level.
        """
        from scipy import optimize, stats

        if self.error == 0:
            return 0.0 if distance > 0 else 1.0

        def p_at_df(df: float) -> float:
            return float(stats.t.sf(distance / self.error, df))

        def log_excess(log_p: float) -> float:
            return _log(p_at_df(self.df_at(2 * math.exp(log_p)))) - log_p

        least, most = p_at_df(self.df_at(_LEVEL)), p_at_df(self.df)
        low, high = _log(least), _log(most)
        if 2 * least >= _LEVEL or least >= most or log_excess(low) <= 0:
            return least
        if log_excess(high) >= 0:  # at so low a level the caution is whole, or rounding alone parts the two
            return most
        return math.exp(optimize.brentq(log_excess, low, high, xtol=1e-12))


def _log(p: float) -> float:
    return math.log(p) if p > 0 else _LOG_OF_NOTHING


@lru_cache(maxsize=256)
def _chi2_ratio(df: float, level: float) -> float:
    """A mean square over its expectation, when it came out at the quantile of caution."""
    from scipy import stats

    return float(stats.chi2.ppf(_CAUTION * (level / _LEVEL) ** _POWER, df)) / df
