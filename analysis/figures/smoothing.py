"""Figure of the strength of the smoothing, after Penha and Hauff (2021).

It shows the mean over seeds with its 95 % interval, the baseline dashed.
"""

from itertools import pairwise
from typing import Any, NamedTuple

from analysis.data.configurations import Configuration
from analysis.figures.style import add_legend, compute_interval_factor, get_colour, subplots
from analysis.tables.main import ReportData


class _Point(NamedTuple):
    """A complete smoothed configuration.

    Attributes:
        half_width: half of the width of the 95 % interval over seeds.
    """

    configuration: Configuration
    mean: float
    half_width: float


def plot_strength_sensitivity(analysis: ReportData) -> Any:
    """Plot the development metric over the strength of smoothing, one panel a variant.

    The systems that are values of one variant share its panel. Intervals are drawn where a line has one configuration
    for each strength, and for the chosen configuration. None without a smoothed configuration.
    """
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator

    plan = analysis.results.plan
    points, baseline = _collect_points(analysis), analysis.chosen.get(plan.systems[0])
    baseline_values = baseline.evaluate_queries(plan, "search") if baseline else None
    names = list(points)
    if not names:
        return None
    figure, axes = subplots(len(names), (1.1 + 2.0 * len(names), 3.0), sharey=True)
    for axis, name in zip(axes, names, strict=True):
        shown = points[name]
        colour = get_colour(plan, shown[0].configuration.system)
        schedules = sorted({_schedule_label(point.configuration) for point in shown})
        spacing = _smallest_step([point.configuration.strength or 0.0 for point in shown]) * 0.1
        for index, schedule in enumerate([*schedules] if len(schedules) <= 4 else [None]):
            group = [point for point in shown if schedule is None or _schedule_label(point.configuration) == schedule]
            joined = schedule is not None and len({point.configuration.strength for point in group}) == len(group)
            offset = 0.0 if joined or schedule is None else spacing * (index - (len(schedules) - 1) / 2)
            axis.errorbar(
                [(point.configuration.strength or 0.0) + offset for point in group],
                [point.mean for point in group],
                yerr=[point.half_width for point in group] if joined else None,
                marker="os^D"[index],
                linestyle=("-", "--", ":", "-.")[index] if joined else "",
                label=schedule,
                color=colour,
                capsize=2.5,
                elinewidth=1,
                markersize=4,
                linewidth=1.3,
                alpha=1.0 if joined else 0.6,
            )
            for c, mean, half in group:
                if c is analysis.chosen.get(c.system):
                    x = (c.strength or 0.0) + offset
                    axis.plot(x, mean, "o", markersize=10, markerfacecolor="none", color=colour)
                    if not joined:
                        axis.errorbar(x, mean, yerr=half, color=colour, capsize=2.5, elinewidth=1)
        if 1 < len(schedules) <= 4:
            axis.legend(fontsize=7, handlelength=1.2, frameon=True, edgecolor="none", framealpha=0.7)
        if baseline_values is not None:
            axis.axhline(float(baseline_values.mean()), color="0.4", linestyle="--", linewidth=1, zorder=0)
        axis.set(title=name, xlabel=plan.symbol)
        axis.margins(x=0.12)
        axis.xaxis.set_major_locator(MaxNLocator(4))
    axes[0].set_ylabel(f"{plan.search_split} {plan.metric}")
    bars = any(container.has_yerr for axis in axes for container in axis.containers)
    seeds = f"mean over {len(plan.seeds)} seeds" + (", 95 % interval" if bars and len(plan.seeds) > 1 else "")
    handles = [
        Line2D([], [], marker="o", color="0.4", linestyle="", markersize=4, label=seeds),
        Line2D([], [], marker="o", color="0.4", linestyle="", markersize=9, markerfacecolor="none", label="chosen"),
        Line2D([], [], color="0.4", linestyle="--", linewidth=1, label=plan.systems[0]),
    ]
    add_legend(figure, handles=handles, ncols=3, columnspacing=1.4)
    return figure


def _smallest_step(values: list[float]) -> float:
    """Return the smallest distance between two different values; 0 if there are none."""
    return min((after - before for before, after in pairwise(sorted(set(values)))), default=0.0)


def _schedule_label(configuration: Configuration) -> str:
    if configuration.switch:
        return f"switch {configuration.switch:.3g}"
    return str(dict(configuration.other_settings).get("schedule", "constant"))


def _collect_points(analysis: ReportData) -> dict[str, list[_Point]]:
    """Return the complete smoothed configurations of each variant, in the plan's order of systems."""
    plan, points = analysis.results.plan, dict[str, list[_Point]]()
    width = compute_interval_factor(len(plan.seeds))
    for configuration in analysis.configurations:
        smoothed = configuration.strength and configuration.system in plan.systems and not configuration.pruned
        values = configuration.evaluate_queries(plan, "search") if smoothed else None
        if values is not None:
            seeds = values.mean(axis=1)
            spread = width * float(seeds.std(ddof=1)) if width else 0.0
            variant = plan.get_variant(configuration.system)
            points.setdefault(variant, []).append(_Point(configuration, float(seeds.mean()), spread))
    return points
