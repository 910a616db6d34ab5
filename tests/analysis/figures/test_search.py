"""What the figures of a search show of it."""

from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from analysis.figures import search as search_figures
from analysis.figures import smoothing as smoothing_figures
from analysis.readers.results import read_records
from analysis.tables.main import ReportData, build_report_data
from tests.analysis.builders import write_records
from tests.analysis.searching import Searched, searched

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def made() -> Searched:
    return searched(
        objectives=("R10@1", "ECE"), dropped=(4, 6), failed=(8,), proposals=36, seeds=(1, 2), queries=(30, 10)
    )


@pytest.fixture(scope="module")
def analysis(made: Searched, tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    folder = tmp_path_factory.mktemp("figures")
    write_records(folder, made.plan, made.runs, made.search)
    return build_report_data(read_records(folder))


def _collections(axis: Any, kind: str) -> list[Any]:
    return [item for item in axis.collections if type(item).__name__ == kind]


def test_every_complete_configuration_has_its_line(made: Searched, analysis: ReportData) -> None:
    axis = search_figures.parallel_coordinates(analysis).axes[0]
    lost, lines = _collections(axis, "LineCollection")
    states = [proposal["state"] for proposal in made.systems["T-LS"]["proposals"]]
    assert len(lines.get_segments()) == states.count("complete") == 33
    assert len(lost.get_segments()) == states.count("dropped") == 2
    scores = [segment[-1][1] for segment in lines.get_segments()]
    assert scores == sorted(scores)
    assert (min(scores), max(scores)) == (0.0, 1.0)
    assert axis.get_title("right") == "1 not complete, left out"
    for x, name in enumerate(made.systems["T-LS"]["grid"]):
        several = sorted({str(p["values"].get(name)) for p in made.systems["T-LS"]["proposals"]})
        bands = {int(segment[x][1] * len(several)) for segment in lines.get_segments()}
        assert bands <= set(range(len(several)))


def test_the_front_is_joined_and_the_chosen_one_ringed(made: Searched, analysis: ReportData) -> None:
    figure = search_figures.pareto_front(analysis)
    for axis, name in zip(figure.axes, ("LS", "T-LS"), strict=True):
        system = made.systems[name]
        objectives = {p["configuration_id"]: (p["objectives"]["ECE"], p["objectives"]["R10@1"])
                      for p in system["proposals"]}  # fmt: skip
        line, ring = axis.lines
        assert list(zip(*line.get_data(), strict=True)) == sorted(objectives[key] for key in system["front"])
        assert tuple(value[0] for value in ring.get_data()) == objectives[system["winner"]]


def test_one_objective_has_no_front(analysis: ReportData) -> None:
    plan = analysis.results.plan.model_copy(update={"objectives": ("R10@1",)})
    results = type(analysis.results)(plan, "0", analysis.results.runs, analysis.results.search)
    assert search_figures.pareto_front(build_report_data(results)) is None


def test_a_surface_needs_points(analysis: ReportData, tmp_path: Path) -> None:
    def surfaces(of: ReportData) -> int:
        return len(_collections(smoothing_figures.plot_contour(of).axes[0], "TriContourSet"))

    assert surfaces(analysis) == 2
    few = searched(proposals=3, queries=(10, 10))
    write_records(tmp_path, few.plan, few.runs, few.search)
    assert surfaces(build_report_data(read_records(tmp_path))) == 0


def test_the_chosen_one_has_its_interval_where_lines_have_none(analysis: ReportData) -> None:
    figure = smoothing_figures.plot_strength_sensitivity(analysis)
    chosen = analysis.chosen["T-LS"]
    assert chosen is not None
    values = chosen.evaluate_queries(analysis.results.plan, "search")
    assert values is not None
    low, high = stats.t.interval(0.95, 1, values.mean(), stats.sem(values.mean(axis=1)))
    bars = [c for c in figure.axes[1].containers if c.has_yerr and c.lines[0].get_marker() == "None"]
    ((bar,),) = [container.lines[2] for container in bars]
    assert [end for _, end in bar.get_segments()[0]] == pytest.approx([low, high])


def test_bars_are_the_importances(analysis: ReportData) -> None:
    (axis,) = search_figures.importance(analysis).axes
    rows = [row for row in analysis.importances if row.system == "T-LS"]
    assert [bar.get_width() for bar in axis.patches] == [share for row in rows for share in row.shares.values()]


def test_a_study_without_a_search_has_none_of_them(analysis: ReportData) -> None:
    results = type(analysis.results)(analysis.results.plan, "0", analysis.results.runs)
    silent = build_report_data(results)
    assert search_figures.parallel_coordinates(silent) is None
    assert search_figures.importance(silent) is None
    assert search_figures.pareto_front(silent) is None
