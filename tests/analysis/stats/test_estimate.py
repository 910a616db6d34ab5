"""A mean difference, its p-value and its interval: they say the same, with degrees of freedom from any source."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from analysis.stats.estimate import Estimate

estimates = st.builds(
    Estimate,
    mean=st.floats(-1, 1),
    error=st.floats(1e-2, 1),
    df=st.integers(1, 30),
    share=st.floats(0, 1),
    df_more=st.integers(30, 5000),
)


@given(found=estimates, confidence=st.floats(0.951, 0.9999))
def test_an_interval_holds_zero_where_p_is_not_below_its_level(found: Estimate, confidence: float) -> None:
    test = found.test(confidence)
    inside = test.low <= 0 <= test.high
    assert inside == (test.p >= 1 - confidence) or test.p == pytest.approx(1 - confidence, rel=1e-6)


levels = st.one_of(st.floats(1e-4, 0.6), st.sampled_from([0.05 / 7, 0.01, 0.05, 0.1]))


def degrees_of_freedom(found: Estimate, level: float) -> float:
    """The definition: Satterthwaite's, with the worst-known share as it is and as if its mean square came out low."""
    if found.share == 1:
        return found.df
    if found.share == 0:
        return found.df_more
    quantile = 0.3 * (min(level, 0.05) / 0.05) ** 0.6
    low = stats.chi2.ppf(quantile, found.df) / found.df
    variances = [(found.share, 1 - found.share), (found.share / low, 1 - found.share)]
    parts = [((a / (a + b)) ** 2 / found.df, (b / (a + b)) ** 2 / found.df_more) for a, b in variances]
    return float(min(1 / (few + more) for few, more in parts))


@given(found=st.one_of(estimates, estimates.map(lambda one: one._replace(share=round(one.share)))), level=levels)
def test_an_interval_has_the_degrees_of_freedom_of_its_own_level(found: Estimate, level: float) -> None:
    test, df = found.test(1 - level), degrees_of_freedom(found, level)
    assert test.df == pytest.approx(df)
    assert (test.low, test.high) == pytest.approx(stats.t.interval(1 - level, df, found.mean, found.error))
    assert found.confidence_interval(1 - level) == (test.low, test.high)


@given(found=estimates, level=levels)
def test_a_difference_that_its_interval_just_excludes_has_the_level_as_its_p(found: Estimate, level: float) -> None:
    low, high = found.confidence_interval(1 - level)
    for mean in (high - found.mean, low - found.mean):
        assert found._replace(mean=mean).test().p == pytest.approx(level, rel=1e-6)


@given(found=estimates, further=st.floats(0.001, 0.5))
def test_a_larger_difference_has_a_smaller_p(found: Estimate, further: float) -> None:
    larger = found._replace(mean=found.mean + math.copysign(further, found.mean))
    assert larger.test().p < found.test().p or found.test().p == pytest.approx(0, abs=1e-12)


@given(
    found=st.builds(
        Estimate,
        mean=st.just(1.0),
        error=st.floats(1e-6, 0.1),
        df=st.integers(1, 100),
        share=st.floats(1e-12, 1, exclude_max=True),
        df_more=st.integers(2, 50_000),
    )
)
@example(Estimate(0.5, 0.005, 9, 0.05, 49_999))  # where Satterthwaite's p is too small for a number
@example(Estimate(1.0, 9.4e-05, 99, 0.9999999999999993, 2))  # where rounding alone tells the two bounds apart
def test_the_surest_difference_has_a_p_between_that_of_all_degrees_of_freedom_and_that_of_the_fewest(
    found: Estimate,
) -> None:
    bounds = [2 * float(stats.t.sf(found.mean / found.error, df)) for df in (found.df_at(0.05), found.df)]
    assert min(bounds) * (1 - 1e-9) <= found.test().p <= max(bounds) * (1 + 1e-9)


@given(df=st.integers(1, 50), mean=st.floats(1e-9, 1), level=levels)
def test_without_spread_half_of_the_difference_counts_as_standard_deviation(df: int, mean: float, level: float) -> None:
    test, n = Estimate(mean, 0.0, df).test(1 - level), df + 1
    expected = stats.t.interval(1 - level, df, mean, abs(mean) / 2 / math.sqrt(n))
    assert (test.p, test.low, test.high) == pytest.approx((2 * stats.t.sf(2 * math.sqrt(n), df), *expected))
    nothing = Estimate(0.0, 0.0, df).test(1 - level)
    assert (nothing.p, nothing.low, nothing.high) == (1.0, 0.0, 0.0)
