"""Minimum detectable effects: statsmodels and simulation as oracles."""

import math

import numpy as np
import pytest
from statsmodels.stats.power import TTestPower

from analysis.stats.estimate import Estimate
from analysis.stats.paired_tests import estimate_over_both, estimate_over_queries
from analysis.stats.power import (
    DifferenceVariance,
    compute_power,
    find_cheapest_size,
    minimum_detectable_effect,
    required_growth,
    required_queries,
    tabulate_required_queries,
)
from analysis.stats.two_way import two_way_anova, two_way_estimate

SPREAD = DifferenceVariance(0.006**2, 0.05**2, 0.17**2)


@pytest.mark.parametrize(("queries", "alpha"), [(40, 0.05), (200, 0.01), (12, 0.05 / 7)])
def test_detectable_difference_is_statsmodels(queries: int, alpha: float) -> None:
    d = np.random.default_rng(2).normal(0, 0.2, (3, queries))
    found = minimum_detectable_effect(estimate_over_queries(d), alpha)
    effect = found / d.mean(axis=0).std(ddof=1)
    power = TTestPower().power(effect, nobs=queries, alpha=alpha, alternative="two-sided")
    assert power == pytest.approx(0.8, abs=1e-10)


def test_without_spread_there_is_no_such_difference() -> None:
    assert minimum_detectable_effect(Estimate(0.0, 0.0, 4), 0.05) is None


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_the_difference_is_found_as_often_as_it_says(seeds: int) -> None:
    """Differences of that size, over and over: the test over both finds four of five."""
    shift = minimum_detectable_effect(SPREAD.estimate(seeds, 400), 0.05)
    rng, found, trials = np.random.default_rng(seeds), 0, 700
    for _ in range(trials):
        d = rng.normal(0, 0.006, (seeds, 1)) + rng.normal(0, 0.05, 400) + rng.normal(shift, 0.17, (seeds, 400))
        found += estimate_over_both(d).test().p < 0.05
    assert found / trials == pytest.approx(0.8, abs=0.05)


def test_parts_give_the_estimate_back() -> None:
    d = np.random.default_rng(3).normal(0, 0.2, (4, 90)) + np.random.default_rng(4).normal(0, 0.3, 90)
    d += np.random.default_rng(5).normal(0, 0.1, (4, 1))
    found = two_way_anova(d)
    rest = found.ms_residual
    parts = DifferenceVariance((found.ms_seed - rest) / 90, (found.ms_query - rest) / 4, rest)
    assert parts.estimate(4, 90)._replace(mean=found.mean) == pytest.approx(two_way_estimate(found))


@pytest.mark.parametrize(("seeds", "difference"), [(3, 0.06), (5, 0.03), (10, 0.03)])
def test_so_many_queries_are_enough_and_one_less_is_not(seeds: int, difference: float) -> None:
    queries = required_queries(SPREAD, difference, seeds, 0.01)
    enough, short = (minimum_detectable_effect(SPREAD.estimate(seeds, count), 0.01) for count in (queries, queries - 1))
    assert enough <= difference < short


def test_no_number_of_queries_makes_up_for_seeds() -> None:
    """With three seeds their own spread decides: .006 / sqrt(3), two degrees of freedom."""
    assert required_queries(SPREAD, 0.005, 3, 0.05) is None
    limit = Estimate(0.0, 0.006 / math.sqrt(3), 2)
    least = minimum_detectable_effect(limit, 0.05)
    assert required_queries(SPREAD, least * 1.02, 3, 0.05) is not None
    assert required_queries(SPREAD, least * 0.98, 3, 0.05) is None


def test_a_level_out_of_reach_is_not_taken_for_no_spread() -> None:
    """Two queries have one degree of freedom, which knows no level of 1e-10; that says nothing of more queries."""
    assert minimum_detectable_effect(SPREAD.estimate(20, 2), 1e-10) is None
    queries = required_queries(SPREAD, 0.05, 20, 1e-10)
    enough, short = (minimum_detectable_effect(SPREAD.estimate(20, count), 1e-10) for count in (queries, queries - 1))
    assert enough <= 0.05 < short
    assert required_queries(DifferenceVariance(0.0, 0.0, 0.0), 0.05, 20, 1e-10) == 2


