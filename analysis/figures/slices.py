"""Figure of single hyperparameters: the development metric over each that is a number, as Wu et al. (2021) have M.

Strength and switch point of label smoothing have figures of their own.
"""

import math
from typing import Any

import numpy as np

from analysis.data.configurations import Configuration
from analysis.figures.smoothing import draw_baseline
from analysis.figures.style import get_colour, subplots
from analysis.tables.main import ReportData

_FEWEST = 3
"""Values that make a panel."""
_COLUMNS = 3
"""Most panels side by side."""
_WIDE = 8.0
"""From this ratio of largest to smallest on, the axis is logarithmic."""


def slices(analysis: ReportData) -> Any:
    """A panel for each system and hyperparameter with three values or more; None where there is none.

    Intervals, of 95 % over seeds, are drawn where each value has one configuration.
    """
    plan, shown = analysis.results.plan, _select_configurations(analysis)
    if not shown:
        return None
    columns = min(len(shown), _COLUMNS)
    rows = -(-len(shown) // columns)
    figure, axes = subplots(columns, (0.8 + 2.5 * columns, 0.5 + 2.4 * rows), rows=rows, sharey=True)
    for axis in axes[len(shown) :]:
        axis.set_visible(False)
    for axis, ((system, name), found) in zip(axes, shown.items(), strict=False):
        _panel(axis, analysis, system, found)
        draw_baseline(axis, analysis)
        values = [value for value, _ in found]
        if min(values) > 0 and max(values) >= _WIDE * min(values):
            axis.set_xscale("log", base=2)
            axis.xaxis.set_major_formatter(lambda value, place: f"{value:g}")
        axis.set(title=system, xlabel=name.replace("_", " "))
    axes[0].set_ylabel(f"{plan.search_split} {plan.metric}")
    return figure


def _select_configurations(analysis: ReportData) -> dict[tuple[str, str], list[tuple[float, Configuration]]]:
    """Value and configuration, by system and hyperparameter, of the complete ones."""
    plan, found = analysis.results.plan, dict[tuple[str, str], list[tuple[float, Configuration]]]()
    for configuration in analysis.configurations:
        if (
            configuration.pruned
            or configuration.system not in plan.systems
            or configuration.find_faults(plan, "search")
        ):
            continue
        for name, value in configuration.other_settings:
            if isinstance(value, int | float):
                found.setdefault((configuration.system, name), []).append((float(value), configuration))
    return {key: own for key, own in found.items() if len({value for value, _ in own}) >= _FEWEST}


def _panel(axis: Any, analysis: ReportData, system: str, found: list[tuple[float, Configuration]]) -> None:
    from scipy import stats

    plan, colour = analysis.results.plan, get_colour(analysis.results.plan, system)
    seeds = {value: own for value, c in found if (own := c.evaluate_queries(plan, "search")) is not None}
    if len(seeds) == len(found):
        places = sorted(seeds)
        over = [seeds[value].mean(axis=1) for value in places]
        count = len(over[0])
        width = float(stats.t.ppf(0.975, count - 1)) / math.sqrt(count) if count > 1 else 0.0
        halves = [width * float(own.std(ddof=1)) for own in over] if width else None
        means = [float(own.mean()) for own in over]
        axis.errorbar(places, means, yerr=halves, marker="o", markersize=4, capsize=2.5, elinewidth=1, color=colour)
    else:
        means = [float(own.mean()) for _, c in found if (own := c.evaluate_queries(plan, "search")) is not None]
        axis.plot([value for value, _ in found], means, "o", markersize=4, color=colour, alpha=0.6)
    for value, configuration in found:
        own = configuration.evaluate_queries(plan, "search") if configuration is analysis.chosen.get(system) else None
        if own is not None:
            axis.plot(value, float(np.mean(own)), "o", markersize=10, markerfacecolor="none", color=colour)
