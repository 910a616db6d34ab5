"""Variation between seeds that is pooled over a family: its limits, its symmetries, and where it is an error."""

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.stats.comparison import Comparison, ComparisonFamily, ComparisonSettings, SeedVariance, compare_family
from analysis.stats.equivalence import tost
from analysis.stats.estimate import Estimate, TestResult
from analysis.stats.paired_tests import differences, vary_over_seeds
from analysis.stats.pooled import SeedPool, compute_pooled_df, compute_ratio, is_poolable, pool_family, pool_seeds
from analysis.stats.power import minimum_detectable_effect
from analysis.stats.two_way import TwoWayAnova, two_way_anova, two_way_estimate

POOLED = ComparisonSettings(seeds="pooled")
NAMES = ("LS", "T-LS", "WSLS", "T-WSLS", "GS")


def star(count: int) -> list[tuple[str, str]]:
    return [(f"new {number}", "BERT") for number in range(count)]


mean_squares = st.builds(
    TwoWayAnova,
    seeds=st.just(3),
    queries=st.just(50),
    mean=st.floats(-0.1, 0.1),
    ms_seed=st.floats(0, 5),
    ms_query=st.floats(0.1, 5),
    ms_residual=st.floats(0.1, 2),
)


def scores(count: int = 4, seeds: int = 3, queries: int = 40, seed: int = 0) -> dict[str, Any]:
    """(seeds, queries) of BERT and of some other systems."""
    rng = np.random.default_rng(seed)
    return {
        name: 0.1 * (name != "BERT") + rng.normal(0, 0.05, (seeds, 1)) + rng.normal(0, 0.1, (seeds, queries))
        for name in ("BERT", *NAMES[:count])
    }


def family_of(values: dict[str, Any], pairs: list[tuple[str, str]], **changes: Any) -> ComparisonFamily:
    made = [(system, baseline, differences(values[system], values[baseline])) for system, baseline in pairs]
    poolable = [vary_over_seeds(values[system], values[baseline]) for system, baseline in pairs]
    return replace(ComparisonFamily("variants", "toy", "MAP", made, poolable=poolable), **changes)


@pytest.mark.parametrize(("count", "expected"), [(1, 2.0), (2, 2.7692), (3, 3.1765), (4, 3.4286), (5, 3.6), (10, 4.0)])
def test_degrees_of_freedom_of_comparisons_with_one_baseline(count: int, expected: float) -> None:
    assert compute_pooled_df(star(count), 3, 1000) == pytest.approx(expected, abs=5e-5)


def test_degrees_of_freedom_count_the_same_systems_once_and_other_ones_fully() -> None:
    same, turned, other = ("LS", "BERT"), ("BERT", "LS"), ("T-LS", "WSLS")
    assert compute_pooled_df([same, turned], 3, 1000) == 2
    assert compute_pooled_df([same, other], 3, 1000) == 4
    assert compute_pooled_df([same, turned, other], 3, 1000) == pytest.approx(2 * 9 / 5)
    assert compute_pooled_df([(f"{n}", f"{n + 1}") for n in range(0, 40, 2)], 6, 8) == 7


def test_comparisons_of_systems_with_one_beginning_say_less_together() -> None:
    """r = .9 for them in any order, if they have the other system in common; every other r stays."""
    pairs, related = [("LS", "BERT"), ("T-LS", "BERT"), ("WSLS", "BERT")], [("T-LS", "LS")]
    assert compute_pooled_df(pairs, 3, 1000, related) == pytest.approx(2 * 9 / (3 + 2 * 0.9**2 + 4 * (2 / 3) ** 2))
    assert compute_pooled_df(pairs, 3, 1000, [("LS", "T-LS")]) == compute_pooled_df(pairs, 3, 1000, related)
    switch = [("T-LS", "LS"), ("LS", "BERT")]
    assert compute_pooled_df(switch, 3, 1000, related) == compute_pooled_df(switch, 3, 1000)


def test_a_family_knows_its_beginnings() -> None:
    pairs, related = [(name, "BERT") for name in NAMES[:4]], [NAMES[:2]]
    family = family_of(scores(), pairs, shared_beginnings=related)
    expected = pool_seeds([two_way_anova(d) for *_, d in family.pairs if d is not None], pairs, related)
    pools = [pool for _, pool in expected]
    assert [c.pooled for c in compare_family(family, POOLED)] == pools
    assert pools[0].df < compute_pooled_df(pairs, 3, 40)


@given(mean_squares)
def test_a_single_comparison_is_its_own(anova: TwoWayAnova) -> None:
    ((found, pool),) = pool_seeds([anova], star(1))
    assert found == pytest.approx(two_way_estimate(anova))
    assert pool == SeedPool(1, 2.0, compute_ratio(anova), compute_ratio(anova), False)


