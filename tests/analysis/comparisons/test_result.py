"""A result as a data frame has what its comparisons have, and its short description is short."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.compare import compare
from analysis.stats.comparison import ComparisonSettings
from tests.analysis.test_compare import made


def nest(row: dict[str, Any]) -> dict[str, Any]:
    """The nested values of a row; what has only missing values is None."""
    nested: dict[str, Any] = {}
    for name, value in row.items():
        *path, key = name.split(".")
        inner = nested
        for part in path:
            inner = inner.setdefault(part, {})
        inner[key] = None if isinstance(value, float) and np.isnan(value) else value
    nested["interval"] = (nested["low"], nested["high"])
    for place, keys in (
        (nested, ("interval", "wins_ties_losses", "without_worst_seeds")),
        (nested["targets"], ("both", "queries", "seeds")),
    ):
        for key in keys:
            own = place[key]
            values = own.values() if isinstance(own, dict) else own
            place[key] = None if all(value is None for value in values) else own
    return nested


@pytest.mark.parametrize(
    ("frame", "settings"),
    [
        (made(), ComparisonSettings(margin=0.05, tests=("sign-flip",))),
        (made(), ComparisonSettings(seeds="pooled")),
        (made(seeds=1), ComparisonSettings()),
        (made().query("system != 'LS' or seed != 2"), ComparisonSettings()),
        (made(queries=1), ComparisonSettings()),
    ],
)
def test_the_frame_has_the_content_of_the_comparisons(frame: pd.DataFrame, settings: ComparisonSettings) -> None:
    result = compare(frame, ["BERT"], settings)
    table = result.frame()
    assert len(table) == len(result.comparisons)
    assert not [name for name in table if isinstance(table[name].iloc[0], dict)]
    for (_, row), comparison in zip(table.iterrows(), result.comparisons, strict=True):
        expected = comparison.as_dict()
        found = {"distribution_free": {}} | nest(row.to_dict())
        assert {key: found[key] for key in expected} == expected
        assert found["p"] == comparison.p
        assert found["p_corrected"] == comparison.adjusted[settings.correction]


def test_columns_are_the_same_whatever_is_missing() -> None:
    """A study that is appended to another one needs no new columns, but for free tests and pooled seeds."""
    columns = [list(compare(frame, ["BERT"]).frame()) for frame in (made(), made(seeds=1), made(queries=1))]
    assert columns[0] == columns[1] == columns[2]
    assert {
        "adjusted.holm",
        "targets.both.p",
        "low",
        "p_corrected",
        "wins_ties_losses.wins",
        "without_worst_seeds.p",
    } <= {*columns[0]}


def describe(frame: pd.DataFrame, **settings: Any) -> str:
    return repr(compare(frame, ["BERT"], ComparisonSettings(**settings)))


def test_the_description_is_a_few_lines() -> None:
    result = compare(made(), ["BERT"])
    first, *lines = repr(result).splitlines()
    assert first == "3 systems, 4 seeds, 60 queries; 2 comparisons at 0.05, bonferroni"
    assert [line.split(":")[0] for line in lines] == ["LS over BERT", "T-LS over BERT"]
    assert [line.rpartition(", ")[2] for line in lines] == ["undecided", "better"]
    c = result.comparisons[1]
    assert f"{c.difference:+.4f} [{c.interval[0]:+.4f}, {c.interval[1]:+.4f}], corrected p" in lines[1]


def test_the_description_says_what_a_verdict_is_limited_to_and_what_is_missing() -> None:
    assert describe(made(seeds=1, queries=200)).endswith("better (these runs)")
    assert "LS over BERT: not compared" in describe(made().query("system != 'LS' or seed != 2"))
    assert describe(made(seeds=1)).startswith("3 systems, 1 seed, 60 queries; ")


def test_many_comparisons_are_counted() -> None:
    frame = pd.concat([made().assign(system=made()["system"] + str(number)) for number in range(3)])
    result = compare(frame)
    lines = repr(result).splitlines()
    assert len(lines) == 12
    assert lines[-1] == "and 26 more"
