"""A race drops no more of those that are as good as the best than its level says, and does drop the bad."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from benchmarks.race import race
from study.scheduling.racing import FIRST_ROUND_SEEDS, LEVEL, count_interim_tests, is_worse

SEEDS, QUERIES = 5, 200


def runs(rng: np.random.Generator, truth: list[float], seed_spread: float) -> np.ndarray:
    """(configurations, seeds, queries): what the seed does to a configuration, and what each query does to a run."""
    size = len(truth)
    noise = rng.normal(0, seed_spread, (size, SEEDS, 1)) + rng.normal(0, 0.12, (size, SEEDS, QUERIES))
    found: np.ndarray = np.array(truth)[:, None, None] + noise + rng.normal(0, 0.05, (1, SEEDS, 1))
    return found


@pytest.mark.parametrize("seed_spread", [0.0, 0.006, 0.01])
def test_of_equals_no_larger_share_is_dropped_than_the_level(seed_spread):
    """Six equal configurations, 100 races with fixed draws; benchmarks/race.py measures it with many more."""
    rng = np.random.default_rng(7)
    share = np.mean([len(race(runs(rng, [0.5] * 6, seed_spread))) / 6 for _ in range(100)])
    assert share <= LEVEL


def test_what_is_far_behind_is_dropped_at_the_first_look():
    rng = np.random.default_rng(3)
    for _ in range(10):
        dropped = race(runs(rng, [0.5, 0.3, 0.3], 0.006))
        assert dropped == {"1": FIRST_ROUND_SEEDS, "2": FIRST_ROUND_SEEDS}


@given(st.integers(0, 10_000), st.integers(2, 20))
def test_nobody_is_behind_one_that_is_no_better(seed, rivals):
    values = runs(np.random.default_rng(seed), [0.5, 0.5], 0.01)
    better, worse = sorted((values[0, :3], values[1, :3]), key=lambda one: -float(one.mean()))
    assert not is_worse(better, worse, SEEDS, rivals)
    assert not is_worse(better, better, SEEDS, rivals)


@given(
    seed=st.integers(0, 10_000),
    seeds=st.integers(4, 10),
    got=st.integers(3, 9),
    rivals=st.integers(0, 20),
    odds=st.sampled_from([0.3, 0.6, 0.95, 1.05, 1.7, 5.0]),
)
def test_behind_is_a_one_sided_test_at_the_level_of_each_look_at_each_rival(seed, seeds, got, rivals, odds):
    """A configuration is put so far behind that its p-value is `odds` times what a look at a rival may have."""
    rng, got = np.random.default_rng(seed), min(got, seeds - 1)
    noise = rng.normal(0, 0.1, (got, 1)) + rng.normal(0, 0.2, (got, 30)) + rng.normal(0, 0.1, 30)
    noise -= noise.mean()
    rows, columns = noise.mean(axis=1), noise.mean(axis=0)
    rest = ((noise - rows[:, None] - columns) ** 2).sum() / ((got - 1) * 29)
    squares = {got - 1: 30 * (rows**2).sum() / (got - 1), 29: got * (columns**2).sum() / 29}
    total = max(sum(squares.values()) - rest, rest)
    df = total**2 / (sum(ms**2 / own for own, ms in squares.items()) + rest**2 / ((got - 1) * 29))
    allowed = LEVEL / ((seeds - FIRST_ROUND_SEEDS) * max(1, rivals))
    gap = stats.t.isf(odds * allowed, df) * np.sqrt(total / noise.size)
    best = rng.random((got, 30))
    assert is_worse(best + noise - gap, best, seeds, rivals) == (odds < 1)


def test_more_looks_and_more_rivals_ask_for_more_evidence():
    values = runs(np.random.default_rng(1), [0.5, 0.46], 0.0)
    worse, better = values[1, :3], values[0, :3]
    decided = [[is_worse(worse, better, seeds, rivals) for rivals in (1, 10, 10**9)] for seeds in (4, 5, 100)]
    assert decided[0][0]
    assert not decided[2][2]
    assert all(row == sorted(row, reverse=True) for row in decided)
    assert count_interim_tests(FIRST_ROUND_SEEDS) == 0