@given(mean_squares, st.lists(st.floats(0.1, 9), min_size=1, max_size=6))
def test_where_seeds_matter_alike_only_the_degrees_of_freedom_grow(anova: TwoWayAnova, scales: list[float]) -> None:
    alike = [
        anova._replace(**{name: scale * getattr(anova, name) for name in ("ms_seed", "ms_query", "ms_residual")})
        for scale in scales
    ]
    df = compute_pooled_df(star(len(alike)), 3, 50)
    for one, (found, pool) in zip(alike, pool_seeds(alike, star(len(alike))), strict=True):
        assert found == pytest.approx(two_way_estimate(one)._replace(df=df))
        assert not pool.varies_more


@given(st.lists(mean_squares, min_size=2, max_size=6))
def test_the_variance_is_that_of_the_mean_ratio_or_of_its_own_if_larger(anovas: list[TwoWayAnova]) -> None:
    pairs = star(len(anovas))
    ratios = [max(one.ms_seed / one.ms_residual, 0.01) for one in anovas]
    mean = sum(ratios) / len(ratios)
    for index, (one, (found, pool)) in enumerate(zip(anovas, pool_seeds(anovas, pairs), strict=True)):
        few, more = one.ms_residual * max(ratios[index], mean), max(one.ms_query - one.ms_residual, 0)
        assert found.error == pytest.approx(math.sqrt((few + more) / 150))
        assert found.error >= two_way_estimate(one).error * (1 - 1e-12)
        assert found.share == pytest.approx(few / (few + more))
        assert (found.mean, found.df, found.df_more) == (one.mean, compute_pooled_df(pairs, 3, 50), 49)
        others = [ratio for place, ratio in enumerate(ratios) if place != index]
        limit = stats.f.ppf(0.99, 2, compute_pooled_df(pairs[1:], 3, 50))
        assert pool.varies_more == (ratios[index] / np.mean(others) > limit)
        assert (pool.comparisons, pool.mean_ratio, pool.ratio) == (len(anovas), pytest.approx(mean), ratios[index])


def test_only_comparisons_of_one_size_and_metric_are_pooled() -> None:
    small, large = TwoWayAnova(3, 50, 0.1, 1.0, 1.5, 0.5), TwoWayAnova(3, 60, 0.1, 1.0, 1.5, 0.5)
    assert set(pool_family([small, large, small, small, None], star(5), ["MAP", "MAP", "MAP", "MRR", "MAP"])) == {0, 2}


@pytest.mark.parametrize(
    ("seeds", "queries", "rest", "expected"),
    [
        (2, 50, 0.5, True),
        (6, 6, 0.5, True),
        (7, 50, 0.5, False),
        (6, 5, 0.5, False),
        (3, 50, 0.0, False),
        (3, 50, 1e-30, False),
    ],
)
def test_limits_of_pooling(seeds: int, queries: int, rest: float, expected: bool) -> None:
    assert is_poolable(TwoWayAnova(seeds, queries, 0.1, 1.0, 1.5, rest)) == expected


def test_a_family_has_the_pooled_tests_and_keeps_its_own_next_to_them() -> None:
    family = family_of(scores(), [(name, "BERT") for name in NAMES[:4]])
    margin = replace(POOLED, margin=0.2)
    expected = pool_seeds([two_way_anova(d) for *_, d in family.pairs if d is not None], star(4))
    for c, own, (estimate, pool) in zip(
        compare_family(family, margin), compare_family(family, replace(margin, seeds="own")), expected, strict=True
    ):
        assert c.targets["both"] == estimate.test(0.95)
        assert c.interval == pytest.approx(estimate.confidence_interval(1 - 0.05 / 4))
        assert c.adjusted["bonferroni"] == pytest.approx(min(1, 4 * estimate.test().p))
        assert c.equivalence_p == pytest.approx(min(1, 4 * tost(estimate, 0.2)))
        assert (c.unpooled, c.pooled, c.estimate) == (own.targets["both"], pool, estimate)
        assert (own.unpooled, own.pooled) == (None, None)
        assert c.classical == own.classical
        assert (c.difference, c.each_seed, c.adjusted_queries) == (own.difference, own.each_seed, own.adjusted_queries)
        assert {"unpooled", "pooled"} - c.as_dict().keys() == set()
        assert {"unpooled", "pooled", "estimate"} & own.as_dict().keys() == set()
        assert c.as_dict()["unpooled"]["p"] == both_of(own).p


def test_neither_the_order_of_comparisons_nor_the_sign_of_a_pair_matters() -> None:
    values, pairs = scores(), [("LS", "BERT"), ("T-LS", "BERT"), ("T-WSLS", "T-LS"), ("WSLS", "BERT")]
    found = {c.system + c.baseline: c for c in compare_family(family_of(values, pairs), POOLED)}
    df = 2 * 16 / (4 + 8 * 4 / 9)  # four of the six pairs of comparisons have a system in common
    for order in itertools.islice(itertools.permutations(pairs), 0, 24, 5):
        for c in compare_family(family_of(values, list(order)), POOLED):
            same = found[c.system + c.baseline]
            assert (c.pooled.df, c.pooled.mean_ratio) == pytest.approx((df, same.pooled.mean_ratio))
            assert both_of(c).p == pytest.approx(both_of(same).p)
    for turned in compare_family(family_of(values, [(baseline, system) for system, baseline in pairs]), POOLED):
        same = found[turned.baseline + turned.system]
        assert both_of(turned).p == pytest.approx(both_of(same).p)
        assert both_of(turned).low == pytest.approx(-both_of(same).high)


