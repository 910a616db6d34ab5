"""Figure of a compared hyperparameter: the test metric by its value, as in table 3 of Wu et al. (2021)."""

from typing import Any

from analysis.data.configurations import mean_and_std
from analysis.figures.style import add_legend, compute_interval_factor, get_colour, subplots
from analysis.tables.main import ReportData


def plot_compared_values(analysis: ReportData) -> Any:
    """Plot the test metric over the compared hyperparameter, one line a variant, the baseline dashed.

    None if each variant is one system, or if no system of a value is complete.
    """
    plan, compared = analysis.results.plan, analysis.results.plan.compared
    values = {name: c.evaluate_queries(plan, "test") if c else None for name, c in analysis.chosen.items()}
    scores = {name: score for name in values if (score := mean_and_std(values[name]))}
    if compared is None or not compared.systems.keys() & scores.keys():
        return None
    ticks = list(dict.fromkeys(own.value for own in compared.systems.values()))
    places = {tick: float(index) if isinstance(tick, str) else tick for index, tick in enumerate(ticks)}
    width = compute_interval_factor(len(plan.get_seeds("test")))
    figure, (axis,) = subplots(1, (4.8, 3.4))
    for variant in dict.fromkeys(own.variant for own in compared.systems.values()):
        names = [name for name, own in compared.systems.items() if own.variant == variant and name in scores]
        if names:
            axis.errorbar(
                [places[compared.systems[name].value] for name in names],
                [scores[name][0] for name in names],
                yerr=[width * (scores[name][1] or 0.0) for name in names] if width else None,
                marker="o",
                markersize=4,
                capsize=2.5,
                elinewidth=1,
                color=get_colour(plan, names[0]),
                label=variant,
            )
    if plan.systems[0] in scores:
        label, level = plan.systems[0], scores[plan.systems[0]][0]
        axis.axhline(level, color="0.4", linestyle="--", linewidth=1, zorder=0, label=label)
    name = compared.hyperparameter
    axis.set(xlabel=plan.symbol if name == plan.strength else name, ylabel=f"{plan.test_split} {plan.metric}")
    labels = [tick.replace("_", "-") if isinstance(tick, str) else f"{tick:g}" for tick in ticks]
    axis.set_xticks(list(places.values()), labels)
    add_legend(figure, ncols=3)
    return figure
