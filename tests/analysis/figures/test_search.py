"""The figures of a search show its rounds, configurations and seeds."""

import warnings
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from analysis import figures
from analysis.figures import smoothing as smoothing_figures
from analysis.readers.study_reader import read_records
from analysis.tables.main import ReportData, build_report_data
from tests.analysis.builders import write_records
from tests.analysis.searching import Searched, searched

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def made() -> Searched:
    return searched(dropped=(4, 6), failed=(8,), proposals=36, seeds=(1, 2), queries=(30, 10))


@pytest.fixture(scope="module")
def analysis(made: Searched, tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    folder = tmp_path_factory.mktemp("figures")
    write_records(folder, made.plan, made.runs, made.search)
    return build_report_data(read_records(folder))


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_figures_leave_no_trace_in_matplotlib(analysis: ReportData, tmp_path: Path) -> None:
    """That the same results give the same bytes is shown by the reports of two sources, in test_report.py."""
    from matplotlib import pyplot

    pyplot.switch_backend("svg")
    before = dict(matplotlib.rcParams)
    figures.draw_figures(analysis, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} <= set(figures.FIGURE_FILES)
    assert dict(matplotlib.rcParams) == before
    assert pyplot.get_fignums() == []


def test_the_chosen_one_has_its_interval_where_lines_have_none(analysis: ReportData) -> None:
    figure = smoothing_figures.plot_strength_sensitivity(analysis)
    chosen = analysis.chosen["T-LS"]
    values = chosen.evaluate_queries(analysis.results.plan, "search")
    low, high = stats.t.interval(0.95, 1, values.mean(), stats.sem(values.mean(axis=1)))
    bars = [c for c in figure.axes[1].containers if c.has_yerr and c.lines[0].get_marker() == "None"]
    ((bar,),) = [container.lines[2] for container in bars]
    assert [end for _, end in bar.get_segments()[0]] == pytest.approx([low, high])
