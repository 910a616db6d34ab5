"""Figure of what the usual test makes of two seeds of one system, over the number of queries."""

from collections.abc import Mapping
from typing import Any

from analysis.checks.equal_rankers import LEVEL, EqualRankers
from analysis.figures.style import COLOURS, subplots
from analysis.tables.main import ReportData


def plot_equal_rankers(analysis: ReportData) -> Any:
    """Plot the share of pairs of seeds that the usual test calls different; None if no pairs were tested."""
    if analysis.equal_rankers is None:
        return None
    figure, (axis,) = subplots(1, (4.2, 2.8))
    draw_curves(axis, {"": analysis.equal_rankers})
    return figure


def draw_curves(axis: Any, found: Mapping[str, EqualRankers]) -> None:
    """Draw the shares over the number of queries, a curve for each name, and the level of the test."""
    for place, (name, own) in enumerate(found.items()):
        colour = COLOURS[(place + 1) % len(COLOURS)]
        axis.plot([*own.curve], [*own.curve.values()], marker="o", markersize=3, color=colour, label=name)
    axis.axhline(LEVEL, color="black", linestyle="--", linewidth=1)
    axis.set(xscale="log", xlabel="queries", ylabel="pairs of seeds called different", ylim=(0, None))
