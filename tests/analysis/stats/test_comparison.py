"""A whole family of comparisons against an oracle of plain loops, scipy's tests and the definitions of each column."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.stats.comparison import Comparison, ComparisonFamily, ComparisonSettings, WinTieLoss, compare_family
from analysis.stats.equivalence import tost
from analysis.stats.estimate import Estimate
from analysis.stats.multiple_testing import CORRECTIONS, adjust_p_values
from analysis.stats.paired_tests import estimate_over_both
from analysis.stats.permutation_tests import sign_flip
from analysis.stats.power import minimum_detectable_effect
from analysis.stats.two_way import two_way_anova

METRICS = {"R10@1": 1, "MAP": 1, "ECE": -1}
"""Name -> 1 where more is better."""
SEED = 3

PARTS = 700
"""Differences are multiples of 1 / PARTS, which is no binary fraction: equal sums differ by rounding."""

few_parts = st.integers(-3, 3)
"""Few values, so that many units tie."""


@st.composite
def differences(draw: st.DrawFn) -> list[list[int]] | None:
    """(seeds, queries) in parts; None where a side is incomplete."""
    seeds, queries = draw(
        st.sampled_from([(1, 7), (2, 7), (3, 7), (9, 7), (3, 2), (1, 2), (8, 1), (2, 1), (1, 1), (0, 0)])
    )
    shift = draw(st.sampled_from([0, 0, 2, -4]))
    row = st.lists(few_parts, min_size=queries, max_size=queries)
    found = draw(st.lists(row, min_size=seeds, max_size=seeds))
    return [[value + shift for value in own] for own in found] or None


@st.composite
def families(draw: st.DrawFn) -> tuple[ComparisonFamily, list[list[list[int]] | None]]:
    """A family, and its differences in parts."""
    tables = draw(st.lists(differences(), min_size=1, max_size=3))
    pairs = [(f"new {n}", "old", None if d is None else np.array(d) / PARTS) for n, d in enumerate(tables)]
    several = draw(st.lists(st.sampled_from(list(METRICS)), min_size=len(pairs), max_size=len(pairs)))
    metrics = draw(st.sampled_from([(), tuple(several)]))
    return ComparisonFamily("name", "task", "" if metrics else several[0], pairs, metrics, draw(st.booleans())), tables


every_setting = st.builds(
    ComparisonSettings,
    alpha=st.sampled_from([0.05, 0.2]),
    correction=st.sampled_from(CORRECTIONS),
    margin=st.sampled_from([None, 1 / PARTS, 4 / PARTS]),
    tests=st.sampled_from([(), ("wilcoxon",), ("sign-flip", "wilcoxon")]),
    less_is_better=st.booleans(),
    seed=st.just(SEED),
)


def near(value: float | None) -> Any:
    """Equal except for rounding; None is None."""
    return None if value is None else pytest.approx(value, rel=1e-6)


def sums(table: list[list[int]]) -> tuple[list[int], list[int]]:
    """Return the sum of each query over its seeds, and of each seed over its queries, in parts."""
    return [sum(row[query] for row in table) for query in range(len(table[0]))], [sum(row) for row in table]


def units_of(table: list[list[int]]) -> list[Fraction]:
    """Queries averaged over seeds, or seeds where there is one query."""
    by_query, by_seed = sums(table)
    if len(by_query) > 1:
        return [Fraction(total, PARTS * len(table)) for total in by_query]
    return [Fraction(total, PARTS) for total in by_seed]


def signs_of(values: list[int]) -> float:
    """Two-sided p-value of the sign-flip test of a sum, by all signs."""
    every = [
        sum(s * v for s, v in zip(signs, values, strict=True))
        for signs in itertools.product((1, -1), repeat=len(values))
    ]
    return sum(abs(one) >= abs(sum(values)) for one in every) / len(every)


def student(values: list[Fraction] | list[float], level: float) -> tuple[float, float, float]:
    """p, low and high, scipy's, of values with 12 decimals."""
    sample = np.round([float(value) for value in values], 12)
    if len(set(values)) == 1:
        return agreeing(float(sample[0]), len(sample), level)
    found = stats.ttest_1samp(sample, 0)
    return (found.pvalue, *found.confidence_interval(1 - level))


def agreeing(mean: float, n: int, level: float = 0.05) -> tuple[float, float, float]:
    """p, low and high of n differences that agree exactly: half of the difference counts as standard deviation."""
    if mean == 0:
        return 1.0, 0.0, 0.0
    half = stats.t.ppf(1 - level / 2, n - 1) * abs(mean) / 2 / math.sqrt(n)
    return 2 * stats.t.sf(2 * math.sqrt(n), n - 1), mean - half, mean + half


def head_of(table: list[list[int]] | None) -> tuple[str | None, Any]:
    """The question of the headline, and a function from a level to its p, low and high."""
    if table is None or len(table) == len(table[0]) == 1:
        return None, None
    by_query, by_seed = sums(table)
    if len(table) == 1:
        return "queries", lambda level: student([Fraction(v, PARTS) for v in by_query], level)
    if len(by_query) == 1:
        return "seeds", lambda level: student([Fraction(v, PARTS) for v in by_seed], level)

    def both(level: float) -> tuple[float, float, float]:
        test = estimate_over_both(np.array(table) / PARTS).test(1 - level)
        return test.p, test.low, test.high

    return "both", both


