"""The figures of a study with one system for each value of a hyperparameter."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from analysis.figures import compared_values, smoothing
from analysis.tables.main import ReportData
from tests.analysis.builders import Made, analyse, scores, study_runs

pytest.importorskip("matplotlib")
VALUES = (0.1, 0.2, 0.4)


@pytest.fixture
def analysis(tmp_path: Path) -> ReportData:
    runs = [run for run in study_runs(grid=False) if run.variant in ("BERT", "BM25", "untrained")]
    for number, (variant, value) in enumerate((name, value) for name in ("LS", "WSLS") for value in VALUES):
        runs += [Made(f"{variant}-{value}", seed, 1.2 + number / 9, value, tested=True) for seed in (1, 2, 3)]
    for run in runs:
        key = int(run.id[:8], 16)
        run.scores = {split: scores(split, count, run.quality, key) for split, count in (("dev", 40), ("test", 60))}
    names = [f"{variant}-{value}" for variant in ("LS", "WSLS") for value in VALUES]
    systems = {name: {"variant": name.split("-")[0], "value": float(name.split("-")[1])} for name in names}
    return analyse(
        tmp_path,
        runs,
        systems=["BERT", *names],
        families=[{"name": "variants", "comparisons": [[name, "BERT"] for name in names]}],
        compared={"hyperparameter": "epsilon", "systems": systems},
    )


def test_a_variant_is_a_line_through_the_test_scores_of_its_values(analysis: ReportData) -> None:
    (axis,) = compared_values.plot_compared_values(analysis).axes
    assert [container.get_label() for container in axis.containers] == ["LS", "WSLS"]
    for variant, container in zip(("LS", "WSLS"), axis.containers, strict=True):
        line, _, (bars,) = container
        chosen = [analysis.chosen[f"{variant}-{value}"] for value in VALUES]
        tested = [c.evaluate_queries(analysis.results.plan, "test") for c in chosen if c]
        seeds = np.array([values.mean(axis=1) for values in tested if values is not None])
        assert line.get_xdata() == pytest.approx(VALUES)
        assert line.get_ydata() == pytest.approx(seeds.mean(axis=1))
        low, high = np.array([segment[:, 1] for segment in bars.get_segments()]).T
        expected = [stats.t.interval(0.95, 2, row.mean(), stats.sem(row)) for row in seeds]
        assert np.column_stack([low, high]) == pytest.approx(np.array(expected))
    assert axis.get_xlabel() == "ε"


def test_the_values_of_a_variant_share_a_panel_of_the_strength(analysis: ReportData) -> None:
    figure = smoothing.plot_strength_sensitivity(analysis)
    assert [axis.get_title() for axis in figure.axes] == ["LS", "WSLS"]
    for axis in figure.axes:
        assert axis.containers[0][0].get_xdata() == pytest.approx(VALUES)
        rings = [line for line in axis.lines if line.get_markerfacecolor() == "none"]
        assert sorted(float(ring.get_xdata()[0]) for ring in rings) == pytest.approx(VALUES)


def test_without_compared_values_there_is_no_such_figure(analysis: ReportData) -> None:
    plan = analysis.results.plan.model_copy(update={"compared": None})
    assert compared_values.plot_compared_values(replace(analysis, results=replace(analysis.results, plan=plan))) is None
