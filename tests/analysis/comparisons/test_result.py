"""A result as a data frame has what its comparisons have, and its short description is short."""

from typing import Any

import pandas as pd
import pytest

from analysis.compare import compare
from analysis.stats.comparison import ComparisonSettings
from tests.analysis.test_compare import made


def look_up(values: Any, path: list[str]) -> Any:
    """The value at a path of keys; None where an object on the way is None."""
    return values if not path or values is None else look_up(values[path[0]], path[1:])


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
    for row, c in zip(table.to_dict("records"), result.comparisons, strict=True):
        expected = {**c.as_dict(), "p": c.p, "p_corrected": c.adjusted[settings.correction]}
        expected |= dict(zip(("low", "high"), c.interval or (None, None), strict=True))
        assert {name.split(".")[0] for name in row} | {"distribution_free"} == {*expected, "distribution_free"}
        for name, value in row.items():
            there, is_missing = look_up(expected, name.split(".")), value is None or value != value
            assert is_missing if there is None or isinstance(there, dict) else value == there


def test_the_description_has_a_line_for_each_comparison() -> None:
    result = compare(made(), ["BERT"])
    header, *lines = repr(result).splitlines()
    assert header.split() == ["system", "baseline", "difference", "low", "high", "p_corrected", "verdict"]
    assert [line.split()[:2] for line in lines] == [["LS", "BERT"], ["T-LS", "BERT"]]
    assert f"{result.comparisons[1].difference:.4f}" in lines[1]
    assert repr(compare(made(seeds=1, queries=200), ["BERT"])).endswith("better (these runs)")
