"""Laws of the paired tests: scipy and plain loops as oracles, and what they do when nothing differs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.stats import paired_tests as s
from analysis.stats.estimate import TestResult
from analysis.stats.two_way import classical_estimate, satterthwaite_estimate, two_way_anova


@pytest.fixture
def d() -> np.ndarray:
    rng = np.random.default_rng(5)
    return rng.normal(0.02, 0.3, (5, 40)) + rng.normal(0, 0.1, 40) + rng.normal(0, 0.05, (5, 1))


def run_tests(d: np.ndarray) -> dict[str, TestResult | None]:
    return {name: estimate.test() if estimate else None for name, estimate in s.estimate_all(d).items()}


def test_queries_and_seeds_equal_scipys_paired_test(d: np.ndarray) -> None:
    rng = np.random.default_rng(6)
    baseline = rng.random(d.shape)
    paired = s.differences(baseline + d, baseline)
    for axis, found in ((0, s.estimate_over_queries(paired)), (1, s.estimate_over_seeds(paired))):
        oracle, test = stats.ttest_rel((baseline + d).mean(axis=axis), baseline.mean(axis=axis)), found.test()
        interval = oracle.confidence_interval(0.95)
        assert (test.p, test.low, test.high) == pytest.approx((oracle.pvalue, interval.low, interval.high), abs=1e-10)
        assert test.df == oracle.df


def test_each_seed_alone_equals_scipys_test(d: np.ndarray) -> None:
    for row, found in zip(d, s.estimate_each_seed(d), strict=True):
        assert found.test().p == pytest.approx(stats.ttest_1samp(row, 0).pvalue, abs=1e-10)


@pytest.mark.parametrize("shape", [(1, 10), (3, 10), (2, 2), (3, 1)])
def test_no_difference_at_all_has_p_one(shape: tuple[int, int]) -> None:
    for test in run_tests(np.zeros(shape)).values():
        assert test is None or (test.p, test.low, test.high) == (1.0, 0.0, 0.0)


def test_zero_except_for_rounding_is_zero() -> None:
    noise = s.differences(np.full((3, 8), 0.1 + 0.2), np.full((3, 8), 0.3))
    assert s.estimate_over_queries(noise).test().p == 1.0


AGREEING = {
    "one query": (2, 1), "one seed": (1, 2), "both": (2, 5), "as many": (2, 2), "more seeds than queries": (5, 2),
}  # fmt: skip


@pytest.mark.parametrize("scale", [1.0, 1e6])
@pytest.mark.parametrize("shape", AGREEING.values(), ids=AGREEING)
def test_two_values_that_agree_exactly_decide_nothing_in_any_test(shape: tuple[int, int], scale: float) -> None:
    """Neither by the tests of the verdicts nor by the published one or that of racing."""
    d = np.full(shape, (0.8 - 0.7) * scale)
    tests = {name: test for name, test in run_tests(d).items() if test}
    if min(shape) > 1:
        anova = two_way_anova(d)
        tests |= {"classical": classical_estimate(anova).test(), "racing": satterthwaite_estimate(anova).test()}
    for name, test in tests.items():
        n = {"queries": shape[1], "seeds": shape[0]}.get(name, min(shape))
        assert test.p == pytest.approx(2 * stats.t.sf(2 * math.sqrt(n), n - 1)), name
        assert (test.low < 0 < test.high) == (test.p > 0.05), name
        assert test.low < test.high, name


@pytest.mark.parametrize("value", [1e6, 0.8])
def test_values_that_differ_by_one_unit_in_the_last_place_do_not_differ(value: float) -> None:
    next_up = np.nextafter(value, np.inf)
    assert not s.differences([[next_up], [value], [value]], [[value], [value], [next_up]]).any()
    d = s.differences(np.array([[1.25], [np.nextafter(1.25, 2)]]) * value, np.array([[1.0], [1.0]]) * value)
    assert s.estimate_over_seeds(d).test().p == pytest.approx(2 * stats.t.sf(2 * math.sqrt(2), 1))
    assert s.differences([[1.25 * value]], [[value]]).item() == pytest.approx(0.25 * value)


def test_what_is_not_a_sample_is_not_asked_about(d: np.ndarray) -> None:
    for part, known in ((d, {"queries", "seeds", "both"}), (d[:1], {"queries"}), (d[:, :1], {"seeds"})):
        assert {name for name, test in run_tests(part).items() if test} == known


def test_baseline_without_seeds_is_repeated() -> None:
    system, baseline = np.arange(6.0).reshape(3, 2), np.array([[1.0, 2.0]])
    assert s.differences(system, baseline).tolist() == (system - baseline).tolist()
    for bad in (np.zeros((2, 2)), np.zeros((3, 3))):
        with pytest.raises(ValueError, match="not paired"):
            s.differences(system, bad)


@pytest.mark.parametrize("bad", [np.zeros(3), np.zeros((0, 3)), np.array([[1.0, math.nan]])])
def test_what_cannot_be_tested_is_an_error(bad: np.ndarray) -> None:
    with pytest.raises(ValueError, match="finite differences"):
        run_tests(bad)


@given(seed=st.integers(0, 10_000), shape=st.tuples(st.integers(2, 5), st.integers(2, 12)))
def test_order_and_sign_do_not_matter(seed: int, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    values = np.round(rng.normal(0.1, 0.3, shape), 2)
    shuffled = values[rng.permutation(shape[0])][:, rng.permutation(shape[1])]
    for name, test in run_tests(values).items():
        other, mirrored = run_tests(shuffled)[name], run_tests(-values)[name]
        assert test.p == pytest.approx(other.p, abs=1e-9)
        assert test.p == pytest.approx(mirrored.p, abs=1e-9)
        assert test.low == pytest.approx(-mirrored.high, abs=1e-9)
