"""Verdicts without the worst seeds: what is removed, that the rest is compared as ever, and what is said of it."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.checks.worst_seeds import describe_sensitivity
from analysis.compare import compare
from analysis.rendering.cells import format_verdict
from analysis.stats.comparison import Comparison, ComparisonSettings


def _table(values: dict[str, np.ndarray], seeds: list[Any]) -> pd.DataFrame:
    rows = [
        (name, seed, query, own[row, query])
        for name, own in values.items()
        for row, seed in enumerate(seeds if len(own) > 1 else [None])
        for query in range(own.shape[1])
    ]
    return pd.DataFrame(rows, columns=["system", "seed", "query", "value"])


def _draw(seeds: int = 6, queries: int = 80) -> dict[str, np.ndarray]:
    """T-LS is better, except that one of its runs collapsed."""
    rng = np.random.default_rng(2)
    by_query = rng.normal(0.5, 0.1, queries)
    gains = {"BERT": 0.0, "LS": 0.0, "T-LS": 0.08}
    values = {
        name: by_query + gain + rng.normal(0, 0.005, (seeds, 1)) + rng.normal(0, 0.05, (seeds, queries))
        for name, gain in gains.items()
    }
    values["T-LS"][4] -= 0.5
    values["BERT"][1] -= 0.02
    values["LS"][1] -= 0.03
    return values


@pytest.mark.parametrize("correction", ["bonferroni", "holm"])
def test_it_is_the_comparison_of_the_table_without_these_seeds(correction: str) -> None:
    """T-LS loses two seeds, LS one, as it is the worst of both sides. The oracle: `compare` on what is left."""
    values, seeds, how = _draw(), list(range(11, 17)), ComparisonSettings(correction=correction)
    ls, t_ls = (c.without_worst_seeds for c in compare(_table(values, seeds), ["BERT"], how).comparisons)
    assert (ls.removed, ls.seeds_left, t_ls.removed, t_ls.seeds_left) == ([12], 5, [12, 15], 4)
    own = {name: np.delete(values[name], [1, 4], axis=0) for name in values}
    alone = compare(_table(own, [11, 13, 14, 16]), ["BERT"], how).comparisons[1]
    p = alone.targets["both"].p
    if correction == "bonferroni":
        assert t_ls.p == pytest.approx(2 * p)
    assert p <= t_ls.p <= 2 * p + 0.01
    assert (t_ls.verdict, ls.verdict) == ("better", "undecided")


def test_what_changes_is_said_beside_the_verdict_and_what_stays_is_counted() -> None:
    compared = compare(_table(_draw(), list(range(11, 17))), ["BERT"]).comparisons
    assert [format_verdict(c) for c in compared] == ["undecided", "undecided; better without seeds 12 and 15"]
    said = describe_sensitivity(compared)
    assert said.startswith("Without the worst seed of each side, 1 of 2 verdicts stay the same. This is a sensitivity")
    assert compared[1].as_dict()["without_worst_seeds"] == {
        "verdict": "better",
        "p": compared[1].without_worst_seeds.p,
        "removed": [12, 15],
        "seeds_left": 4,
    }


def test_less_is_better_removes_the_largest() -> None:
    values = {name: 1 - own for name, own in _draw().items()}
    how = ComparisonSettings(less_is_better=True)
    found = [c.without_worst_seeds for c in compare(_table(values, list(range(6))), ["BERT"], how).comparisons]
    assert [check.removed for check in found if check] == [[1], [1, 4]]


def test_fewer_than_five_seeds_are_not_compared_again() -> None:
    for seeds in (4, 5):
        values = {name: own[:seeds] for name, own in _draw().items()}
        compared = compare(_table(values, list(range(seeds))), ["BERT"]).comparisons
        assert [c.without_worst_seeds is None for c in compared] == [seeds < 5] * 2
        assert (describe_sensitivity(compared) == "") == (seeds < 5)


def test_a_system_without_seeds_has_no_worst_one() -> None:
    values = _draw()
    values["BM25"] = values["BERT"][:1] - 0.1
    compared = compare(_table(values, list(range(6))), ["BM25"]).comparisons
    assert [c.without_worst_seeds.removed for c in compared if c.without_worst_seeds] == [[1], [1], [4]]


def test_without_seeds_that_differ_nothing_is_said() -> None:
    def check(comparisons: list[Comparison]) -> None:
        assert [c.without_worst_seeds for c in comparisons] == [None] * len(comparisons)
        assert describe_sensitivity(comparisons) == ""

    values = _draw()
    check(compare(_table({name: own[:1] for name, own in values.items()}, [1]), ["BERT"]).comparisons)
    copies = {name: np.repeat(own[:1], 5, axis=0) for name, own in values.items()}
    check(compare(_table(copies, [1, 2, 3, 4, 5]), ["BERT"]).comparisons)
