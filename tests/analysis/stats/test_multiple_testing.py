"""Corrections: their definitions, all permutations by plain loops, and the share of families with a false finding."""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from analysis.stats.multiple_testing import CORRECTIONS, FROM_P, MaxT, adjust_p_values, max_t
from analysis.stats.paired_tests import estimate_over_both

p_values = st.lists(st.floats(1e-12, 1), min_size=1, max_size=12)
thousandths = st.lists(st.one_of(st.none(), st.integers(1, 60), st.integers(1, 1000)), min_size=1, max_size=6)
"""p-values in thousandths, with ties; None where a comparison was not made."""
few = settings(max_examples=25, deadline=None)


def bonferroni(p: list[Fraction]) -> list[Fraction]:
    """Each is multiplied by their number."""
    return [min(Fraction(1), len(p) * own) for own in p]


def holm(p: list[Fraction]) -> list[Fraction]:
    """Closed testing: a hypothesis falls if every set of hypotheses that it belongs to falls by Bonferroni's test."""
    everyone = range(len(p))
    sets = [own for size in everyone for own in itertools.combinations(everyone, size + 1)]
    passed = {own: min(Fraction(1), len(own) * min(p[k] for k in own)) for own in sets}
    return [max(level for own, level in passed.items() if place in own) for place in everyone]


def benjamini_hochberg(p: list[Fraction]) -> list[Fraction]:
    """The lowest of all levels at which the step-up procedure rejects a hypothesis; 1 where there is none below."""

    def rejected(level: Fraction) -> set[int]:
        steps = [k for k in range(1, len(p) + 1) if sorted(p)[k - 1] <= level * k / len(p)]
        return {place for place, own in enumerate(p) if steps and own <= sorted(p)[max(steps) - 1]}

    levels = sorted({min(Fraction(1), own * len(p) / k) for own in p for k in range(1, len(p) + 1)})
    return [next(level for level in levels if place in rejected(level)) for place in range(len(p))]


@pytest.mark.parametrize(("name", "oracle"), [("bonferroni", bonferroni), ("holm", holm), ("bh", benjamini_hochberg)])
@given(p=thousandths)
@settings(max_examples=40)
def test_corrections_are_what_their_papers_define(
    name: str, oracle: Callable[[list[Fraction]], list[Fraction]], p: list[int | None]
) -> None:
    """A comparison that was not made counts as if its p were 1."""
    raised = oracle([Fraction(1000 if value is None else value, 1000) for value in p])
    expected = [None if value is None else pytest.approx(float(new)) for value, new in zip(p, raised, strict=True)]
    assert adjust_p_values([None if value is None else value / 1000 for value in p], name) == expected
    assert set(FROM_P) == {"bonferroni", "holm", "bh"}


@given(p=p_values)
@settings(max_examples=8)
def test_corrections_are_those_of_statsmodels_to_the_last_bit(p: list[float]) -> None:
    for name, other in (("bonferroni", "bonferroni"), ("holm", "holm"), ("bh", "fdr_bh")):
        assert adjust_p_values(p, name) == multipletests(p, method=other)[1].tolist()


def test_bonferroni_and_holm_by_hand() -> None:
    p = [0.01, 0.04, 0.03]
    assert adjust_p_values(p, "bonferroni") == pytest.approx([0.03, 0.12, 0.09])
    assert adjust_p_values(p, "holm") == pytest.approx([0.03, 0.06, 0.06])
    assert adjust_p_values(p, "bh") == pytest.approx([0.03, 0.04, 0.04])


@pytest.mark.parametrize("name", FROM_P)
def test_a_family_of_none_has_nothing_to_correct(name: str) -> None:
    assert adjust_p_values([], name) == []


@given(p=p_values)
@few
def test_no_correction_makes_a_p_value_smaller_and_holm_is_never_stricter_than_bonferroni(p: list[float]) -> None:
    raised = {name: np.array(adjust_p_values(p, name), dtype=float) for name in FROM_P}
    assert all((values >= np.array(p) - 1e-15).all() for values in raised.values())
    assert (raised["bh"] <= raised["holm"] + 1e-15).all()
    assert (raised["holm"] <= raised["bonferroni"] + 1e-15).all()


def test_unknown_correction_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown correction 'none'"):
        adjust_p_values([0.1], "none")


def t_values(units: np.ndarray) -> np.ndarray:
    return np.array([abs(stats.ttest_1samp(row, 0).statistic) for row in units])