@given(families(), every_setting)
def test_every_column_is_what_its_definition_says(
    made: tuple[ComparisonFamily, list[list[list[int]] | None]], how: ComparisonSettings
) -> None:
    family, tables = made
    found, heads = compare_family(family, how), [head_of(table) for table in tables]
    raw = [head(how.alpha)[0] if head else None for _, head in heads]
    adjusted: dict[str, list[float | None]] = {name: adjust_p_values(raw, name) for name in CORRECTIONS}
    over_queries = [(test := one.targets.get("queries")) and test.p for one in found]
    adjusted_queries = {name: adjust_p_values(over_queries, name) for name in CORRECTIONS}
    single = how.alpha / len(tables)
    assert len(found) == len(tables)
    for place, (one, table) in enumerate(zip(found, tables, strict=True)):
        metric = family.metrics[place] if family.metrics else family.metric
        assert (one.family, one.task, one.metric) == ("name", "task", metric)
        assert (one.system, one.baseline, one.comparisons) == (f"new {place}", "old", len(tables))
        target, head = heads[place]
        assert one.target == target
        assert list(one.adjusted) == list(CORRECTIONS)
        for name, values in adjusted.items():
            assert one.adjusted[name] == near(values[place]), name
        assert one.adjusted_queries == {name: values[place] for name, values in adjusted_queries.items()}
        if table is None:
            assert (one.difference, one.wins_ties_losses, one.interval, one.distribution_free) == (None, None, None, {})
            assert (one.each_seed, one.detectable, one.equivalence_p, one.verdict) == ([], None, None, "not compared")
            assert one.classical is None
            continue
        gain = -1 if how.less_is_better else METRICS[metric]
        check_numbers(one, table, gain, family.is_correlation)
        check_free(one, table, how)
        check_headline(one, head, single, gain, how)
        assert (one.verdict == "all values are equal") == (not any(map(any, table)))
        check_targets(one, table, how.alpha)
        check_classical(one, table)


def check_classical(one: Comparison, table: list[list[int]]) -> None:
    """The published test is for new seeds and new queries only; its t has the degrees of freedom of Hillis."""
    if one.target != "both":
        assert one.classical is None
        return
    ms = two_way_anova(np.array(table) / PARTS)
    few, more = (ms.ms_seed, ms.ms_query) if ms.seeds <= ms.queries else (ms.ms_query, ms.ms_seed)
    total, levels = few + max(more - ms.ms_residual, 0), min(ms.seeds, ms.queries)
    if total <= 1e-20 * ms.mean**2:
        assert one.classical == pytest.approx(agreeing(round(ms.mean, 12), levels)[0])
    else:
        square = ms.mean**2 * ms.seeds * ms.queries / total
        df = (levels - 1) * (total / few) ** 2 if few else np.inf
        assert one.classical == pytest.approx(2 * stats.t.sf(math.sqrt(square), df), abs=1e-9)


def check_numbers(one: Comparison, table: list[list[int]], gain: int, correlation: bool) -> None:
    units = units_of(table)
    mean = sum(units, Fraction()) / len(units)
    assert one.difference == pytest.approx(float(mean), abs=1e-12)
    counted = tuple(sum((gain * value > 0) - (gain * value < 0) == sign for value in units) for sign in (1, 0, -1))
    if correlation:
        assert one.wins_ties_losses is None
    else:
        assert one.wins_ties_losses == counted


def check_free(one: Comparison, table: list[list[int]], how: ComparisonSettings) -> None:
    """Over seeds where there are several, over queries otherwise."""
    by_query, by_seed = sums(table)
    totals = by_seed if len(by_seed) > 1 else by_query
    assert list(one.distribution_free) == list(how.tests)
    for name, p in one.distribution_free.items():
        if name == "sign-flip":
            assert p == pytest.approx(signs_of(totals))
        else:
            expected = stats.wilcoxon(totals, zero_method="pratt").pvalue if any(totals) else 1.0
            assert p == pytest.approx(expected)


def check_headline(one: Comparison, head: Any, single: float, gain: int, how: ComparisonSettings) -> None:
    if not head:
        assert (one.interval, one.detectable, one.equivalence_p) == (None, None, None)
        assert not one.is_decided
        return
    assert one.interval == pytest.approx(head(single)[1:], abs=1e-9)
    p, own = one.adjusted[how.correction], one.targets[str(one.target)]
    assert own is not None
    if how.margin is None:
        assert one.equivalence_p is None
    else:
        assert one.equivalence_p is not None
    clear = p < how.alpha and one.difference != 0
    alike = one.equivalence_p is not None and one.equivalence_p < how.alpha
    better = gain * one.difference > 0
    verdict = ("better" if better else "worse") if clear else "equivalent" if alike else "undecided"
    assert one.verdict in (verdict, "all values are equal")


