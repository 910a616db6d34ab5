"""The simulations of the statistics: their tests are those of the product, and their draws are what they say."""

import itertools
from functools import partial

import numpy as np
import pytest
from scipy import stats

from analysis.stats import paired_tests
from analysis.stats.pooled import pool_seeds
from analysis.stats.power import DifferenceVariance, minimum_detectable_effect
from analysis.stats.two_way import (
    TwoWayAnova,
    classical_estimate,
    satterthwaite_estimate,
    two_way_anova,
    two_way_estimate,
)
from analysis.suites.comparisons import average_estimates
from benchmarks.statistics import averages, families, levels, power, scenarios, search_luck
from benchmarks.statistics.simulation import (
    SEED_SD,
    Family,
    Squares,
    critical_differences,
    draw_comparisons_of_runs,
    draw_squares,
    estimate_classical,
    estimate_here,
    estimate_over_queries,
    estimate_satterthwaite,
    make_pooled_estimate,
    rejections,
)

VARIANCES = [DifferenceVariance(*parts) for parts in itertools.product((0, 0.02), (0, 0.5), (0, 1.0)) if any(parts)]
OURS = {
    estimate_here: two_way_estimate,
    estimate_classical: classical_estimate,
    estimate_satterthwaite: satterthwaite_estimate,
}
SCORES = np.random.default_rng(5).normal(size=(2, 3, 4, 9))
"""Differences (studies, comparisons, seeds, queries)."""
SCENARIOS = [one for name, one in vars(scenarios).items() if name.startswith("draw_") and name != "draw_comparisons"]


def drawn(variance: DifferenceVariance, studies: int, seeds: int = 3, queries: int = 60) -> Squares:
    return draw_squares(seeds, queries, variance, studies, np.random.default_rng([4, seeds, queries]))


def anovas(squares: Squares) -> list[TwoWayAnova]:
    rows = zip(*(np.ravel(values).tolist() for values in squares[2:]), strict=True)
    return [TwoWayAnova(squares.seeds, squares.queries, *row) for row in rows]


@pytest.mark.parametrize("variance", VARIANCES, ids=str)
@pytest.mark.parametrize("estimator", OURS)
def test_tests_of_arrays_are_those_of_the_product(estimator, variance: DifferenceVariance) -> None:
    squares = drawn(variance, 60)
    estimates = [OURS[estimator](anova) for anova in anovas(squares)]
    p = np.array([estimate.test().p for estimate in estimates])
    for level in (0.5, 0.05, 0.01):
        error, df = estimator(squares, level)
        assert error == pytest.approx([one.error for one in estimates])
        assert df == pytest.approx([one.df_at(level) for one in estimates])
        assert (rejections(estimator, squares, level) == (p < level)).all()


def test_a_critical_difference_is_where_rejection_begins() -> None:
    squares = drawn(VARIANCES[-1], 50)
    for estimator, level in itertools.product(
        (estimate_here, estimate_classical, estimate_satterthwaite), (0.05, 0.01)
    ):
        critical = critical_differences(estimator, squares, level)
        for factor, expected in ((0.999, False), (1.001, True)):
            assert (rejections(estimator, squares._replace(mean=factor * critical), level) == expected).all()


def test_mean_squares_are_those_of_the_analysis_of_variance() -> None:
    squares = Squares.from_differences(SCORES)
    assert np.transpose(squares[2:], (1, 2, 0)) == pytest.approx(
        np.array([[two_way_anova(one)[2:] for one in family] for family in SCORES])
    )


def test_the_test_over_queries_is_that_of_the_product() -> None:
    error, df = estimate_over_queries(Squares.from_differences(SCORES), 0.05)
    expected = [[paired_tests.estimate_over_queries(d) for d in family] for family in SCORES]
    assert error == pytest.approx(np.array([[one.error for one in family] for family in expected]))
    assert df == expected[0][0].df


@pytest.mark.parametrize("seeds", [3, 8], ids=["fewer seeds than systems", "more"])
def test_families_without_scores_are_distributed_as_those_with_scores(seeds: int) -> None:
    """Also the dependence between comparisons with one baseline, which a family-wise error depends on."""
    without = Family.with_baseline(3).draw(seeds, 40, 4_000, np.random.default_rng(6))
    scores = scenarios.draw_comparisons(scenarios.draw_normal, (4_000, 4, seeds, 40), np.random.default_rng(7))
    for one, other in zip(without[2:], scores[2:], strict=True):
        assert stats.ks_2samp(one[:, 1], other[:, 1]).pvalue > 0.001
        assert stats.ks_2samp(one.max(1), other.max(1)).pvalue > 0.001
        assert stats.ks_2samp(one[:, 0] * one[:, 1], other[:, 0] * other[:, 1]).pvalue > 0.001
    assert np.corrcoef(without.mean.T)[0, 1] == pytest.approx(0.5, abs=0.05)


