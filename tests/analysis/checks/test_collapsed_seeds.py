"""The warning about a seed that looks collapsed: in a report, in a comparison of scores and in their data."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.checks.collapsed_seeds import find_outlying_seeds
from analysis.compare import compare, format_result
from analysis.rendering.sections import list_folds
from analysis.stats.comparison import ComparisonSettings
from tests.analysis.builders import PLAN, Made, get_comparison, report_of, scores, study_runs


def _collapse(run: Made) -> Made:
    """T-LS with seed 3 ranks as if its relevant documents were the worst."""
    broken = (run.variant, run.seed) == ("T-LS", 3)
    return replace(run, scores={**run.scores, "test": scores("test", 60, -9.0, 1)}) if broken else run


def test_the_report_names_it_once_and_writes_it_down(tmp_path: Path) -> None:
    runs = [_collapse(run) for run in study_runs((1, 2, 3, 4, 5), grid=False)]
    report = report_of(tmp_path, runs, seeds=[1, 2, 3, 4, 5])
    (seed,) = report.analysis.outlying_seeds
    assert (seed.system, seed.seed, seed.metric, seed.mean, seed.is_worse) == ("T-LS", 3, "R10@1", 0.0, True)
    warning = "T-LS seed 3 looks collapsed: R10@1 0.0000, its other seeds "
    for name in ("report.html", "table.md"):
        assert (tmp_path / "report" / name).read_text().count(warning) == 1
    assert " ".join(report.text.split()).count(warning) == 1
    named = {(c.system, c.baseline) for c in report.analysis.comparisons if c.outlying_seeds}
    assert named == {("T-LS", "BERT"), ("T-WSLS", "T-LS")}
    assert get_comparison(report.analysis, "T-LS", "BERT").as_dict()["outlying_seeds"] == [
        {"system": "T-LS", "seed": 3, "looks_collapsed": True}
    ]


def test_a_report_without_one_says_nothing(tmp_path: Path) -> None:
    report = report_of(tmp_path, study_runs(grid=False))
    assert report.analysis.outlying_seeds == []
    assert not any("collapsed" in (tmp_path / "report" / name).read_text() for name in ("report.html", "table.md"))
    assert all(c.as_dict()["outlying_seeds"] == () for c in report.analysis.comparisons)


def _table(gain: float) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    rows = [
        (name, seed, query, 0.5 + rng.normal(0, 0.05) + gain * ((name, seed) == ("B", "s2")))
        for name in "ABCD"
        for seed in ("s1", "s2", "s3", "s4")
        for query in range(30)
    ]
    return pd.DataFrame(rows, columns=["system", "seed", "query", "value"])


def test_compared_scores_have_it_in_the_direction_that_is_bad() -> None:
    told = format_result(compare(_table(-0.3), ["A"]))
    assert "B seed s2 looks collapsed: 0." in told
    assert "collapsed" not in format_result(compare(_table(0.0), ["A"]))
    assert "B seed s2 is far better than the system's other seeds" in format_result(compare(_table(0.3), ["A"]))
    errors = ComparisonSettings(less_is_better=True)
    assert "B seed s2 looks collapsed: 0." in format_result(compare(_table(0.3), ["A"], errors))
    without_queries = _table(-0.3).groupby(["system", "seed"], as_index=False)["value"].mean()
    assert "B seed s2 looks collapsed: 0." in format_result(compare(without_queries, ["A"]))


def test_a_metric_for_which_lower_is_better_collapses_upwards() -> None:
    rng = np.random.default_rng(3)
    values = {name: 0.2 + rng.normal(0, 0.01, (4, 1)) for name in "ABCD"}
    values["B"][3] += 0.7
    for metric, is_worse in (("MAP", False), ("position", True)):
        (run,) = find_outlying_seeds(values, [1, 2, 3, 4], metric)
        assert (run.system, run.seed, run.is_worse) == ("B", 4, is_worse)


def test_copies_and_systems_without_seeds_take_no_part() -> None:
    rng = np.random.default_rng(2)
    values = {name: 0.5 + rng.normal(0, 0.01, (4, 1)) for name in "ABC"}
    values["B"][1] -= 0.4
    expected = find_outlying_seeds(values, [1, 2, 3, 4])
    assert [(run.system, run.seed) for run in expected] == [("B", 2)]
    others = {"BM25": np.array([[0.1]]), "copies": np.full((4, 1), 0.9)}
    assert find_outlying_seeds(values | others, [1, 2, 3, 4]) == expected


def test_the_report_says_how_probable_a_fresh_bad_seed_is(tmp_path: Path) -> None:
    """One of five seeds of T-LS collapses; bounds of the probability solve the binomial equations."""
    runs = [_collapse(run) for run in study_runs((1, 2, 3, 4, 5), grid=False)]
    report = report_of(tmp_path, runs, seeds=[1, 2, 3, 4, 5])
    (section,) = (own for fold in list_folds(report.analysis) for own in fold.sections if "collapsed" in own.title)
    values = {run.seed: _compute_recall(run) for run in runs if run.variant == "T-LS"}
    (bar,) = (_compute_recall(run) for run in runs if run.variant == "BM25")
    worse = sum(value < bar for value in values.values())
    assert worse == 1
    low, high = float(stats.beta.ppf(0.025, worse, 5)), float(stats.beta.ppf(0.975, worse + 1, 4))
    assert stats.binom.sf(worse - 1, 5, low) == pytest.approx(0.025)
    assert stats.binom.cdf(worse, 5, high) == pytest.approx(0.025)
    worst, second, median = sorted(values.values())[:3]
    tenth = worst + 0.4 * (second - worst)
    cells = [f"{worst:.4f}", f"{tenth:.4f}", f"{median:.4f}", "1 of 5", f"0.20 [{low:.2f}, {high:.2f}]"]
    assert section.rows == [["T-LS", *cells]]
    assert section.header[-2:] == ["worse than BM25", "fresh seed"]
    assert f"BM25 ({bar:.4f})" in section.legend


def test_without_a_reference_ranking_the_bar_is_the_untrained_model(tmp_path: Path) -> None:
    runs = [_collapse(run) for run in study_runs((1, 2, 3, 4, 5), grid=False) if run.variant != "BM25"]
    families = [PLAN["families"][0], {**PLAN["families"][1], "comparisons": [["BERT", "untrained"]]}]
    report = report_of(tmp_path, runs, seeds=[1, 2, 3, 4, 5], families=families)
    (section,) = (own for fold in list_folds(report.analysis) for own in fold.sections if "collapsed" in own.title)
    assert section.header[-2] == "worse than untrained"


def _compute_recall(run: Made) -> float:
    """R10@1 of a run; the relevant document is the first of ten."""
    values = run.scores["test"]["score"].to_numpy().reshape(-1, 10)
    return float((values.argmax(axis=1) == 0).mean())
