"""The simulation of sequential confirmation: it decides as the product does, and it sees what it should."""

import numpy as np
import pytest

from analysis.stats.comparison import ComparisonFamily, ComparisonSettings
from analysis.stats.interim_tests import combine_interim_tests, compare_at_interim_test, get_alpha_shares
from benchmarks.statistics.sequential import ALPHA, COMPARISONS, NOISES, compute_unit, draw_differences, run_families
from benchmarks.statistics.simulation import Squares, estimate_here, rejections

LOOKS = (3, 6, 9)


def test_it_decides_as_the_product() -> None:
    rng, settings = np.random.default_rng(5), ComparisonSettings(alpha=ALPHA)
    shares, found = get_alpha_shares(LOOKS), 0
    for d in draw_differences(NOISES[1], 0.03, LOOKS[-1], 6, rng):
        families = [
            ComparisonFamily("f", "toy", "MAP", [(f"S{at}", "B", one[:seeds]) for at, one in enumerate(d)])
            for seeds in LOOKS
        ]
        by_look = [compare_at_interim_test(family, at, LOOKS, settings) for at, family in enumerate(families)]
        decided = [c.verdict == "better" for c in combine_interim_tests(by_look, LOOKS, settings)]
        levels = [share * ALPHA / COMPARISONS for share in shares]
        own = [
            rejections(estimate_here, Squares.from_differences(d[:, :seeds]), level)
            for seeds, level in zip(LOOKS, levels, strict=True)
        ]
        assert decided == np.any(own, axis=0).tolist()
        found += sum(decided)
    assert 0 < found < 6 * COMPARISONS


def test_large_differences_save_seeds_and_none_do_not() -> None:
    noise, shares = NOISES[1], get_alpha_shares(LOOKS)
    unit = compute_unit(noise, LOOKS[-1])
    equal, large = (run_families(noise, gain, LOOKS, shares, 200) for gain in (0.0, 4 * unit))
    assert equal.seeds == 1
    assert equal.any_rejected < 0.1
    assert large.rejected == 1
    assert large.seeds < 2 / 3


def test_the_product_spends_the_power_one_and_a_half() -> None:
    spent = np.divide(LOOKS, LOOKS[-1]) ** 1.5
    assert get_alpha_shares(LOOKS) == pytest.approx(np.diff([0.0, *spent]).tolist())