def test_shared_seed_effects_leave_the_differences_alone_and_unequal_ones_do_not() -> None:
    family, shared = Family.with_baseline(2, seed_sd=1.0), Family.with_baseline(2, seed_sd=1.0, shared=0.75)
    wild = Family.with_baseline(2, seed_sd=1.0, factors=[1.0, 9.0])
    means = [one.draw(3, 500, 4_000, np.random.default_rng(8)).ms_seed.mean(0) / 500 for one in (family, shared, wild)]
    assert means[0] == pytest.approx([2.0, 2.0], rel=0.1)
    assert means[1] == pytest.approx([0.5, 0.5], rel=0.1)
    assert means[2] == pytest.approx([10.0, 2.0], rel=0.1)


@pytest.mark.parametrize(("seeds", "comparisons"), [(3, 1), (2, 5), (3, 5), (5, 3)])
def test_the_pooled_test_of_arrays_is_that_of_the_product(seeds: int, comparisons: int) -> None:
    family = Family.with_baseline(comparisons, factors=[1, 4])
    squares, estimator = family.draw(seeds, 80, 30, np.random.default_rng(21)), make_pooled_estimate(family.pairs)
    named = [(str(system), str(baseline)) for system, baseline in family.pairs]
    rows = np.array(anovas(squares), dtype=object).reshape(30, comparisons, -1)
    estimates = [[one for one, _ in pool_seeds([TwoWayAnova(*row) for row in study], named)] for study in rows]
    for level in (0.05, 0.01):
        error, df = estimator(squares, level)
        assert error == pytest.approx(np.array([[one.error for one in study] for study in estimates]))
        assert df == pytest.approx(np.array([[one.df_at(level) for one in study] for study in estimates]))
        p = np.array([[one.test().p for one in study] for study in estimates])
        assert (rejections(estimator, squares, level) == (p < level)).all()


@pytest.mark.parametrize("seeds", [2, 3, 10])
def test_the_average_of_arrays_is_that_of_the_product(seeds: int) -> None:
    squares = averages.Tasks((0.03, 0.003, 0.01), 80, 0.15).draw(seeds, 40, np.random.default_rng(22))
    studies = np.array(anovas(squares), dtype=object).reshape(40, 3, -1)
    estimates = [average_estimates([two_way_estimate(TwoWayAnova(*row)) for row in study]) for study in studies]
    for level in (0.05, 0.005):
        error, df = averages.estimate_average(squares, level)
        assert error == pytest.approx([one.error for one in estimates])
        assert df == pytest.approx([one.df_at(level) for one in estimates])


def test_an_average_of_equal_systems_varies_as_much_as_is_said() -> None:
    cell = averages.Tasks((0.03, 0.003, 0.01), 80, 0.15)
    squares = cell.draw(3, 20_000, np.random.default_rng(23))
    assert squares.mean.mean(-1).std() == pytest.approx(cell.compute_error(3), rel=0.03)


def test_a_pooled_variance_is_never_below_the_own() -> None:
    family = Family.with_baseline(4, factors=[1, 1, 4, 25])
    squares = family.draw(3, 300, 500, np.random.default_rng(9))
    pooled, own = make_pooled_estimate(family.pairs)(squares, 0.05)[0], estimate_here(squares, 0.05)[0]
    assert (pooled >= own * (1 - 1e-12)).all()
    assert (pooled > own).any()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_system_of_a_scenario_is_better(scenario) -> None:
    squares = scenarios.draw_comparisons(scenario, (4_000, 3, 2, 50), np.random.default_rng(10))
    assert (np.abs(stats.ttest_1samp(squares.mean, 0.0).statistic) < 4).all()


RUN_SCENARIOS = [partial(scenarios.collapse, loss=loss) for loss in scenarios.COLLAPSE_LOSSES]


@pytest.mark.parametrize("scenario", [*RUN_SCENARIOS, scenarios.lose_by_bad_luck])
def test_comparisons_of_runs_are_those_of_their_scores(scenario) -> None:
    def draw_scores(rng: np.random.Generator, shape: scenarios.Shape) -> np.ndarray:
        return scenarios.draw_normal(rng, shape) + scenario(rng, shape[:3])[..., None]

    rng = np.random.default_rng(24)
    runs = SEED_SD * rng.standard_normal((4_000, 3, 4)) + scenario(rng, (4_000, 3, 4))
    assert (np.abs(stats.ttest_1samp(runs.mean(2), 0.0).statistic) < 4).all()
    without, scored = (
        draw_comparisons_of_runs(runs, 40, rng),
        scenarios.draw_comparisons(draw_scores, (4_000, 3, 4, 40), rng),
    )
    for one, other in zip(without[2:], scored[2:], strict=True):
        assert stats.ks_2samp(one[:, 0], other[:, 0]).pvalue > 0.001
        assert stats.ks_2samp(one.max(1), other.max(1)).pvalue > 0.001