def test_max_t_of_few_is_every_permutation() -> None:
    units = np.random.default_rng(1).normal(0.3, 1, (3, 6))
    maxima = sorted(t_values(units * signs).max() for signs in itertools.product((-1.0, 1.0), repeat=6))
    found = max_t(units)
    assert found.exact
    np.testing.assert_allclose(found.maxima, maxima, rtol=1e-9)
    own = [stats.ttest_1samp(row, 0) for row in units]
    expected = [np.mean([maximum >= abs(one.statistic) - 1e-9 for maximum in maxima]) for one in own]
    raw = [one.pvalue for one in own]
    assert found.adjust(raw) == pytest.approx(np.maximum(expected, raw))
    assert found.smallest_p == 2 / 2**6


def test_max_t_of_many_is_drawn_by_name() -> None:
    units = np.random.default_rng(2).normal(0, 1, (4, 60))
    one, again, other = (
        max_t(units, permutations=500),
        max_t(units, permutations=500),
        max_t(units, permutations=500, seed=1),
    )
    assert not one.exact
    np.testing.assert_array_equal(one.maxima, again.maxima)
    assert (one.maxima != other.maxima).any()
    assert one.smallest_p == 1 / 501
    for _ in range(5):
        signs = np.where(np.random.default_rng(3).random(60) < 0.5, -1.0, 1.0)
        assert max_t(units * signs, permutations=500).adjust([0.01]) == pytest.approx(one.adjust([0.01]), abs=0.05)


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many permutations fit into memory at once, they come from the same distribution."""
    units = np.random.default_rng(4).normal(0, 1, (2, 50))
    whole = max_t(units, permutations=4000)
    monkeypatch.setattr("analysis.stats.multiple_testing._BLOCK", 5000)
    assert stats.ks_2samp(whole.maxima, max_t(units, permutations=4000).maxima).pvalue > 0.001


def test_a_family_of_one_is_corrected_for_nothing() -> None:
    units = np.random.default_rng(5).normal(0.1, 1, (1, 300))
    p = stats.ttest_1samp(units[0], 0).pvalue
    assert max_t(units).adjust([p, None]) == [pytest.approx(p, abs=0.02), None]
    assert max_t(units).per_comparison_level(0.05) == pytest.approx(0.05, abs=0.01)


def test_equal_comparisons_cost_no_more_than_one_and_unrelated_ones_what_bonferroni_takes() -> None:
    row = np.random.default_rng(6).normal(0, 1, (1, 400))
    alike, apart = max_t(np.repeat(row, 5, axis=0)), max_t(np.random.default_rng(7).normal(0, 1, (5, 400)))
    assert alike.per_comparison_level(0.05) == pytest.approx(max_t(row).per_comparison_level(0.05), rel=1e-9)
    assert apart.per_comparison_level(0.05) == pytest.approx(0.05 / 5, rel=0.15)


def reached(maxima: np.ndarray, t: float, exact: bool) -> Fraction:
    """The corrected p-value of a |t| by counting permutations: the data is one of them, drawn or not."""
    as_large = sum(bool(one >= t * (1 - 1e-9)) for one in maxima)
    return Fraction(max(as_large, 2), len(maxima)) if exact else Fraction(as_large + 1, len(maxima) + 1)


@st.composite
def permutations_of(draw: st.DrawFn) -> MaxT:
    """Maxima of all permutations, in pairs of mirror images, or of some drawn ones; with ties and without."""
    exact, df = draw(st.booleans()), draw(st.integers(1, 40))
    count = 2 ** draw(st.integers(1, 7)) if exact else draw(st.integers(1, 130))
    rng = np.random.default_rng(draw(st.integers(0, 9999)))
    maxima = np.abs(rng.standard_t(30, count // 2 if exact else count)) + 0.1
    if draw(st.booleans()):
        maxima = np.ceil(2 * maxima) / 2
    return MaxT(np.sort(np.repeat(maxima, 2) if exact else maxima), df, exact)


@settings(max_examples=300)
@given(found=permutations_of(), t=st.floats(0.05, 6))
def test_a_corrected_p_value_is_the_share_of_permutations_that_reach_it(found: MaxT, t: float) -> None:
    for own in (t, *found.maxima[:: max(1, len(found.maxima) // 5)]):
        p = float(2 * stats.t.sf(own, found.df))
        assert found.adjust([None, p]) == [None, pytest.approx(max(p, float(reached(found.maxima, own, found.exact))))]
    assert found.smallest_p == pytest.approx(float(reached(found.maxima, math.inf, found.exact)))


@settings(max_examples=300)
@given(found=permutations_of(), share=st.sampled_from([0.01, 0.05, 0.1, 0.25, 0.5, None]), steps=st.integers(1, 8))
def test_the_interval_of_a_family_holds_zero_where_its_p_value_is_above_the_level(
    found: MaxT, share: float | None, steps: int
) -> None:
    """Of a comparison just short of each maximum, and just beyond it; also at levels that are reached exactly."""
    own = 0 if found.exact else 1
    alpha = share or min(0.75, steps * (2 - own) / (len(found.maxima) + own))
    level = found.per_comparison_level(alpha)
    if level == 0:
        assert reached(found.maxima, math.inf, found.exact) > Fraction(alpha)
        return
    assert level <= alpha
    beside = np.outer([0.05, *found.maxima], [1 - 1e-6, 1 + 1e-6]).ravel()
    p = 2 * stats.t.sf(beside, found.df)
    for value, adjusted in zip(p, found.adjust(list(p)), strict=True):
        assert adjusted is not None
        assert (value < level) == (adjusted <= alpha), (value, level, adjusted)


def test_all_permutations_are_made_where_there_are_as_many_as_may_be() -> None:
    units = np.random.default_rng(13).normal(0, 1, (2, 6))
    for permutations, exact in ((63, False), (64, True), (65, True)):
        assert max_t(units, permutations=permutations).exact == exact


def test_families_with_a_false_finding_are_no_more_than_the_level_says() -> None:
    """Six systems and a baseline, 3 seeds, 200 queries; everything varies; nothing differs. Headline: both."""
    rng, wrong, families = np.random.default_rng(9), dict.fromkeys(CORRECTIONS, 0), 250
    for _ in range(families):
        scores = rng.normal(0, 0.006, (7, 3, 1)) + rng.normal(0, 0.05, (7, 1, 200)) + rng.normal(0, 0.12, (7, 3, 200))
        pairs = scores[1:] - scores[0]
        found = [estimate_over_both(d) for d in pairs]
        raw = [one.test().p for one in found]
        if min(raw) >= 0.05:  # no correction finds what is not there uncorrected
            continue
        permuted = max_t(pairs.mean(axis=1), [1 - one.share for one in found], permutations=400)
        for name in CORRECTIONS:
            adjusted = permuted.adjust(raw) if name == "maxt" else adjust_p_values(raw, name)
            wrong[name] += min(value for value in adjusted if value is not None) < 0.05
    noise = 2 * math.sqrt(0.05 * 0.95 / families)
    assert all(count / families <= 0.05 + noise for count in wrong.values()), wrong
    assert wrong["bonferroni"] > 0


@pytest.mark.parametrize(("seeds", "deviation"), [(5, 0.05), (10, 0.05), (5, 0.02)])
def test_what_queries_share_is_not_taken_for_what_seeds_share(seeds: int, deviation: float) -> None:
    """Six systems against an order without seeds: on queries they differ from it alike, in their seeds they do not."""
    rng, wrong, families = np.random.default_rng(10), 0, 150
    for _ in range(families):
        shared = rng.normal(0, 0.3, 300)
        pairs = rng.normal(0, deviation, (6, seeds, 1)) + shared + rng.normal(0, 0.05, (6, seeds, 300))
        found = [estimate_over_both(d) for d in pairs]
        raw = [one.test().p for one in found]
        if min(raw) < 0.05:
            permuted = max_t(pairs.mean(axis=1), [1 - one.share for one in found], permutations=400)
            wrong += min(value for value in permuted.adjust(raw) if value is not None) < 0.05
    assert wrong / families <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / families)


def test_no_p_value_is_below_the_raw_one_nor_an_interval_where_the_level_is_out_of_reach() -> None:
    """Eight permutations of three units, in pairs of mirror images: a share of them is a multiple of a quarter."""
    found = max_t(np.random.default_rng(11).normal(0, 1, (2, 3)))
    assert found.smallest_p == 2 / 2**3
    assert found.adjust([1e-9, None]) == [0.25, None]
    between = float(2 * stats.t.sf(found.maxima[1], found.df)) - 0.01  # above three quarters, reached by as many
    assert between > 0.75
    assert found.adjust([between]) == [between]
    assert found.per_comparison_level(0.05) == 0.0
    assert found.per_comparison_level(0.5) <= 0.5


def test_a_comparison_that_was_not_made_counts_for_max_t_as_well() -> None:
    units = np.random.default_rng(12).normal(0, 1, (1, 200))
    alone, two_missing = max_t(units).per_comparison_level(0.05), max_t(units, missing=2).per_comparison_level(0.05)
    assert two_missing == pytest.approx(alone / 3, rel=0.15)
