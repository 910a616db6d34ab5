"""Seeds and queries both as samples: a plain analysis of variance as the oracle, and the levels by simulation."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from analysis.stats.power import DifferenceVariance
from analysis.stats.two_way import (
    TwoWayAnova,
    classical_estimate,
    satterthwaite_estimate,
    two_way_anova,
    two_way_estimate,
)
from benchmarks.statistics.simulation import Squares, draw_squares, estimate_here, estimate_satterthwaite, rejections

NONE, SMALL, LARGE = 0, 1, 2
SEED, QUERY, REST = (0, 0.006, 0.02), (0, 0.05, 0.2), (0, 0.05, 0.17)
"""Standard deviations of a paired difference; small ones are those of a study of half a percent."""
GRID = [
    (seeds, queries, *sizes)
    for seeds, queries in itertools.product((3, 5, 10), (200, 2000))
    for sizes in itertools.product((NONE, SMALL, LARGE), repeat=3)
    if any(sizes)
]
REPETITIONS = 2000


def simulated(cell: tuple[int, int, int, int, int], repetitions: int, seed: int = 1) -> Squares:
    """Return mean squares of differences with mean 0."""
    seeds, queries, a, b, e = cell
    variance = DifferenceVariance(SEED[a] ** 2, QUERY[b] ** 2, REST[e] ** 2)
    return draw_squares(seeds, queries, variance, repetitions, np.random.default_rng([seed, *cell]))


def test_the_level_is_kept_with_any_variances() -> None:
    """The share of p-values below .05 of equal systems, and so the coverage of the 95 % interval.

    tests/benchmarks/test_statistics.py compares these tests of arrays with those of the product.
    """
    found = {cell: rejections(estimate_here, simulated(cell, REPETITIONS), 0.05).mean() for cell in GRID}
    assert not {cell: level for cell, level in found.items() if not 0.03 <= level <= 0.07}


@pytest.mark.parametrize("nominal", [0.05 / 7, 0.05 / 45])
@pytest.mark.parametrize("seeds", [3, 5])
def test_nor_are_the_low_levels_of_large_families_exceeded(seeds: int, nominal: float) -> None:
    """Many repetitions of the worst cells of the grid, where the seeds' part is several times the queries'."""
    for cell in (
        (seeds, 200, SMALL, SMALL, NONE),
        (seeds, 2000, SMALL, SMALL, LARGE),
        (seeds, 2000, LARGE, LARGE, LARGE),
    ):
        found = rejections(estimate_here, simulated(cell, 40_000), nominal).mean()
        assert found <= 1.1 * nominal + 3 * math.sqrt(nominal / 40_000), (cell, found)


def test_satterthwaites_own_degrees_of_freedom_do_not_keep_it() -> None:
    cells = [cell for cell in GRID if cell[0] == 3]
    levels = [rejections(estimate_satterthwaite, simulated(cell, REPETITIONS), 0.05).mean() for cell in cells]
    assert min(levels) < 0.025
    assert max(levels) > 0.07


def test_simulated_mean_squares_are_those_of_simulated_differences() -> None:
    cell, rng, n = (3, 200, SMALL, SMALL, LARGE), np.random.default_rng(3), REPETITIONS
    sizes = ((SEED[SMALL], (n, 3, 1)), (QUERY[SMALL], (n, 1, 200)), (REST[LARGE], (n, 3, 200)))
    made = Squares.from_differences(np.asarray(sum(rng.normal(0, *size) for size in sizes)))
    drawn = simulated(cell, n)
    for one, other in zip(made[2:], drawn[2:], strict=True):
        assert stats.ks_2samp(one, other).pvalue > 0.001
    assert 0.03 <= rejections(estimate_here, made, 0.05).mean() <= 0.07


def test_the_test_over_queries_is_too_sure_of_the_method() -> None:
    """Five seeds, 500 queries, no true difference: residual .12 a run, seed deviation .006, so sqrt(2) of it paired."""
    rng = np.random.default_rng(1)
    averaged = rng.normal(0, 0.12 * math.sqrt(2 / 5), (2000, 500)) + rng.normal(0, 0.006 * math.sqrt(2 / 5), (2000, 1))
    assert (stats.ttest_1samp(averaged, 0, axis=1).pvalue < 0.05).mean() == pytest.approx(0.20, abs=0.03)


def test_both_by_plain_loops() -> None:
    rng = np.random.default_rng(5)
    d = rng.normal(0.02, 0.3, (5, 40)) + rng.normal(0, 0.3, 40) + rng.normal(0, 0.05, (5, 1))
    grand = sum(d[i, j] for i in range(5) for j in range(40)) / 200
    row = [sum(d[i, j] for j in range(40)) / 40 for i in range(5)]
    column = [sum(d[i, j] for i in range(5)) / 5 for j in range(40)]
    ms_seed = 40 * sum((r - grand) ** 2 for r in row) / 4
    ms_query = 5 * sum((c - grand) ** 2 for c in column) / 39
    rest = sum((d[i, j] - row[i] - column[j] + grand) ** 2 for i in range(5) for j in range(40)) / (4 * 39)
    assert ms_query > rest
    total = ms_seed + ms_query - rest
    assert two_way_estimate(two_way_anova(d)) == pytest.approx((grand, math.sqrt(total / 200), 4, ms_seed / total, 39))


def van_dyke() -> TwoWayAnova:
    """The published example of Van Dyke et al. (1993): five readers, 114 cases, two methods (Hillis 2007).

    For two methods, F = MS(T) / (MS(T:R) + 5 (Cov2 - Cov3)), and a difference d of the means has MS(T) = 5 d^2 / 2. A
    mean square of differences per case is 2 x 114 times one of the areas.
    """
    ms_readers, covariance, cases = 0.0005510306, 0.0003440748 - 0.0002390284, 114
    ms_methods = 4.456319 * (ms_readers + 5 * covariance)
    rest = 0.25  # cancels out
    query = rest + 2 * cases * 5 * covariance
    return TwoWayAnova(5, cases, math.sqrt(2 * ms_methods / 5), 2 * cases * ms_readers, query, rest)


def test_the_classical_test_gives_the_published_example() -> None:
    found = classical_estimate(van_dyke())
    assert found.df == pytest.approx(15.25967, abs=1e-5)
    assert found.test().p == pytest.approx(0.05166569, abs=1e-7)
    assert found.test().p == pytest.approx(stats.f.sf(4.456319, 1, 15.25967), abs=1e-7)


def test_the_caution_for_few_seeds_makes_the_published_example_less_sure() -> None:
    own, classical = two_way_estimate(van_dyke()), classical_estimate(van_dyke())
    assert own[:2] == pytest.approx(classical[:2])
    assert own.test().p == pytest.approx(0.0633, abs=5e-5)


def test_the_classical_test_has_no_floor_and_does_not_name_its_factors() -> None:
    """Seeds that agree exactly leave the normal distribution; with more seeds than queries the two exchange roles."""
    found = classical_estimate(TwoWayAnova(3, 50, 0.1, 0.0, 1.5, 0.5))
    assert (found.error, found.df) == (pytest.approx(math.sqrt(1 / 150)), math.inf)
    assert found.test().p == pytest.approx(2 * stats.norm.sf(0.1 / found.error))
    d = np.random.default_rng(2).normal(0.1, 1, (3, 8))
    assert classical_estimate(two_way_anova(d)) == pytest.approx(classical_estimate(two_way_anova(d.T)))


def test_where_queries_do_not_differ_it_is_the_test_over_seeds() -> None:
    found = TwoWayAnova(seeds=4, queries=50, mean=0.3, ms_seed=2.0, ms_query=0.5, ms_residual=1.0)
    assert two_way_estimate(found)[:4] == pytest.approx((0.3, math.sqrt(2.0 / 200), 3, 1.0))
    assert two_way_estimate(found).df_at(0.01) == 3


def test_where_seeds_do_not_differ_it_is_the_test_over_queries() -> None:
    found = TwoWayAnova(seeds=4, queries=50, mean=0.3, ms_seed=0.0, ms_query=2.0, ms_residual=0.0)
    assert two_way_estimate(found)[:2] == pytest.approx((0.3, math.sqrt(2.0 / 200)))
    assert two_way_estimate(found).df_at(0.01) == 49


def test_seeds_that_agree_by_chance_are_not_certain() -> None:
    """Two seeds of a metric that is 0 or 1 have the same mean in one study of forty."""
    d = np.array([[1.1, 0.9], [0.9, 1.1]])
    assert two_way_anova(d).ms_seed == pytest.approx(0)
    test = two_way_estimate(two_way_anova(d)).test()
    assert test.p > 0.001
    assert test.low < 1 < test.high


def test_seeds_and_queries_change_places() -> None:
    d = np.random.default_rng(7).normal(0, 1, (3, 12)) + np.random.default_rng(8).normal(0, 1, 12)
    assert two_way_estimate(two_way_anova(d)) == pytest.approx(two_way_estimate(two_way_anova(d.T)))


def test_parts_of_the_variance_are_unbiased() -> None:
    cell = (5, 200, LARGE, SMALL, LARGE)
    drawn = simulated(cell, 9000)
    parts = [(drawn.ms_seed - drawn.ms_residual).mean() / 200, (drawn.ms_query - drawn.ms_residual).mean() / 5]
    assert parts == pytest.approx([SEED[LARGE] ** 2, QUERY[SMALL] ** 2], rel=0.05)


def by_statsmodels(d: np.ndarray) -> tuple[float, float, float]:
    """The mean, its error and Satterthwaite's degrees of freedom, from the table of an analysis of variance."""
    seeds, queries = d.shape
    frame = pd.DataFrame([(s, q, d[s, q]) for s in range(seeds) for q in range(queries)], columns=["s", "q", "d"])
    table = anova_lm(ols("d ~ C(s) + C(q)", frame).fit())
    total = table["mean_sq"]["C(s)"] + table["mean_sq"]["C(q)"] - table["mean_sq"]["Residual"]
    total = max(total, table["mean_sq"]["Residual"])
    df = total**2 / (table["mean_sq"] ** 2 / table["df"]).sum()
    return frame["d"].mean(), math.sqrt(total / d.size), df


