"""The bootstrap of a difference of rank correlations: against loops over scipy, and what its draws have in common."""

import numpy as np
import pytest
from scipy import stats

from analysis.stats.bootstrap import difference, resample_correlations
from trainables.metrics import spearman_pseudo_values
from trainables.utils.random import make_generator


def runs(count: int = 4, pairs: int = 80, decimals: int = 9, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(runs, pairs) scores of one quality, with ties where they have few decimals, and (pairs,) grades."""
    rng = np.random.default_rng(seed)
    grades = np.round(rng.uniform(0, 25, pairs)) / 5
    noise = rng.normal(0, 0.8, pairs) + rng.normal(0, 0.4, (count, pairs))
    return np.round(grades / 3 + noise, decimals), grades


def one_list(scores: np.ndarray, grades: np.ndarray, seed: int = 0, draws: int = 300) -> np.ndarray:
    """(runs, draws) of pairs that all differ and are one list."""
    places = np.arange(len(grades))
    return resample_correlations(scores, grades, places, [places], seed, draws)[0]


@pytest.mark.parametrize("decimals", [9, 0])
def test_correlations_are_scipys_of_the_drawn_pairs(decimals: int) -> None:
    """Of two lists; twenty pairs of the second are pairs of the first, and five are there twice."""
    scores, grades = runs(decimals=decimals)
    lists = [np.arange(50), np.arange(50, 80)]
    units = np.concatenate([np.arange(50), np.arange(20), np.arange(50, 55), np.arange(50, 55)])
    found = resample_correlations(scores, grades, units, lists, seed=5, draws=50)
    drawn = make_generator(5, "bootstrap, pairs", 0).integers(0, 55, (50, 55))
    assert found.shape == (2, 4, 50)
    for own, correlations in zip(lists, found, strict=True):
        rows = [np.concatenate([own[units[own] == unit] for unit in one]) for one in drawn]
        expected = [[stats.spearmanr(run[row], grades[row]).statistic for row in rows] for run in scores]
        np.testing.assert_allclose(correlations, expected, atol=1e-12)


def test_scores_without_spread_have_correlation_zero() -> None:
    assert not one_list(np.ones((1, 30)), np.arange(30.0), draws=20).any()


def test_the_same_pairs_are_drawn_for_every_run_and_every_list() -> None:
    scores, grades = runs()
    together = one_list(scores, grades)
    np.testing.assert_array_equal(together[2], one_list(scores[2:3], grades)[0])
    np.testing.assert_array_equal(
        resample_correlations(scores, grades, np.arange(80), [np.arange(80)] * 2, draws=300)[1], together
    )
    assert (together != one_list(scores, grades, seed=1)).any(axis=0).mean() > 0.99
    assert np.corrcoef(together)[0, 1] > 0.5


def test_draws_beyond_a_block_are_new_ones() -> None:
    scores, grades = runs(1, 3000)
    (found,) = one_list(scores, grades, draws=200)  # 87 at once
    assert len(np.unique(found)) == 200


def test_a_pair_in_both_lists_counts_once() -> None:
    """The mean of a list and itself varies as the list does, not as two lists of other pairs do."""
    scores, grades = runs(1, 400)
    twice = np.tile(scores, 2), np.tile(grades, 2)
    lists = [np.arange(400), np.arange(400, 800)]
    same = resample_correlations(*twice, np.tile(np.arange(400), 2), lists, draws=2000).mean(axis=0).std()
    other = resample_correlations(*twice, np.arange(800), lists, draws=2000).mean(axis=0).std()
    assert same == pytest.approx(one_list(scores, grades, draws=2000).std())
    assert same / other == pytest.approx(2**0.5, rel=0.08)


@pytest.mark.parametrize("seeds", [1, 4])
def test_intervals_are_those_of_scipy(seeds: int) -> None:
    """With one seed pairs alone are resampled; with more, seeds that are alike add nothing."""
    scores, grades = runs(2, 150)
    first, second = one_list(scores, grades, draws=4000)[:, None, :]
    found = difference(np.repeat(first, seeds, axis=0), np.repeat(second, seeds, axis=0), 0.9)
    oracle = stats.bootstrap(
        (*scores, grades),
        lambda x, y, gold: stats.spearmanr(x, gold).statistic - stats.spearmanr(y, gold).statistic,
        paired=True, vectorized=False, n_resamples=4000, method="percentile", confidence_level=0.9,
        rng=np.random.default_rng(3),
    )  # fmt: skip
    width = oracle.confidence_interval.high - oracle.confidence_interval.low
    assert found.low == pytest.approx(oracle.confidence_interval.low, abs=0.08 * width)
    assert found.high == pytest.approx(oracle.confidence_interval.high, abs=0.08 * width)


def test_seeds_are_resampled_too() -> None:
    """Of three seeds that differ and pairs that do not, the mean of the drawn ones: a third of their variance."""
    d = np.repeat([[-1.0], [0.0], [1.0]], 20_000, axis=1)
    found = difference(d, np.zeros((1, 20_000)), 0.5)
    assert (found.low, found.high) == pytest.approx((-1 / 3, 1 / 3))
    assert found.p == 1.0
    shifted = difference(d + 0.9, np.zeros((1, 20_000)))
    assert shifted.p == pytest.approx(2 / 27, abs=0.01)
    assert shifted.low < 0 < shifted.high


def test_p_and_interval_agree_and_p_is_never_zero() -> None:
    scores, grades = runs(6, 200)
    scores[3:] += grades * 0.3
    drawn = one_list(scores, grades, draws=999)
    sure = difference(drawn[3:], drawn[:3])
    assert sure.p == 0.002
    assert sure.low > 0
    alike = difference(drawn[:3], drawn[:3])
    assert alike == (1.0, 0.0, 0.0)
    flipped = difference(drawn[:3], drawn[3:])
    assert (flipped.p, flipped.low, flipped.high) == pytest.approx((sure.p, -sure.high, -sure.low))


def test_its_spread_is_that_of_the_pseudo_values() -> None:
    scores, grades = runs(2, 1500)
    first, second = one_list(scores, grades, draws=3000)
    d = spearman_pseudo_values(scores[0], grades) - spearman_pseudo_values(scores[1], grades)
    assert (first - second).std() == pytest.approx(d.std() / np.sqrt(1500), rel=0.06)