@pytest.mark.parametrize("spread", [DifferenceVariance(0.0, 0.05**2, 0.12**2), DifferenceVariance(0.1**2, 1e-6, 1e-6)])
def test_no_order_of_seeds_makes_more_seeds_need_more_queries(spread: DifferenceVariance) -> None:
    seeds = [40, 3, 20, 6]
    ((_, counts),) = tabulate_required_queries(spread, [0.05], seeds, 0.05)
    plain = [required_queries(spread, 0.05, number, 0.05) or math.inf for number in seeds]
    found = dict(zip(seeds, [count or math.inf for count in counts], strict=True))
    assert sorted(found.values(), reverse=True) == [found[number] for number in sorted(seeds)]
    assert all(count <= own for count, own in zip(found.values(), plain, strict=True))


def test_a_larger_study_grows_in_proportion_and_is_the_smallest_that_finds_the_difference() -> None:
    variance, level = DifferenceVariance(1e-4, 0.01, 0.02), 0.01
    own = minimum_detectable_effect(variance.estimate(4, 500), level)
    assert own is not None
    found = required_growth(variance, own, 0.01, 4, 500, level)
    assert found is not None
    seeds, queries = found
    assert queries == 125 * seeds
    assert minimum_detectable_effect(variance.estimate(seeds, queries), level) <= 0.01
    assert minimum_detectable_effect(variance.estimate(seeds - 1, 125 * (seeds - 1)), level) > 0.01
    tenfold = DifferenceVariance(*(100 * component for component in variance))  # only the proportion counts
    assert required_growth(tenfold, own, 0.01, 4, 500, level) == found
    assert required_growth(variance, own, 0.01, 4, 500, level) == required_growth(
        variance, 2 * own, 0.02, 4, 500, level
    )
    assert required_growth(variance, own, own, 4, 500, level) is None  # large enough already
    assert required_growth(variance, own, 1e-6, 4, 500, level) is None  # a thousand seeds do not suffice


def simulate_power(seeds: int, queries: int, shift: float, level: float, trials: int = 1200) -> float:
    """The share of drawn studies in which the test over both finds the difference."""
    rng, found = np.random.default_rng([seeds, queries]), 0
    for _ in range(trials):
        d = rng.normal(0, SPREAD.seed**0.5, (seeds, 1)) + rng.normal(0, SPREAD.query**0.5, queries)
        d += rng.normal(shift, SPREAD.rest**0.5, (seeds, queries))
        found += estimate_over_both(d).test().p < level
    return found / trials


def test_the_cheapest_size_has_80_percent_power_and_no_cheaper_neighbour_has() -> None:
    """Power is simulated: at the size, and at all sizes of a grid around it that cost at least a tenth less."""
    shift, level, train, query = 0.02, 0.0125, 20.0, 0.1
    size = find_cheapest_size(SPREAD, shift, level, train, query)
    assert size.seconds == pytest.approx(size.seeds * (train + size.queries * query))
    assert simulate_power(size.seeds, size.queries, shift, level, 3000) == pytest.approx(0.8, abs=0.025)
    grid = [
        (seeds, round(size.queries * share))
        for seeds in range(size.seeds - 2, size.seeds + 3)
        for share in (0.5, 0.7, 0.85, 1, 1.2, 1.5)
        if seeds * (train + size.queries * share * query) <= 0.9 * size.seconds
    ]
    assert len(grid) > 8
    assert {seeds for seeds, _ in grid} == {*range(size.seeds - 2, size.seeds + 3)}
    assert max(simulate_power(*cell, shift, level) for cell in grid) < 0.8


@pytest.mark.parametrize(("train", "query"), [(1000.0, 0.01), (1.0, 1.0), (1e-3, 10.0)])
def test_every_cheaper_size_has_less_power(train: float, query: float) -> None:
    size = find_cheapest_size(SPREAD, 0.02, 0.05, train, query)
    assert compute_power(SPREAD, 0.02, size.seeds, size.queries, 0.05) >= 0.8
    for seeds in range(2, int(size.seconds / train) + 1)[:60]:
        most = math.ceil((size.seconds / seeds - train) / query - 1e-6) - 1
        if most >= 2:
            assert compute_power(SPREAD, 0.02, seeds, most, 0.05) < 0.8


def test_dear_trainings_take_fewer_seeds_and_more_queries() -> None:
    dear, cheap = (find_cheapest_size(SPREAD, 0.02, 0.05, train, 0.1) for train in (1000.0, 1.0))
    assert dear.seeds < cheap.seeds
    assert dear.queries > cheap.queries


def test_no_size_of_a_thousand_seeds_is_no_size() -> None:
    assert find_cheapest_size(DifferenceVariance(1.0, 0.0, 0.0), 0.01, 0.05, 1.0, 1.0) is None
