"""Figure of the power of a study by the true difference, one line a number of seeds."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from analysis.figures.style import COLOURS, add_legend, subplots
from analysis.stats.power import POWER, DifferenceVariance, compute_power

_POINTS = 61
"""Points of a line."""


def plot_power(
    variance: DifferenceVariance, seeds: Sequence[int], queries: int, level: float, largest: float, metric: str = ""
) -> Any:
    """Plot the power of one comparison, with a line at 80 %."""
    figure, (axis,) = subplots(1, (4.8, 3.4))
    differences = np.linspace(0, largest, _POINTS)
    for number, colour in zip(seeds, [*COLOURS[1:], *COLOURS] * len(seeds), strict=False):
        power = [compute_power(variance, float(own), number, queries, level) for own in differences]
        axis.plot(differences, power, color=colour, label=f"{number} seeds")
    axis.axhline(POWER, color="0.4", linestyle="--", linewidth=1, zorder=0)
    xlabel = f"true difference{f' in {metric}' * bool(metric)}"
    axis.set(xlim=(0, largest), ylim=(0, 1), xlabel=xlabel, ylabel="power", title=f"{queries:,} queries")
    add_legend(figure, ncols=4)
    return figure
