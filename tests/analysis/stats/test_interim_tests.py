"""Looks of a sequential study: shares of alpha, p-values and intervals over the looks, and the level they keep."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.stats.comparison import Comparison, ComparisonFamily, ComparisonSettings, compare_family
from analysis.stats.interim_tests import combine_interim_tests, compare_at_interim_test, get_alpha_shares
from analysis.stats.multiple_testing import CORRECTIONS

LOOKS = st.lists(st.integers(1, 9), min_size=1, max_size=5).map(lambda steps: tuple((1 + np.cumsum(steps)).tolist()))


def combine(d: list[np.ndarray], looks: tuple[int, ...], taken: int, **more: object) -> list[Comparison]:
    """The family of these (seeds, queries) differences after some looks."""
    own = ComparisonSettings(**more)
    families = [
        ComparisonFamily("f", "toy", "MAP", [(f"S{at}", "B", values[:seeds]) for at, values in enumerate(d)])
        for seeds in looks[:taken]
    ]
    return combine_interim_tests(
        [compare_at_interim_test(f, at, looks, own) for at, f in enumerate(families)], looks, own
    )


@given(LOOKS)
def test_the_looks_share_alpha(looks: tuple[int, ...]) -> None:
    shares = get_alpha_shares(looks)
    assert len(shares) == len(looks)
    assert min(shares) > 0
    assert sum(shares) == pytest.approx(1)


def test_one_look_is_the_comparison_without_looks() -> None:
    d = [np.random.default_rng(3).normal(0.02, 0.1, (6, 50)) for _ in range(3)]
    family = ComparisonFamily("f", "toy", "MAP", [(f"S{at}", "B", values) for at, values in enumerate(d)])
    for own, plain in zip(combine(d, (6,), 1), compare_family(family, ComparisonSettings()), strict=True):
        assert own.as_dict() | {"looks": None} == plain.as_dict() | {"looks": None}


@given(st.integers(0, 10**6), st.integers(1, 3), st.floats(0, 0.1), st.sampled_from(CORRECTIONS))
def test_interval_p_and_verdict_tell_the_same_over_the_looks(
    seed: int, taken: int, gain: float, correction: str
) -> None:
    rng = np.random.default_rng(seed)
    d = [rng.normal(gain * at, 0.1, (9, 1)) + rng.normal(0, 0.3, (9, 40)) for at in range(3)]
    for c in combine(d, (3, 6, 9), taken, correction=correction):
        adjusted, p = c.adjusted[correction], min(look.p / look.share for look in c.looks)
        assert adjusted >= min(1, p) * (1 - 1e-12)
        assert (adjusted < 0.05) == (c.verdict in ("better", "worse"))
        if correction == "bonferroni":
            assert (c.interval[0] > 0 or c.interval[1] < 0) == (adjusted < 0.05)
            assert adjusted == pytest.approx(min(1, 3 * p))


def test_a_comparison_stays_decided() -> None:
    """Large at the first look, nothing later: better, with the sign of the look that decided."""
    rng = np.random.default_rng(0)
    values = rng.normal(0, 0.02, (12, 60)) + np.repeat([0.5, -0.4, -0.4], 4)[:, None] * 0.2
    first, last = combine([values], (4, 8, 12), 1)[0], combine([values], (4, 8, 12), 3)[0]
    assert last.difference < 0
    assert first.verdict == last.verdict == "better"
    assert last.looks[:1] == first.looks


def test_a_missing_side_is_not_compared_and_still_counts() -> None:
    d = np.random.default_rng(0).normal(0.3, 0.1, (4, 30))
    family = ComparisonFamily("f", "toy", "MAP", [("A", "B", d), ("C", "B", None)])
    own = ComparisonSettings()
    first, second = combine_interim_tests([compare_at_interim_test(family, 0, (4, 8), own)], (4, 8), own)
    assert (second.verdict, second.looks, second.interval) == ("not compared", (), None)
    assert first.adjusted["bonferroni"] == pytest.approx(2 * first.looks[0].p / first.looks[0].share)


def test_the_level_is_kept_over_the_looks() -> None:
    """4,000 studies of seeds alone; testing at every look at the full level would reject .10 of them."""
    rng, looks, reached, naive = np.random.default_rng(11), (4, 8, 12), 0, 0
    x = rng.normal(size=(4000, 12))
    smallest, any_full = np.ones(len(x)), np.zeros(len(x), dtype=bool)
    for seeds, share in zip(looks, get_alpha_shares(looks), strict=True):
        p = stats.ttest_1samp(x[:, :seeds], 0, axis=1).pvalue
        smallest, any_full = np.minimum(smallest, p / share), any_full | (p < 0.05)
    reached, naive = (smallest < 0.05).mean(), any_full.mean()
    assert reached < 0.05
    assert naive > 0.08


def test_interval_and_equivalence_are_over_all_looks() -> None:
    """Looks that disagree: the interval is what they have in common, the equivalence is by the clearest look."""
    rng = np.random.default_rng(4)
    values = rng.normal(0, 0.03, (12, 60)) + np.repeat([0.02, -0.02, 0.03], 4)[:, None]
    (c,) = combine([values], (4, 8, 12), 3, margin=0.06)
    ends = [look.interval for look in c.looks if look.interval]
    assert c.interval == (max(low for low, _ in ends), min(high for _, high in ends))
    assert c.interval not in ends, "the looks agree"
    own = ComparisonSettings(margin=0.06)
    alike = [
        compare_family(ComparisonFamily("f", "toy", "MAP", [("S0", "B", values[:seeds])]), own)[0].equivalence_p
        for seeds in (4, 8, 12)
    ]
    shares = get_alpha_shares((4, 8, 12))
    assert c.equivalence_p == pytest.approx(min(1, *(p / share for p, share in zip(alike, shares, strict=True) if p)))
