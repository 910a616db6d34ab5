"""A result as a data frame has what its comparisons have, and is shown as its table."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.compare import compare, format_result
from analysis.stats.comparison import ComparisonSettings
from analysis.stats.two_way import two_way_anova, two_way_estimate
from analysis.stats.variance_components import estimate_variance_components
from analysis.tables.frames import build_systems_frame
from tests.analysis.builders import analyse, study_runs
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
        del expected["interval"]
        assert {name.split(".")[0] for name in row} | {"distribution_free"} == {*expected, "distribution_free"}
        for name, value in row.items():
            there, is_missing = look_up(expected, name.split(".")), value is None or value != value
            assert is_missing if there is None or isinstance(there, dict) else value == there


def test_a_result_is_shown_as_its_table() -> None:
    result = compare(made(), ["BERT"])
    assert repr(result) == format_result(result)
    assert f"| {result.comparisons[1].difference:+.4f} |" in result._repr_markdown_()
    assert "better (these runs)" in repr(compare(made(seeds=1, queries=200), ["BERT"]))


def test_the_frame_of_systems_has_the_scores_of_the_main_table(tmp_path: Path) -> None:
    analysis = analyse(tmp_path, [run for run in study_runs() if (run.variant, run.seed) != ("LS", 2)])
    frame = build_systems_frame(analysis)
    assert frame["system"].tolist() == [row.system for row in analysis.table.rows]
    for own, row in zip(frame.to_dict("records"), analysis.table.rows, strict=True):
        dev, test = (score or (None, None) for score in (row.dev, row.test))
        values = {"dev_mean": dev[0], "dev_sd": dev[1], "test_mean": test[0], "test_sd": test[1]}
        values |= dict(zip(("test_low", "test_high"), row.interval or (None, None), strict=True))
        for name, value in values.items():
            assert own[name] == value if value is not None else np.isnan(own[name])
        if row.interval:
            assert own["test_low"] < own["test_mean"] < own["test_high"]
    assert {row.system for row in analysis.table.rows if row.interval is None} >= {"LS"}


def test_a_larger_study_is_planned_by_the_test_scores_of_the_headline_with_all_seeds(tmp_path: Path) -> None:
    runs = study_runs(grid=False)
    pairs = [["T-LS", "BERT"], ["WSLS", "BERT"]]
    families = [{"name": "variants", "comparisons": pairs}, {"name": "sanity", "comparisons": [["BERT", "BM25"]]}]
    analysis = analyse(tmp_path, runs, families=families)
    values = [
        analysis.chosen[name].evaluate_queries(analysis.results.plan, "test") for name in ("T-LS", "BERT", "WSLS")
    ]
    expected, found = estimate_variance_components(values), analysis.variance
    for name in ("seed", "query", "rest"):
        assert getattr(found.to_difference_variance(), name) == pytest.approx(
            getattr(expected.to_difference_variance(), name)
        )
    assert (analysis.table.seeds, analysis.table.queries) == values[0].shape


def test_systems_have_the_interval_of_their_own_mean() -> None:
    frame = made()
    for row in compare(frame, ["BERT"]).systems().itertuples():
        values = frame[frame["system"] == row.system].pivot(index="seed", columns="query", values="value").to_numpy()
        expected = two_way_estimate(two_way_anova(values)).confidence_interval()
        assert (row.mean_low, row.mean_high) == pytest.approx(expected)
        assert (row.mean, row.sd) == pytest.approx((values.mean(), values.mean(axis=1).std(ddof=1)))
    alone = made(seeds=1)
    for row in compare(alone, ["BERT"]).systems().itertuples():
        values = alone[alone["system"] == row.system]["value"]
        expected = stats.t.interval(0.95, len(values) - 1, values.mean(), stats.sem(values))
        assert (row.mean_low, row.mean_high) == pytest.approx(expected)
        assert np.isnan(row.sd)
