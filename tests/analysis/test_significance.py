"""Laws of the tests: scipy, statsmodels and plain loops as oracles, and what they do when nothing differs."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

from analysis import significance as s


@pytest.fixture
def d() -> np.ndarray:
    rng = np.random.default_rng(5)
    return rng.normal(0.02, 0.3, (5, 40)) + rng.normal(0, 0.1, 40) + rng.normal(0, 0.05, (5, 1))


def test_queries_and_seeds_equal_scipys_paired_test(d: np.ndarray) -> None:
    rng = np.random.default_rng(6)
    baseline = rng.random(d.shape)
    paired = s.differences(baseline + d, baseline)
    for axis, test in ((0, s.queries_test(paired)), (1, s.seeds_test(paired))):
        oracle = stats.ttest_rel((baseline + d).mean(axis=axis), baseline.mean(axis=axis))
        interval = oracle.confidence_interval(0.95)
        assert (test.p, test.low, test.high) == pytest.approx((oracle.pvalue, interval.low, interval.high), rel=1e-7)
        assert test.df == oracle.df


def test_both_equals_a_two_way_anova_by_plain_loops(d: np.ndarray) -> None:
    seeds, queries = d.shape
    grand = sum(d[i, j] for i in range(seeds) for j in range(queries)) / (seeds * queries)
    row = [sum(d[i, j] for j in range(queries)) / queries for i in range(seeds)]
    column = [sum(d[i, j] for i in range(seeds)) / seeds for j in range(queries)]
    ms_seed = queries * sum((r - grand) ** 2 for r in row) / (seeds - 1)
    ms_query = seeds * sum((c - grand) ** 2 for c in column) / (queries - 1)
    freedom = (seeds - 1) * (queries - 1)
    squares = sum((d[i, j] - row[i] - column[j] + grand) ** 2 for i in range(seeds) for j in range(queries))
    ms_residual = squares / freedom
    top = ms_seed + ms_query - ms_residual
    assert top > ms_residual
    df = top**2 / (ms_seed**2 / (seeds - 1) + ms_query**2 / (queries - 1) + ms_residual**2 / freedom)
    error = math.sqrt(top / (seeds * queries))
    test = s.both_test(d)
    assert test.df == pytest.approx(df)
    assert test.p == pytest.approx(2 * stats.t.sf(abs(grand) / error, df))
    assert test.high == pytest.approx(grand + stats.t.ppf(0.975, df) * error)


def test_variance_of_both_never_falls_below_the_residual() -> None:
    residual = np.array([[1.0, -1, 0], [-1, 0, 1], [0, 1, -1]]) + 0.5  # rows and columns sum alike: only residual
    test = s.both_test(residual)
    error = math.sqrt((6 / 4) / 9)
    assert test.high - test.low == pytest.approx(2 * stats.t.ppf(0.975, test.df) * error)


@pytest.mark.parametrize("shape", [(1, 10), (3, 10), (2, 2)])
def test_no_difference_at_all_has_p_one(shape: tuple[int, int]) -> None:
    for test in s.targets(np.zeros(shape)).values():
        assert test is None or (test.p, test.low, test.high) == (1.0, 0.0, 0.0)
    assert s.effect_size(np.zeros(shape)) == 0.0
    assert s.detectable(np.zeros(shape), 0.05) is None


def test_zero_but_for_rounding_is_zero() -> None:
    noise = s.differences(np.full((3, 8), 0.1 + 0.2), np.full((3, 8), 0.3))
    assert s.queries_test(noise).p == 1.0


def test_constant_difference_is_certain() -> None:
    test = s.queries_test(np.full((2, 5), 0.1))
    assert (test.p, test.low, test.high) == pytest.approx((0.0, 0.1, 0.1))
    assert s.effect_size(np.full((2, 5), 0.1)) is None


def test_one_seed_answers_for_queries_only(d: np.ndarray) -> None:
    found = s.targets(d[:1])
    assert found["queries"] is not None
    assert found["seeds"] is None
    assert found["both"] is None


def test_baseline_without_seeds_is_repeated() -> None:
    system, baseline = np.arange(6.0).reshape(3, 2), np.array([[1.0, 2.0]])
    assert s.differences(system, baseline).tolist() == (system - baseline).tolist()
    for bad in (np.zeros((2, 2)), np.zeros((3, 3))):
        with pytest.raises(ValueError, match="not paired"):
            s.differences(system, bad)


@pytest.mark.parametrize("name", list(s.CORRECTIONS))
def test_corrections_equal_statsmodels(name: str) -> None:
    p = [0.001, 0.04, 0.03, 0.9, 0.012]
    assert s.adjust(p, name) == pytest.approx(multipletests(p, method=s.CORRECTIONS[name])[1])
    with_gap = s.adjust([0.01, None, 0.02], name)
    oracle = multipletests([0.01, 1.0, 0.02], method=s.CORRECTIONS[name])[1]
    assert with_gap[1] is None
    assert (with_gap[0], with_gap[2]) == pytest.approx((oracle[0], oracle[2]))


def test_unknown_correction_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown correction 'none'"):
        s.adjust([0.1], "none")


@pytest.mark.parametrize(("queries", "alpha"), [(40, 0.05), (200, 0.01), (12, 0.05 / 7)])
def test_detectable_difference_equals_statsmodels(queries: int, alpha: float) -> None:
    d = np.random.default_rng(2).normal(0, 0.2, (3, queries))
    oracle = TTestPower().solve_power(nobs=queries, alpha=alpha, power=0.8, alternative="two-sided")
    assert s.detectable(d, alpha) == pytest.approx(float(np.squeeze(oracle)) * d.mean(axis=0).std(ddof=1), rel=1e-4)


@given(seed=st.integers(0, 10_000), shape=st.tuples(st.integers(2, 5), st.integers(2, 12)))
@settings(max_examples=40, deadline=None)
def test_order_and_sign_do_not_matter(seed: int, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    values = np.round(rng.normal(0.1, 0.3, shape), 2)
    shuffled = values[rng.permutation(shape[0])][:, rng.permutation(shape[1])]
    for name, test in s.targets(values).items():
        other, mirrored = s.targets(shuffled)[name], s.targets(-values)[name]
        assert test is not None
        assert other is not None
        assert mirrored is not None
        assert test.p == pytest.approx(other.p, abs=1e-9)
        assert test.p == pytest.approx(mirrored.p, abs=1e-9)
        assert test.low == pytest.approx(-mirrored.high, abs=1e-9)


def test_queries_over_reject_for_the_method_and_both_hold() -> None:
    """Five seeds, 500 queries, no true difference: residual .12 a run, seed deviation .006, so sqrt(2) of it paired."""
    rng, rejected = np.random.default_rng(1), {"queries": 0, "seeds": 0, "both": 0}
    trials = 600
    for _ in range(trials):
        d = rng.normal(0, 0.12 * math.sqrt(2), (5, 500)) + rng.normal(0, 0.006 * math.sqrt(2), (5, 1))
        for name, test in s.targets(d).items():
            assert test is not None
            rejected[name] += test.p < 0.05
    assert rejected["queries"] / trials == pytest.approx(0.20, abs=0.05)
    assert rejected["both"] / trials <= 0.08
    assert rejected["seeds"] / trials == pytest.approx(0.05, abs=0.03)
