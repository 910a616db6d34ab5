"""Rank intervals and groups: published letters, the definition by brute force, and simultaneous coverage."""

from itertools import combinations
from typing import Literal

import numpy as np
import pandas as pd
import pytest

from analysis.checks.ranks import _compare_pairs, _name_group, assign_letters, compute_rank_intervals, rank_systems
from analysis.compare import compare, format_result
from analysis.stats.comparison import ComparisonSettings


def _matrix(count: int, different: list[tuple[int, int]]) -> np.ndarray:
    found = np.zeros((count, count), dtype=bool)
    for first, second in different:
        found[first, second] = found[second, first] = True
    return found


@pytest.mark.parametrize(("different", "expected"), [
    ([(1, 2)], ["ab", "a", "b"]),  # the example `dif3` in the documentation of R's multcompView
    ([], ["a", "a", "a"]),
    ([(0, 1), (0, 2), (1, 2)], ["a", "b", "c"]),
    ([(0, 2)], ["a", "ab", "b"]),
])  # fmt: skip
def test_letters_of_three_systems(different: list[tuple[int, int]], expected: list[str]) -> None:
    assert assign_letters(_matrix(3, different)) == expected


@pytest.mark.parametrize("seed", range(30))
def test_letters_are_the_largest_groups_without_a_difference(seed: int) -> None:
    """The oracle tries all sets of systems: one letter for each that has no difference and cannot grow."""
    rng, count = np.random.default_rng(seed), 6
    chance = rng.choice([0.2, 0.5, 0.8])
    different = _matrix(count, [pair for pair in combinations(range(count), 2) if rng.random() < chance])
    alike = [
        frozenset(own)
        for size in range(1, count + 1)
        for own in combinations(range(count), size)
        if not different[np.ix_(own, own)].any()
    ]
    largest = {own for own in alike if not any(own < other for other in alike)}
    letters = assign_letters(different)
    groups = {letter: frozenset(n for n in range(count) if letter in letters[n]) for letter in "".join(letters)}
    assert set(groups.values()) == largest
    assert len(groups) == len(largest)
    for first, second in combinations(range(count), 2):
        assert bool(set(letters[first]) & set(letters[second])) != different[first, second]


def test_groups_beyond_the_alphabet_have_names_of_their_own() -> None:
    names = [_name_group(index) for index in range(200)]
    assert len(set(names)) == 200
    assert (names[0], names[51:53]) == ("a", ["Z", "a1"])


def test_a_rank_counts_who_is_surely_better_and_who_is_surely_worse() -> None:
    better = np.zeros((4, 4), dtype=bool)
    better[0, 2] = better[0, 3] = better[1, 3] = True
    assert compute_rank_intervals(better) == ([1, 1, 2, 3], [2, 3, 4, 4])


def _draw(
    rng: np.random.Generator, gains: dict[str, float], seeds: int = 4, queries: int = 60
) -> dict[str, np.ndarray]:
    by_query = rng.normal(0.5, 0.2, queries)
    return {
        name: by_query + gain + rng.normal(0, 0.02, queries) + rng.normal(0, 0.01, (seeds, 1))
        + rng.normal(0, 0.05, (seeds, queries))
        for name, gain in gains.items()
    }  # fmt: skip


def test_all_true_ranks_are_in_their_intervals_at_once() -> None:
    """Two systems are equal, so each may have rank 2 or 3; one study in twenty may be wrong."""
    gains, rng = {"A": 0.06, "B": 0.03, "C": 0.03, "D": 0.0}, np.random.default_rng(11)
    true = {name: (1 + sum(g > own for g in gains.values()), sum(g >= own for g in gains.values()))
            for name, own in gains.items()}  # fmt: skip
    studies, right, sharp = 80, 0, 0
    for _ in range(studies):
        found = rank_systems(_draw(rng, gains), ComparisonSettings())
        right += all(own.best <= true[own.system][0] and true[own.system][1] <= own.worst for own in found)
        sharp += any((own.best, own.worst) != (1, 4) for own in found)
    assert right >= 0.95 * studies - 2 * (studies * 0.95 * 0.05) ** 0.5
    assert sharp > studies / 2


def test_systems_without_seeds_take_part_and_less_may_be_better() -> None:
    values = _draw(np.random.default_rng(3), {"BERT": 0.3, "LS": 0.3, "T-LS": 0.31})
    values["BM25"] = values["BERT"][:1] - 0.3
    found = rank_systems(values, ComparisonSettings())
    assert [(own.system, own.best, own.worst, own.letters) for own in found][-1] == ("BM25", 4, 4, "b")
    assert {own.letters for own in found[:3]} == {"a"}
    turned = rank_systems(values, ComparisonSettings(less_is_better=True))
    assert [own.system for own in turned] == [own.system for own in reversed(found)]
    assert (turned[0].system, turned[0].best, turned[0].worst) == ("BM25", 1, 1)


def test_fewer_than_three_systems_are_not_ranked() -> None:
    assert rank_systems(_draw(np.random.default_rng(4), {"A": 0.0, "B": 1.0}), ComparisonSettings()) == []


def test_compared_scores_have_groups_without_the_incomplete_and_the_same_verdicts() -> None:
    values = _draw(np.random.default_rng(5), {"BERT": 0.0, "LS": 0.0, "T-LS": 0.1})
    rows = [(n, s, q, v[s, q]) for n, v in values.items() for s in range(4) for q in range(60)]
    table = pd.DataFrame(rows, columns=["system", "seed", "query", "value"])
    result = compare(table, ["BERT"])
    assert (result.ranks[0].system, result.ranks[0].letters) == ("T-LS", "a")
    told = format_result(result, with_groups=True)
    assert "Ranks:" not in format_result(result)
    assert "all 3 pairs of these systems, declared or not" in told
    assert [c.comparisons for c in result.comparisons] == [2, 2]
    lacking = compare(table[~((table["system"] == "LS") & (table["seed"] == 1))], ["BERT"])
    assert lacking.ranks == []
    assert "Ranks:" not in format_result(lacking, with_groups=True)


@pytest.mark.parametrize("seeds", ["own", "pooled"])
def test_groups_pool_seeds_where_the_comparisons_do(seeds: Literal["own", "pooled"]) -> None:
    values = _draw(np.random.default_rng(6), {"A": 0.0, "B": 0.01, "C": 0.02}, seeds=3)
    pairs = _compare_pairs(values, list(values), ComparisonSettings(seeds=seeds))
    assert [c.pooled is not None for c in pairs] == [seeds == "pooled"] * 3
