"""Figure of a search with several objectives: Optuna's plot of the Pareto front, in the house style."""

from functools import partial
from typing import Any

from analysis.data.plan import Plan
from analysis.export.optuna import create_optuna_study
from analysis.figures.style import CHOSEN, add_legend, run_pyplot
from analysis.tables.main import ReportData
from trainables.metrics import LOWER_IS_BETTER

_LEGEND = {"Trial": "complete", "Best Trial": "Pareto front"}
"""Optuna's words -> ours."""


def plot_pareto_front(analysis: ReportData, system: str) -> Any:
    """Plot the first two objectives of a system's complete configurations; None with one objective."""
    from optuna.visualization.matplotlib import plot_pareto_front

    plan, log = analysis.results.plan, analysis.results.search
    search = log.systems.get(system) if log else None
    complete = search.get_complete(plan.search_objectives) if search else []
    if search is None or not complete or len(plan.search_objectives) < 2:
        return None
    shown = plan.search_objectives[:2]
    names = [_name_objective(plan, name) for name in shown]
    draw = partial(plot_pareto_front, create_optuna_study(analysis.results, system), target_names=names)
    axis = run_pyplot(partial(draw, targets=lambda trial: trial.values[:2]), (4.4, 3.6))
    for points in axis.collections:
        points.set(label=_LEGEND[points.get_label()], sizes=[18])
    for proposal in complete:
        if proposal.configuration_id == search.winner:
            axis.plot(*((proposal.objectives or {})[name] for name in shown), **CHOSEN)
    axis.get_legend().remove()
    add_legend(axis.figure, ncols=3)
    pruned = len(search.get_proposals("dropped"))
    lost = len(search.proposals) - len(complete) - pruned
    left_out = [f"{count} {state}" for count, state in ((pruned, "pruned"), (lost, "not complete")) if count]
    title = f"{system}: {len(complete)} configurations"
    axis.set_title(title + (f"\nleft out: {', '.join(left_out)}" if left_out else ""))
    return axis.figure


def _name_objective(plan: Plan, name: str) -> str:
    return f"{plan.search_split} {name}" + (" (less is better)" if name in LOWER_IS_BETTER else "")
