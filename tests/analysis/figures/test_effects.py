"""The figure of the comparisons shows each difference, its interval and its verdict, not by colour alone."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from analysis.figures import effects
from analysis.tables.main import ReportData
from tests.analysis.builders import analyse, study_runs

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    return analyse(tmp_path_factory.mktemp("effects"), study_runs(grid=False))


def _drawn(axis: Any) -> list[tuple[float, tuple[float, float], str]]:
    """Return difference, interval and marker of each comparison, from above."""
    bars = [line for line in axis.lines if line.get_marker() == "|"]
    points = [line for line in axis.lines if len(line.get_xdata()) == 1]
    return [
        (float(point.get_xdata()[0]), tuple(map(float, bar.get_xdata())), point.get_marker())
        for point, bar in zip(points, bars, strict=True)
    ]


def test_differences_and_intervals_are_those_of_the_comparisons(analysis: ReportData) -> None:
    figure = effects.plot_effects(analysis)
    marker = {"better": "^", "worse": "v", "undecided": "o", "equivalent": "s"}
    (axis,), own = figure.axes, [c for c in analysis.comparisons if c.family == "variants"]
    assert _drawn(axis) == [(c.difference, c.interval, marker[c.verdict]) for c in own]
    labels = [label.get_text().replace("\N{MINUS SIGN}", "-") for label in axis.get_yticklabels()]
    assert labels == [f"{c.system} - {c.baseline}" for c in own]
    assert [text.get_text() for text in axis.texts] == [c.verdict for c in own]
    zero = [line for line in axis.lines if list(line.get_xdata()) == [0, 0]]
    assert len(zero) == 1


def test_one_baseline_is_named_below_the_axis(analysis: ReportData) -> None:
    own = [c for c in analysis.comparisons if c.baseline == "BERT"]
    (axis,) = effects.plot_effects(replace(analysis, comparisons=own)).axes
    assert [label.get_text() for label in axis.get_yticklabels()] == [c.system for c in own]
    assert axis.get_xlabel() == "difference from BERT in test R10@1 (higher is better)"


def test_comparisons_stand_with_those_of_their_baseline(analysis: ReportData) -> None:
    places = list(effects.plot_effects(analysis).axes[0].get_yticks())
    gaps = [after - before for before, after in pairwise(places)]
    assert gaps[:3] == [1.0] * 3
    assert gaps[3] > 1.0


def test_every_verdict_has_its_own_marker_and_name(analysis: ReportData) -> None:
    verdicts = ["better", "worse", "equivalent", "undecided"]
    made = [replace(c, verdict=v) for c, v in zip(analysis.comparisons, verdicts * 2, strict=False)]
    figure = effects.plot_effects(replace(analysis, comparisons=made))
    markers = {marker for axis in figure.axes for *_, marker in _drawn(axis)}
    assert markers == {"^", "v", "s", "o"}
    assert {text.get_text() for axis in figure.axes for text in axis.texts} == {*verdicts}


def test_an_incomplete_comparison_keeps_its_place(tmp_path: Path) -> None:
    made = [run for run in study_runs(seeds=(1, 2), grid=False) if (run.variant, run.seed) != ("LS", 2)]
    axis = effects.plot_effects(analyse(tmp_path, made, seeds=[1, 2])).axes[0]
    assert len(axis.get_yticks()) == 5
    assert axis.texts[0].get_text() == "incomplete"
    assert len(_drawn(axis)) == 4


def test_without_a_complete_comparison_there_is_no_figure(analysis: ReportData) -> None:
    empty = [replace(c, difference=None, interval=None) for c in analysis.comparisons]
    assert effects.plot_effects(replace(analysis, comparisons=empty)) is None
