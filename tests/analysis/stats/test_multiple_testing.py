"""Corrections: their definitions, and the share of families with a false finding."""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from analysis.stats.multiple_testing import CORRECTIONS, adjust_p_values
from analysis.stats.paired_tests import estimate_over_both

p_values = st.lists(st.floats(1e-12, 1), min_size=1, max_size=12)
thousandths = st.lists(st.one_of(st.none(), st.integers(1, 60), st.integers(1, 1000)), min_size=1, max_size=6)
"""p-values in thousandths, with ties; None where a comparison was not made."""


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
def test_corrections_are_what_their_papers_define(
    name: str, oracle: Callable[[list[Fraction]], list[Fraction]], p: list[int | None]
) -> None:
    """A comparison that was not made counts as if its p were 1."""
    raised = oracle([Fraction(1000 if value is None else value, 1000) for value in p])
    expected = [None if value is None else pytest.approx(float(new)) for value, new in zip(p, raised, strict=True)]
    assert adjust_p_values([None if value is None else value / 1000 for value in p], name) == expected
    assert set(CORRECTIONS) == {"bonferroni", "holm", "bh"}


@given(p=p_values)
@settings.get_profile("costly")
def test_corrections_are_those_of_statsmodels_to_the_last_bit(p: list[float]) -> None:
    for name, other in (("bonferroni", "bonferroni"), ("holm", "holm"), ("bh", "fdr_bh")):
        assert adjust_p_values(p, name) == multipletests(p, method=other)[1].tolist()


@pytest.mark.parametrize("name", CORRECTIONS)
def test_a_family_of_none_has_nothing_to_correct(name: str) -> None:
    assert adjust_p_values([], name) == []


@given(p=p_values)
def test_no_correction_makes_a_p_value_smaller_and_holm_is_never_stricter_than_bonferroni(p: list[float]) -> None:
    raised = {name: np.array(adjust_p_values(p, name), dtype=float) for name in CORRECTIONS}
    assert all((values >= np.array(p) - 1e-15).all() for values in raised.values())
    assert (raised["bh"] <= raised["holm"] + 1e-15).all()
    assert (raised["holm"] <= raised["bonferroni"] + 1e-15).all()


def test_unknown_correction_is_an_error() -> None:
    with pytest.raises(ValueError, match="unknown correction 'none'"):
        adjust_p_values([0.1], "none")


def test_families_with_a_false_finding_are_no_more_than_the_level_says() -> None:
    """Six systems and a baseline, 3 seeds, 200 queries; everything varies; nothing differs. Headline: both."""
    rng, wrong, families = np.random.default_rng(9), dict.fromkeys(CORRECTIONS, 0), 250
    for _ in range(families):
        scores = rng.normal(0, 0.006, (7, 3, 1)) + rng.normal(0, 0.05, (7, 1, 200)) + rng.normal(0, 0.12, (7, 3, 200))
        pairs = scores[1:] - scores[0]
        raw = [estimate_over_both(d).test().p for d in pairs]
        if min(raw) >= 0.05:  # no correction finds what is not there uncorrected
            continue
        for name in CORRECTIONS:
            wrong[name] += min(value for value in adjust_p_values(raw, name) if value is not None) < 0.05
    noise = 2 * math.sqrt(0.05 * 0.95 / families)
    assert all(count / families <= 0.05 + noise for count in wrong.values()), wrong
    assert wrong["bonferroni"] > 0
