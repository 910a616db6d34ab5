"""What the figures of a search show of it."""

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from analysis import figures
from analysis.data.results import Results
from analysis.figures import search as search_figures
from analysis.figures import smoothing as smoothing_figures
from analysis.figures.style import save_figures
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


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def changed(analysis: ReportData, objectives: tuple[str, ...] | None = None, **changes: Any) -> ReportData:
    """The study with other objectives, or with another search of T-LS, such as fewer proposals."""
    of, search = analysis.results, analysis.results.search
    assert search is not None
    plan = of.plan if objectives is None else of.plan.model_copy(update={"objectives": objectives})
    systems = search.systems | {"T-LS": search.systems["T-LS"].model_copy(update=changes)}
    return build_report_data(Results(plan, "0", of.runs, search.model_copy(update={"systems": systems})))


def test_the_front_is_marked_and_the_chosen_one_ringed(made: Searched, analysis: ReportData) -> None:
    for name in ("LS", "T-LS"):
        (axis,) = search_figures.plot_pareto_front(analysis, name).axes
        system = made.systems[name]
        objectives = {
            p["configuration_id"]: (p["objectives"]["R10@1"], p["objectives"]["ECE"]) for p in system["proposals"]
        }
        shown = {points.get_label(): points.get_offsets() for points in axis.collections}
        assert sorted(map(tuple, shown["Pareto front"])) == sorted(objectives[key] for key in system["front"])
        states = [proposal["state"] for proposal in system["proposals"]]
        assert sum(map(len, shown.values())) == states.count("complete")
        (ring,) = axis.lines
        assert tuple(value[0] for value in ring.get_data()) == objectives[system["winner"]]
        assert (axis.get_xlabel(), axis.get_ylabel()) == ("dev R10@1", "dev ECE (less is better)")
    assert axis.get_title() == "T-LS: 33 configurations\nleft out: 2 pruned, 1 not complete"


def test_one_objective_has_no_front(analysis: ReportData) -> None:
    assert search_figures.plot_pareto_front(changed(analysis, objectives=("R10@1",)), "T-LS") is None


def test_a_contour_needs_points_that_differ(analysis: ReportData, tmp_path: Path) -> None:
    axis = smoothing_figures.plot_contour(analysis, "T-LS").axes[0]
    assert {axis.get_xlabel(), axis.get_ylabel()} == {"switch point (share of training)", "ε"}
    own = [c for c in analysis.configurations if c.system == "T-LS" and c.switch and not c.pruned]
    scores = {c: c.evaluate_queries(analysis.results.plan, "search") for c in own}
    means: dict[Any, list[float]] = {}
    for c, values in scores.items():
        if values is not None:
            means.setdefault((c.switch, c.strength), []).append(values.mean())
    _, surface, points, _ = axis.collections
    assert set(map(tuple, points.get_offsets())) == set(means)
    assert analysis.chosen["BERT"] is not None
    level = analysis.chosen["BERT"].evaluate_queries(analysis.results.plan, "search").mean()
    gains = [np.mean(values) - level for values in means.values()]
    assert (surface.zmin, surface.zmax) == pytest.approx((min(gains), max(gains)))  # nothing beyond the points
    assert smoothing_figures.plot_contour(analysis, "LS") is None
    few = searched(proposals=3, queries=(10, 10))
    write_records(tmp_path, few.plan, few.runs, few.search)
    assert smoothing_figures.plot_contour(build_report_data(read_records(tmp_path)), "T-LS") is None


def _one_value(proposals: tuple[Any, ...]) -> tuple[Any, ...]:
    values = proposals[0].values
    return tuple(proposal.model_copy(update={"values": values}) for proposal in proposals)


def _constant(proposals: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(proposal.model_copy(update={"objectives": {"R10@1": 0.5, "ECE": 0.1}}) for proposal in proposals)


def _failed(proposals: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(p.model_copy(update={"state": "incomplete", "objectives": None}) for p in proposals)


@pytest.mark.parametrize("objectives", [("R10@1",), ("R10@1", "ECE")])
@pytest.mark.parametrize(("change", "shown"), [
    (lambda proposals: (), []), (lambda proposals: proposals[:1], ["pareto_front"]), (_failed, []),
    (_one_value, ["pareto_front"]), (_constant, ["pareto_front"]),
])  # fmt: skip
def test_a_poor_search_has_the_figures_that_say_something(
    change: Any, shown: list[str], objectives: tuple[str, ...], analysis: ReportData, tmp_path: Path
) -> None:
    assert analysis.results.search is not None
    proposals = analysis.results.search.systems["T-LS"].proposals
    poor = changed(analysis, objectives, proposals=change(proposals))
    plots = {name: partial(plot, poor, "T-LS") for name, plot in figures.SYSTEM_FIGURES.items()}
    del plots["epsilon_switch"]  # it shows what has runs
    expected = [name for name in shown if name != "pareto_front" or len(objectives) > 1]
    assert save_figures(plots, tmp_path) == expected


def test_optuna_leaves_no_trace_in_matplotlib(analysis: ReportData, tmp_path: Path) -> None:
    from matplotlib import pyplot

    pyplot.switch_backend("svg")
    before, style = dict(matplotlib.rcParams), dict(pyplot.style.library["ggplot"])
    names = figures.draw_figures(analysis, tmp_path)
    assert {path.stem for path in figures.find_figure_files(tmp_path)} == set(names)
    assert dict(matplotlib.rcParams) == before
    assert dict(pyplot.style.library["ggplot"]) == style
    assert pyplot.get_fignums() == []
    again = tmp_path / "again"
    again.mkdir()
    assert figures.draw_figures(analysis, again) == names
    for name in names:
        for suffix in ("png", "svg"):
            assert (again / f"{name}.{suffix}").read_bytes() == (tmp_path / f"{name}.{suffix}").read_bytes()


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


def test_a_study_without_a_search_has_no_front(analysis: ReportData) -> None:
    silent = build_report_data(Results(analysis.results.plan, "0", analysis.results.runs))
    assert search_figures.plot_pareto_front(silent, "T-LS") is None
