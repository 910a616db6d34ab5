"""Corrections: statsmodels, all permutations by plain loops, and the share of families with a false finding."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from analysis.multiplicity import CORRECTIONS, FROM_P, MaxT, adjust, max_t
from analysis.significance import over_both

p_values = st.lists(st.floats(1e-12, 1), min_size=1, max_size=12)
few = settings(max_examples=25, deadline=None)


@pytest.mark.parametrize("name", FROM_P)
@given(p=p_values)
@few
def test_corrections_are_statsmodels(name: str, p: list[float]) -> None:
    assert adjust(p, name) == pytest.approx(multipletests(p, method=FROM_P[name])[1], abs=1e-10)


def test_bonferroni_and_holm_by_hand() -> None:
    p = [0.01, 0.04, 0.03]
    assert adjust(p, "bonferroni") == pytest.approx([0.03, 0.12, 0.09])
    assert adjust(p, "holm") == pytest.approx([0.03, 0.06, 0.06])
    assert adjust(p, "bh") == pytest.approx([0.03, 0.04, 0.04])


@pytest.mark.parametrize("name", FROM_P)
def test_a_comparison_that_was_not_made_counts(name: str) -> None:
    with_gap = adjust([0.01, None, 0.02], name)
    oracle = multipletests([0.01, 1.0, 0.02], method=FROM_P[name])[1]
    assert with_gap == [pytest.approx(oracle[0]), None, pytest.approx(oracle[2])]
    assert adjust([], name) == []


@given(p=p_values)
@few
def test_no_correction_makes_a_p_value_smaller_and_holm_is_never_stricter_than_bonferroni(p: list[float]) -> None:
    raised = {name: np.array(adjust(p, name), dtype=float) for name in FROM_P}
    assert all((values >= np.array(p) - 1e-15).all() for values in raised.values())
    assert (raised["bh"] <= raised["holm"] + 1e-15).all()
    assert (raised["holm"] <= raised["bonferroni"] + 1e-15).all()


def test_unknown_correction_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown correction 'none'"):
        adjust([0.1], "none")


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
    assert found.smallest == 2 / 2**6


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
    assert one.smallest == 1 / 501
    for _ in range(5):
        signs = np.where(np.random.default_rng(3).random(60) < 0.5, -1.0, 1.0)
        assert max_t(units * signs, permutations=500).adjust([0.01]) == pytest.approx(one.adjust([0.01]), abs=0.05)


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many permutations fit into memory at once, they come from the same distribution."""
    units = np.random.default_rng(4).normal(0, 1, (2, 50))
    whole = max_t(units, permutations=4000)
    monkeypatch.setattr("analysis.multiplicity._BLOCK", 5000)
    assert stats.ks_2samp(whole.maxima, max_t(units, permutations=4000).maxima).pvalue > 0.001


def test_a_family_of_one_is_corrected_for_nothing() -> None:
    units = np.random.default_rng(5).normal(0.1, 1, (1, 300))
    p = stats.ttest_1samp(units[0], 0).pvalue
    assert max_t(units).adjust([p, None]) == [pytest.approx(p, abs=0.02), None]
    assert max_t(units).level(0.05) == pytest.approx(0.05, abs=0.01)


def test_equal_comparisons_cost_no_more_than_one_and_unrelated_ones_what_bonferroni_takes() -> None:
    row = np.random.default_rng(6).normal(0, 1, (1, 400))
    alike, apart = max_t(np.repeat(row, 5, axis=0)), max_t(np.random.default_rng(7).normal(0, 1, (5, 400)))
    assert alike.level(0.05) == pytest.approx(max_t(row).level(0.05), rel=1e-9)
    assert apart.level(0.05) == pytest.approx(0.05 / 5, rel=0.15)


@given(alpha=st.floats(0.01, 0.5))
@settings(max_examples=20)
def test_level_and_p_value_agree(alpha: float) -> None:
    found = MaxT(np.sort(np.abs(np.random.default_rng(8).standard_t(30, 999))), 30, exact=False)
    level = found.level(alpha)
    assert found.adjust([level * 0.999]) <= [alpha + 2e-3]
    assert found.adjust([level * 1.001]) >= [alpha - 2e-3]


def test_families_with_a_false_finding_are_no_more_than_the_level_says() -> None:
    """Six systems and a baseline, 3 seeds, 200 queries; everything varies; nothing differs. Headline: both."""
    rng, wrong, families = np.random.default_rng(9), dict.fromkeys(CORRECTIONS, 0), 250
    for _ in range(families):
        scores = rng.normal(0, 0.006, (7, 3, 1)) + rng.normal(0, 0.05, (7, 1, 200)) + rng.normal(0, 0.12, (7, 3, 200))
        pairs = scores[1:] - scores[0]
        found = [over_both(d) for d in pairs]
        raw = [one.test().p for one in found]
        if min(raw) >= 0.05:  # no correction finds what is not there uncorrected
            continue
        permuted = max_t(pairs.mean(axis=1), [1 - one.share for one in found], permutations=400)
        for name in CORRECTIONS:
            adjusted = permuted.adjust(raw) if name == "maxt" else adjust(raw, name)
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
        found = [over_both(d) for d in pairs]
        raw = [one.test().p for one in found]
        if min(raw) < 0.05:
            permuted = max_t(pairs.mean(axis=1), [1 - one.share for one in found], permutations=400)
            wrong += min(value for value in permuted.adjust(raw) if value is not None) < 0.05
    assert wrong / families <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / families)


def test_no_p_value_is_below_the_raw_one_nor_an_interval_where_the_level_is_out_of_reach() -> None:
    """Eight permutations of three units, in pairs of mirror images: a share of them is a multiple of a quarter."""
    found = max_t(np.random.default_rng(11).normal(0, 1, (2, 3)))
    assert found.smallest == 2 / 2**3
    assert found.adjust([1e-9, None]) == [0.25, None]
    between = float(2 * stats.t.sf(found.maxima[1], found.df)) - 0.01  # above three quarters, reached by as many
    assert between > 0.75
    assert found.adjust([between]) == [between]
    assert found.level(0.05) == 0.0
    assert found.level(0.5) <= 0.5


def test_a_comparison_that_was_not_made_counts_for_max_t_as_well() -> None:
    units = np.random.default_rng(12).normal(0, 1, (1, 200))
    alone, two_missing = max_t(units).level(0.05), max_t(units, missing=2).level(0.05)
    assert two_missing == pytest.approx(alone / 3, rel=0.15)