def both_of(c: Comparison) -> TestResult:
    test = c.targets["both"]
    assert test is not None
    return test


def own_tests(compared: list[Comparison]) -> list[Any]:
    return [(c.targets, c.interval, c.adjusted, c.detectable, c.verdict) for c in compared]


@pytest.mark.parametrize(
    "case",
    ["seven seeds", "one seed", "more seeds than queries", "correlation", "one comparison", "no rest", "metrics"],
)
def test_what_cannot_be_pooled_is_its_own(case: str) -> None:
    sizes = {"seven seeds": (7, 40), "one seed": (1, 40), "more seeds than queries": (6, 4)}
    values = scores(3, *sizes.get(case, (3, 40)))
    pairs, changes = [(name, "BERT") for name in NAMES[:3]], dict[str, Any]()
    if case == "one comparison":
        pairs = pairs[:1]
    if case == "correlation":
        changes["is_correlation"] = True
    if case == "metrics":
        changes["metrics"] = ("MAP", "MRR", "R10@1")
    if case == "no rest":
        values = {name: value.mean(axis=1, keepdims=True) + np.zeros(value.shape) for name, value in values.items()}
    family = family_of(values, pairs, **changes)
    found = compare_family(family, POOLED)
    assert all(c.pooled is None for c in found)
    assert own_tests(found) == own_tests(compare_family(family, replace(POOLED, seeds="own")))


@pytest.mark.parametrize("seeds", [3, 9])
@pytest.mark.parametrize("how", ["own", "pooled"])
def test_what_could_be_seen_is_from_the_mean_ratio_with_the_degrees_of_freedom_of_the_test(
    seeds: int, how: SeedVariance
) -> None:
    """Nine seeds are too many to be pooled, but not too many to say what a study can see."""
    family = family_of(scores(4, seeds), [(name, "BERT") for name in NAMES[:4]])
    anovas = [two_way_anova(d) for *_, d in family.pairs if d is not None]
    ratios = np.array([compute_ratio(anova) for anova in anovas])
    mean = (np.maximum(ratios, ratios.mean()) if (seeds, how) == (3, "pooled") else ratios).mean()
    df = compute_pooled_df(star(4), 3, 40) if (seeds, how) == (3, "pooled") else seeds - 1
    found = compare_family(family, replace(POOLED, seeds=how))
    for c, anova in zip(found, anovas, strict=True):
        few, more = anova.ms_residual * mean, max(anova.ms_query - anova.ms_residual, 0)
        typical = Estimate(0.0, math.sqrt((few + more) / (seeds * 40)), df, few / (few + more), 39)
        assert c.detectable == pytest.approx(minimum_detectable_effect(typical, 0.05 / 4))
    alone = compare_family(replace(family, poolable=[True, False, False, False]), replace(POOLED, seeds=how))
    for c, own in zip(alone, anovas, strict=True):
        assert c.detectable == pytest.approx(minimum_detectable_effect(two_way_estimate(own), 0.05 / 4))


@pytest.mark.parametrize("case", ["single row", "copies", "incomplete", "exploratory"])
def test_one_that_cannot_be_pooled_does_not_count_for_the_others(case: str) -> None:
    values, pairs = scores(3), [("LS", "BERT"), ("T-LS", "BERT"), ("WSLS", "BERT")]
    if case == "single row":
        values["WSLS"] = values["WSLS"][:1]
    if case == "copies":
        values["WSLS"] = np.repeat(values["WSLS"][:1], 3, axis=0)
    family = family_of(values, pairs)
    if case == "incomplete":
        family = replace(family, pairs=[*family.pairs[:2], ("WSLS", "BERT", None)])
    if case == "exploratory":
        family = replace(family, poolable=[True, True, False])
    *pooled, alone = compare_family(family, POOLED)
    *_, expected = compare_family(family, replace(POOLED, seeds="own"))
    assert alone.pooled is None
    assert alone.targets == expected.targets
    two = compare_family(family_of(values, pairs[:2]), POOLED)
    assert [(c.targets, c.pooled) for c in pooled] == [(c.targets, c.pooled) for c in two]


def test_five_comparisons_at_three_seeds_are_narrower_where_seeds_matter_alike() -> None:
    """Mean width of the intervals over studies, and their coverage: no true difference is 0.1."""
    widths, covered = {"own": 0.0, "pooled": 0.0}, {"own": 0, "pooled": 0}
    for seed in range(20):
        family = family_of(scores(5, seed=seed), [(name, "BERT") for name in NAMES])
        for how in widths:
            for c in compare_family(family, replace(POOLED, seeds=how)):
                widths[how] += c.interval[1] - c.interval[0]
                covered[how] += c.interval[0] <= 0.1 <= c.interval[1]
    assert widths["pooled"] < 0.75 * widths["own"]
    assert covered["pooled"] >= 0.97 * 100