@given(
    shape=st.tuples(st.integers(2, 5), st.integers(2, 9)),
    spread=st.tuples(*[st.sampled_from([0.0, 0.3, 1.0, 3.0])] * 2),
    seed=st.integers(0, 9999),
)
def test_what_racing_decides_with_is_satterthwaites_approximation(
    shape: tuple[int, int], spread: tuple[float, float], seed: int
) -> None:
    """Seeds, queries or the rest may vary most, or not at all; which of the two is called which does not matter."""
    rng = np.random.default_rng(seed)
    d = rng.normal(0.1, 1, shape) + spread[0] * rng.normal(0, 1, (shape[0], 1)) + spread[1] * rng.normal(0, 1, shape[1])
    mean, error, df = by_statsmodels(d)
    assert satterthwaite_estimate(two_way_anova(d)) == pytest.approx((mean, error, df, 1.0, math.inf))
    assert satterthwaite_estimate(two_way_anova(d.T)) == pytest.approx((mean, error, df, 1.0, math.inf))
    assert satterthwaite_estimate(two_way_anova(5 * d)) == pytest.approx((5 * mean, 5 * error, df, 1.0, math.inf))


@pytest.mark.parametrize(("shape", "df"), [((3, 8), 2.0), ((8, 3), 2.0), ((2, 9), 1.0), ((5, 5), 4.0)])
def test_where_nothing_varies_the_fewest_degrees_of_freedom_are_left(shape: tuple[int, int], df: float) -> None:
    for found in (two_way_estimate, satterthwaite_estimate):
        assert found(two_way_anova(np.full(shape, 0.5)))[:3] == pytest.approx((0.5, 0.25 / (df + 1) ** 0.5, df))
        assert found(two_way_anova(np.zeros(shape)))[:3] == (0.0, 0.0, df)


def test_a_floored_variance_never_falls_below_the_residual() -> None:
    residual = np.array([[1.0, -1, 0], [-1, 0, 1], [0, 1, -1]]) + 0.5  # rows and columns sum alike: only residual
    assert satterthwaite_estimate(two_way_anova(residual)).error == pytest.approx(math.sqrt((6 / 4) / 9))