def check_targets(one: Comparison, table: list[list[int]], alpha: float) -> None:
    by_query, by_seed = sums(table)
    samples = {
        "queries": [Fraction(v, PARTS * len(table)) for v in by_query] if len(by_query) > 1 else None,
        "seeds": [Fraction(v, PARTS * len(by_query)) for v in by_seed] if len(by_seed) > 1 else None,
    }
    for name, sample in samples.items():
        test = one.targets[name]
        assert (test is None) == (sample is None)
        if test is not None and sample is not None:
            assert (test.p, test.low, test.high) == pytest.approx(student(sample, alpha), abs=1e-9)
    assert (one.targets["both"] is None) == (None in samples.values())
    several = len(by_query) > 1 and len(by_seed) > 1
    alone = [student([Fraction(v, PARTS) for v in row], alpha)[0] for row in table] if several else []
    assert one.each_seed == pytest.approx(alone, abs=1e-9)


@st.composite
def large_enough(draw: st.DrawFn) -> list[list[int]]:
    """Seven or eight seeds, or one seed and as many queries: no distribution-free test is in vain."""
    seeds, queries = draw(st.sampled_from([(7, 5), (8, 3), (8, 1), (1, 8)]))
    row = st.lists(few_parts, min_size=queries, max_size=queries)
    return draw(st.lists(row, min_size=seeds, max_size=seeds))


@given(large_enough())
def test_distribution_free_tests_are_over_the_means_of_seeds(table: list[list[int]]) -> None:
    how = ComparisonSettings(tests=("sign-flip", "wilcoxon"))
    (one,) = compare_family(ComparisonFamily("name", "task", "MAP", [("new", "old", np.array(table) / PARTS)]), how)
    check_free(one, table, how)


@given(values=st.lists(st.integers(-2, 2), min_size=1, max_size=30))
def test_wins_of_one_side_are_losses_of_the_other(values: list[int]) -> None:
    own, other = WinTieLoss.from_differences(np.array(values) / 3), WinTieLoss.from_differences(np.array(values) / -3)
    assert own == (other.losses, other.ties, other.wins)
    assert sum(own) == len(values)


@given(families(), st.sampled_from([0.05, 0.2]), st.sampled_from([1 / PARTS, 4 / PARTS]))
def test_equivalence_and_what_could_be_seen_are_corrected_for_the_whole_family(
    made: tuple[ComparisonFamily, list[list[list[int]] | None]], alpha: float, margin: float
) -> None:
    """Also for the comparisons that could not be made: they were declared."""
    family, tables = made
    for one, table in zip(compare_family(family, ComparisonSettings(alpha=alpha, margin=margin)), tables, strict=True):
        if one.target is None or table is None:
            continue
        head = one_alone(table)
        assert one.equivalence_p == pytest.approx(min(1, len(tables) * tost(head, margin)))
        seen = minimum_detectable_effect(typical(one, table, family, tables), alpha / len(tables))
        assert one.detectable == near(seen)
        assert math.isclose(head.mean, one.difference or 0.0, abs_tol=1e-12)


def typical(
    one: Comparison, table: list[list[int]], family: ComparisonFamily, tables: list[list[list[int]] | None]
) -> Estimate:
    """The estimate of a headline with seeds that vary as those of its family on average, in relation to the rest."""
    own, ms = one_alone(table), two_way_anova(np.array(table) / PARTS) if min(len(table), len(table[0])) > 1 else None
    if ms is None or family.is_correlation or ms.seeds > ms.queries or ms.ms_residual < 1e-20:
        return own
    metrics = family.metrics or [family.metric] * len(tables)
    ratios = []
    for other, metric in zip(tables, metrics, strict=True):
        if other and metric == one.metric and (len(other), len(other[0])) == (ms.seeds, ms.queries):
            squares = two_way_anova(np.array(other) / PARTS)
            if squares.ms_residual > 1e-20:
                ratios.append(max(squares.ms_seed / squares.ms_residual, 0.01))
    few, more = ms.ms_residual * float(np.mean(ratios)), max(ms.ms_query - ms.ms_residual, 0)
    return own._replace(error=math.sqrt((few + more) / ms.seeds / ms.queries), share=few / (few + more))


def one_alone(table: list[list[int]]) -> Estimate:
    """The estimate of a headline."""
    from analysis.stats.paired_tests import estimate_all

    found = estimate_all(np.array(table) / PARTS)
    one = found["both"] or found["queries"] or found["seeds"]
    assert one is not None
    return one


def test_draws_are_named_by_the_seed_of_the_settings() -> None:
    """There are too many signs of forty queries to go through all."""
    d = np.random.default_rng(1).normal(0.1, 1, (1, 40))
    found = {}
    for seed in (0, 1):
        (one,) = compare_family(
            ComparisonFamily("name", "task", "MAP", [("new", "old", d)]),
            ComparisonSettings(tests=("sign-flip",), seed=seed),
        )
        found[seed] = one.distribution_free["sign-flip"]
        assert found[seed] == sign_flip(np.round(d[0], 12), seed)
    assert found[0] != found[1]
