"""Tests that suppose no distribution: all signs by plain loops, and what few differences can never show."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.stats.permutation_tests import TESTS, sign_flip, smallest_p


@given(values=st.lists(st.integers(-9, 9), min_size=2, max_size=9), parts=st.sampled_from([1, 3, 7, 11_111]))
def test_sign_flip_counts_all_signs(values: list[int], parts: int) -> None:
    """Also those that tie except for rounding: the means of seeds are sums over a number of queries."""
    observed = abs(sum(values))
    signs = itertools.product((-1, 1), repeat=len(values))
    as_large = [abs(sum(v * s for v, s in zip(values, sign, strict=True))) >= observed for sign in signs]
    assert sign_flip(np.round(np.array(values) / parts, 12)) == pytest.approx(np.mean(as_large))


def test_many_signs_are_drawn_and_named() -> None:
    values = np.random.default_rng(1).normal(0.2, 1, 100)
    assert sign_flip(values) == sign_flip(values)
    assert sign_flip(values) != sign_flip(values, seed=1)
    assert sign_flip(values) == pytest.approx(stats.ttest_1samp(values, 0).pvalue, abs=0.02)


@pytest.mark.parametrize("name", TESTS)
@pytest.mark.parametrize("count", [2, 5, 8])
def test_no_p_value_is_below_what_so_many_differences_can_have(name: str, count: int) -> None:
    assert TESTS[name](np.arange(1.0, count + 1), 0) == smallest_p(name, count)


def test_drawn_signs_limit_the_p_value_too() -> None:
    assert smallest_p("sign-flip", 20) == 2 / 10_001
    assert TESTS["sign-flip"](np.arange(1.0, 101), 0) == pytest.approx(smallest_p("sign-flip", 100))
    assert smallest_p("wilcoxon", 20) == 2.0**-19


@pytest.mark.parametrize("name", TESTS)
def test_the_level_is_kept(name: str) -> None:
    rng = np.random.default_rng(2)
    p = np.array([TESTS[name](rng.laplace(0, 1, 9), 0) for _ in range(800)])
    assert 0.02 <= (p <= 0.05).mean() <= 0.07