def test_what_a_seed_does_to_all_systems_cancels() -> None:
    def draw_moved(rng: np.random.Generator, shape: scenarios.Shape) -> np.ndarray:
        scores = scenarios.draw_normal(rng, shape)
        return scores + np.arange(shape[2])[:, None]

    one, other = (
        scenarios.draw_comparisons(scenario, (5, 3, 4, 20), np.random.default_rng(11))
        for scenario in (scenarios.draw_normal, draw_moved)
    )
    for plain, moved in zip(one[2:], other[2:], strict=True):
        assert moved == pytest.approx(plain)


def test_levels_are_found_where_they_are_known() -> None:
    """Without seeds that vary and with much variance between queries, every test is Student's over queries."""
    found = levels.measure_shares(levels.draw_cell((10, 2_000), (1e6, 0.0), 40_000, np.random.default_rng(12)))
    for name, level in levels.KEYS:
        assert found[name, level] == pytest.approx(level, abs=4 * (level / 40_000) ** 0.5)


def test_extremes_of_a_grid_keep_their_order() -> None:
    grid = [(0.0, 0.0), (3.0, 1.0)]
    found = levels.measure_range((3, 200), 2_000, grid)
    low, high = found["Satterthwaite", 0.05]
    assert low < 0.03 < 0.06 < high


def test_families_err_as_often_as_their_worst_comparison_or_more() -> None:
    squares = Family.with_baseline(3).draw(3, 200, 5_000, np.random.default_rng(13))
    errors = families.measure_errors(estimate_here, squares)
    single = rejections(estimate_here, squares, 0.05 / 3)
    assert errors["Bonferroni"] == pytest.approx([single.any(1).mean()])
    assert single.mean(0).max() <= errors["Bonferroni"][0] <= single.mean(0).sum()
    assert errors["Holm"][-1] == errors["level .05"][0]


def test_power_is_the_share_of_rejections() -> None:
    variance, rng = power.true_variance(), np.random.default_rng(14)
    squares = draw_squares(3, 1_000, variance, 20_000, rng)
    error = power.true_error(variance, 3, 1_000)
    critical = critical_differences(estimate_here, squares, 0.05)
    for difference in (0.0, 0.02):
        counted = rejections(estimate_here, squares._replace(mean=squares.mean + difference), 0.05).mean()
        assert power.compute_power(critical, error, difference) == pytest.approx(counted, abs=0.01)
    found = power.find_difference(critical, error)
    assert power.compute_power(critical, error, found) == pytest.approx(0.8, abs=1e-4)
    effect = minimum_detectable_effect(variance.estimate(3, 1_000), 0.05)
    assert effect == pytest.approx(found, rel=0.1)


@pytest.mark.parametrize(
    ("variance", "expected"),
    [
        (DifferenceVariance(1.0, 0.0, 0.0), (0.0, 0.0, 0.5)),
        (DifferenceVariance(0.0, 1.0, 0.0), (1.0, 0.5, 0.0)),
        (DifferenceVariance(0.0, 0.0, 1.0), (1.0, 0.5, 0.5)),
    ],
    ids=["seeds", "queries", "rest"],
)
def test_four_times_what_a_variance_depends_on_halves_the_error(variance: DifferenceVariance, expected) -> None:
    assert power.measure_gain(variance, 10, 300) == pytest.approx(expected)


@pytest.mark.parametrize("tried", [1, 20])
def test_a_search_adds_the_luck_of_its_best(tried: int) -> None:
    """The expected gain of the best of n normal means, by order statistics, times the part that is of the runs."""
    run, noise = 0.006**2 / 3, (0.05**2 + 0.12**2 / 3) / 200
    grid = np.linspace(-8, 8, 20_001)
    best = np.trapezoid(grid * tried * stats.norm.pdf(grid) * stats.norm.cdf(grid) ** (tried - 1), grid)
    gain, better = search_luck.measure(tried, 0.006, 200, False, 20_000, np.random.default_rng(18))
    fresh_gain, fresh = search_luck.measure(tried, 0.006, 200, True, 20_000, np.random.default_rng(19))
    assert gain == pytest.approx(best * run / (run + noise) ** 0.5, abs=2e-4)
    assert fresh_gain == pytest.approx(0.0, abs=2e-4)
    assert fresh == pytest.approx(0.025, abs=0.006)
    assert (better > 0.045) == (tried > 1)


def test_the_test_after_a_search_is_that_of_its_scores() -> None:
    """Mean squares of the product's own analysis of variance of scores with these runs."""
    rng, runs = np.random.default_rng(20), np.array([[0.01, -0.02, 0.0]])
    drawn_squares = search_luck.draw_test(np.repeat(runs, 2_000, 0), 50, rng)
    noise = [
        2**0.5 * rng.normal(0, (0.05, 0.12)[part], size) for part, size in enumerate(((2_000, 1, 50), (2_000, 3, 50)))
    ]
    scored = Squares.from_differences(runs[:, :, None] + noise[0] + noise[1])
    for one, other in zip(drawn_squares[2:], scored[2:], strict=True):
        assert stats.ks_2samp(one, other).pvalue > 0.001
