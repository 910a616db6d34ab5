"""Figures of a search: Optuna's plots of each system's search in the house style, and importances as bars.

Optuna's plots show complete configurations; the title counts the others. Importances are bars of the table's numbers,
because Optuna's plot of importances scales them to a sum of 1.
"""

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.data.configurations import format_value
from analysis.data.plan import Plan
from analysis.data.search_log import ParamValue, Proposal, SystemSearchLog
from analysis.export.optuna import create_optuna_study, to_distributions
from analysis.figures.smoothing import draw_baseline
from analysis.figures.style import CHOSEN, add_legend, get_colour, run_pyplot, subplots
from analysis.tables.main import ReportData
from trainables.metrics import LOWER_IS_BETTER

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

_LEGEND = {"Trial": "complete", "Best Trial": "Pareto front"}
"""Optuna's words -> ours."""


def plot_parallel_coordinates(analysis: ReportData, system: str) -> Any:
    """Plot the complete configurations of a system as lines through the development metric and the hyperparameters.

    The best are on top, the chosen one is black. None if fewer than two hyperparameters were varied.
    """
    from optuna.visualization.matplotlib import plot_parallel_coordinate

    plan, search = analysis.results.plan, _find_search(analysis, system)
    varied = _collect_varied(analysis, search)
    if search is None or len(varied) < 2:
        return None
    draw = partial(plot_parallel_coordinate, create_optuna_study(analysis.results, system), list(varied))
    axis = run_pyplot(partial(draw, **_get_target(plan)), (2.4 + 1.2 * len(varied), 3.0))
    domains, (lines,) = to_distributions(search), axis.collections
    segments, scores = lines.get_segments(), lines.get_array()
    order = np.argsort(-scores if plan.metric in LOWER_IS_BETTER else scores, kind="stable")
    lines.set(segments=[segments[place] for place in order], array=scores[order], cmap="viridis", linewidths=1.1)
    chosen = _find_chosen(plan, search)
    if chosen is not None:
        axis.plot(*segments[search.get_complete(plan.search_objectives).index(chosen)].T, color="black")
    names = [label.get_text().replace("_", " ") for label in axis.get_xticklabels()]
    axis.set_xticks(axis.get_xticks(), names, rotation=0, fontsize=8)
    for name, own in zip(sorted(varied), axis.figure.axes[-len(varied) :], strict=True):  # Optuna sorts them
        _set_value_ticks(own.yaxis, name, varied[name], domains[name], 8)
        own.spines["right"].set_visible(True)
        for label in own.get_yticklabels():
            label.set_bbox({"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.75})
    axis.set_title(_describe(analysis, system, search), pad=8)
    return axis.figure


def plot_slices(analysis: ReportData, system: str) -> Any:
    """Plot the development metric over each varied hyperparameter, except the strength, which has its own figure.

    None if no other hyperparameter was varied.
    """
    from optuna.distributions import CategoricalDistribution
    from optuna.visualization.matplotlib import plot_slice

    plan, search = analysis.results.plan, _find_search(analysis, system)
    varied = {name: values for name, values in _collect_varied(analysis, search).items() if name != plan.strength}
    if search is None or not varied:
        return None
    draw = partial(plot_slice, create_optuna_study(analysis.results, system), list(varied))
    drawn, domains = run_pyplot(partial(draw, **_get_target(plan)), (5.0, 3.0)), to_distributions(search)
    chosen = _find_chosen(plan, search)
    axes = dict(zip(sorted(varied), [drawn] if len(varied) == 1 else drawn, strict=True))
    for name, axis in axes.items():
        _set_value_ticks(axis.xaxis, name, varied[name], domains[name], 4)
        for points in axis.collections:  # Optuna gives each panel colours of its own, and the bar those of the last
            points.set_clim(0, len(search.proposals) - 1)
        axis.set(title="", xlabel=name.replace("_", " "))
        draw_baseline(axis, analysis)
        if chosen is not None and name in chosen.values:
            value = chosen.values[name]
            place = repr(value) if isinstance(domains[name], CategoricalDistribution) else value  # as Optuna has it
            axis.plot(place, (chosen.objectives or {})[plan.metric], **CHOSEN)
    figure = next(iter(axes.values())).figure
    figure.suptitle(_describe(analysis, system, search), fontsize=10)
    return figure


def plot_pareto_front(analysis: ReportData, system: str) -> Any:
    """Plot the first two objectives of a system's complete configurations; None with one objective."""
    from optuna.visualization.matplotlib import plot_pareto_front

    plan, search = analysis.results.plan, _find_search(analysis, system)
    if search is None or not search.get_complete(plan.search_objectives) or len(plan.search_objectives) < 2:
        return None
    shown = plan.search_objectives[:2]
    names = [_name_objective(plan, name) for name in shown]
    draw = partial(plot_pareto_front, create_optuna_study(analysis.results, system), target_names=names)
    axis = run_pyplot(partial(draw, targets=lambda trial: trial.values[:2]), (4.4, 3.6))
    for points in axis.collections:
        points.set(label=_LEGEND[points.get_label()], sizes=[18])
    chosen = _find_chosen(plan, search)
    if chosen is not None:
        axis.plot(*((chosen.objectives or {})[name] for name in shown), **CHOSEN)
    axis.get_legend().remove()
    add_legend(axis.figure, ncols=3)
    axis.set_title(_describe(analysis, system, search))
    return axis.figure


def plot_importances(analysis: ReportData) -> Any:
    """Plot the importance of each hyperparameter as a bar, one panel a system; None if there is none."""
    plan = analysis.results.plan
    rows = [row for row in analysis.importances if row.shares]
    names = list(dict.fromkeys(row.system for row in rows))
    if not names:
        return None
    objectives = plan.search_objectives
    most, height = max(sum(row.system == name for row in rows) for name in names), 0.72 / len(objectives)
    size = (1.0 + 2.4 * len(names), 1.2 + 0.32 * most * max(1.0, 0.6 * len(objectives)))
    figure, axes = subplots(len(names), size)
    for axis, name in zip(axes, names, strict=True):
        own = [row for row in rows if row.system == name]
        for number, objective in enumerate(objectives):
            places = [place + (number - (len(objectives) - 1) / 2) * height for place in range(len(own))]
            shares, colour = [row.shares[objective] for row in own], get_colour(plan, name)
            bars = axis.barh(places, shares, height * 0.92, color=colour, alpha=1 - 0.6 * number / len(objectives))
            axis.bar_label(bars, fmt="%.2f", padding=3, fontsize=7)
            bars.set_label(objective)
        axis.set_yticks(range(len(own)), [row.hyperparameter.replace("_", " ") for row in own])
        axis.set(
            title=name, xlabel="share of variance", xlim=(0, 1.16), xticks=(0, 0.5, 1), ylim=(len(own) - 0.4, -0.6)
        )
    if len(objectives) > 1:
        add_legend(figure, *axes[0].get_legend_handles_labels(), ncols=len(objectives))
    return figure


def _find_search(analysis: ReportData, system: str) -> SystemSearchLog | None:
    return analysis.results.search.systems.get(system) if analysis.results.search else None


def _find_chosen(plan: Plan, search: SystemSearchLog) -> Proposal | None:
    complete = search.get_complete(plan.search_objectives)
    return next((proposal for proposal in complete if proposal.configuration_id == search.winner), None)


def _get_target(plan: Plan) -> dict[str, Any]:
    """Return the arguments with which Optuna plots the first objective, which is the plan's metric."""
    return {"target": lambda trial: trial.values[0], "target_name": _name_objective(plan, plan.metric)}


def _name_objective(plan: Plan, name: str) -> str:
    return f"{plan.search_split} {name}" + (" (less is better)" if name in LOWER_IS_BETTER else "")


def _collect_varied(analysis: ReportData, search: SystemSearchLog | None) -> dict[str, list[ParamValue]]:
    """Return the hyperparameters of which complete configurations have several values, and these values."""
    complete = search.get_complete(analysis.results.plan.search_objectives) if search else []
    values = {name: {p.values[name] for p in complete if name in p.values} for name in search.grid} if search else {}
    return {
        name: sorted(several, key=lambda value: (isinstance(value, str), value))
        for name, several in values.items()
        if len(several) > 1
    }


def _describe(analysis: ReportData, system: str, search: SystemSearchLog) -> str:
    """Return the title of a figure: how many configurations it shows, and how many it leaves out."""
    complete = len(search.get_complete(analysis.results.plan.search_objectives))
    pruned = len(search.get_proposals("dropped"))
    lost = len(search.proposals) - complete - pruned
    left_out = [f"{count} {state}" for count, state in ((pruned, "pruned"), (lost, "not complete")) if count]
    return f"{system}: {complete} configurations" + (f"\nleft out: {', '.join(left_out)}" if left_out else "")


def _set_value_ticks(axis: Any, name: str, values: list[ParamValue], domain: "BaseDistribution", most: int) -> None:
    """Write the values of a hyperparameter at an axis of Optuna's; of many numbers, every nth."""
    from matplotlib.category import StrCategoryFormatter
    from matplotlib.ticker import FixedLocator, NullLocator
    from optuna.distributions import FloatDistribution, IntDistribution

    if isinstance(domain, FloatDistribution | IntDistribution):
        shown = values[:: math.ceil(len(values) / most)]
        places, labels = [*shown], [format_value(name, value) for value in shown]
        if isinstance(axis.get_major_locator(), FixedLocator):  # it begins with None, and is linear in the logarithm
            places = [axis.get_ticklocs()[0], *(math.log10(float(value)) if domain.log else value for value in shown)]
            labels = ["None", *labels]
        axis.set_ticks(places, labels)
        axis.set_minor_locator(NullLocator())
    elif isinstance(axis.get_major_formatter(), StrCategoryFormatter):
        labels = [label.get_text().strip("'") for label in axis.get_ticklabels()]
        axis.set_ticks(axis.get_ticklocs(), labels, rotation=25, ha="right", rotation_mode="anchor")
    axis.set_tick_params(labelsize=7)
