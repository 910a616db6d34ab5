"""Two one-sided tests: statsmodels as the oracle, and the verdict in words."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.weightstats import ttost_paired

from analysis.stats.equivalence import decide_verdict, tost
from analysis.stats.estimate import Estimate
from analysis.stats.paired_tests import estimate_over_queries


@given(seed=st.integers(0, 999), count=st.integers(3, 40), margin=st.floats(0.01, 1), shift=st.floats(-0.5, 0.5))
def test_tost_is_statsmodels(seed: int, count: int, margin: float, shift: float) -> None:
    d = np.random.default_rng(seed).normal(shift, 0.3, count)
    oracle = ttost_paired(d, np.zeros(count), -margin, margin)[0]
    assert tost(estimate_over_queries(d[None]), margin) == pytest.approx(float(oracle), abs=1e-10)


@given(mean=st.floats(-1, 1), error=st.floats(0.001, 1), df=st.floats(1, 100), margin=st.floats(0.001, 2))
def test_alike_at_05_is_a_90_percent_interval_within_the_margin(
    mean: float, error: float, df: float, margin: float
) -> None:
    estimate = Estimate(mean, error, df)
    interval, p = estimate.test(0.9), tost(estimate, margin)
    within = -margin < interval.low and interval.high < margin
    assert within == (p < 0.05) or abs(p - 0.05) < 1e-9


@pytest.mark.parametrize("mean", [0.0, 0.1])
def test_without_spread_two_seeds_show_no_equivalence(mean: float) -> None:
    assert tost(Estimate(mean, 0.0, 1), 0.2) == pytest.approx(float(stats.t.sf(2 * math.sqrt(2), 1)))
    assert tost(Estimate(0.2, 0.0, 1), 0.2) == 0.5


@pytest.mark.parametrize("margin", [0, -1, math.nan])
def test_a_margin_is_above_zero(margin: float) -> None:
    with pytest.raises(ValueError, match="margin must be above 0"):
        tost(Estimate(0.1, 0.1, 3), margin)


@pytest.mark.parametrize(
    ("difference", "p", "alike", "expected"),
    [
        (0.1, 0.01, None, "better"),
        (-0.1, 0.01, None, "worse"),
        (0.001, 0.01, 0.001, "better"),
        (0.1, 0.06, None, "undecided"),
        (0.1, 0.05, None, "undecided"),
        (0.001, 0.6, 0.01, "equivalent"),
        (0.001, 0.6, 0.2, "undecided"),
        (None, None, None, "not compared"),
    ],
)
def test_verdicts(difference: float | None, p: float | None, alike: float | None, expected: str) -> None:
    assert decide_verdict(difference, p, alike, 0.05) == expected


def test_equal_values_are_called_so_with_any_result_of_the_tests() -> None:
    assert decide_verdict(0.0, 1.0, 0.001, 0.05, are_equal=True) == "all values are equal"
