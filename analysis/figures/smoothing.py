"""Figures of the smoothing: its strength, and its strength by switch point.

The first follows Penha and Hauff (2021): mean over seeds with its 95 % interval, the baseline dashed.
"""

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from analysis.data.configurations import Configuration
from analysis.figures.style import get_colour, make_locator, subplots
from analysis.tables.main import ReportData

_MAX_LABELS = 16
"""Most points of a panel that have their values written next to them."""
_MIN_SURFACE_POINTS = 6
"""Fewest points that a surface is drawn through."""


class _Point(NamedTuple):
    """A complete smoothed configuration.

    Attributes:
        configuration: the configuration.
        mean: mean over seeds.
        half_width: half of the width of the 95 % interval over seeds.
    """

    configuration: Configuration
    mean: float
    half_width: float


def plot_strength_sensitivity(analysis: ReportData) -> Any:
    """Plot the development metric over the strength of smoothing, one panel a variant.

    Intervals are drawn where a line has one configuration for each strength, and for the chosen configuration. None
    without a smoothed configuration.
    """
    plan = analysis.results.plan
    points = _collect_points(analysis)
    names = [name for name in plan.systems if name in points]
    if not names:
        return None
    figure, axes = subplots(len(names), (1.1 + 2.0 * len(names), 3.0), sharey=True)
    for axis, name in zip(axes, names, strict=True):
        colour, shown = get_colour(plan, name), points[name]
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
                if c is analysis.chosen.get(name):
                    x = (c.strength or 0.0) + offset
                    axis.plot(x, mean, "o", markersize=10, markerfacecolor="none", color=colour)
                    if not joined:
                        axis.errorbar(x, mean, yerr=half, color=colour, capsize=2.5, elinewidth=1)
        if 1 < len(schedules) <= 4:
            axis.legend(fontsize=7, handlelength=1.2, frameon=True, edgecolor="none", framealpha=0.7)
        draw_baseline(axis, analysis)
        axis.set(title=name, xlabel=plan.symbol)
        axis.margins(x=0.12)
        axis.xaxis.set_major_locator(make_locator(4))
    axes[0].set_ylabel(f"{plan.search_split} {plan.metric}")
    from matplotlib.lines import Line2D

    bars = any(container.has_yerr for axis in axes for container in axis.containers)
    seeds = f"mean over {len(plan.seeds)} seeds" + (", 95 % interval" if bars and len(plan.seeds) > 1 else "")
    handles = [
        Line2D([], [], marker="o", color="0.4", linestyle="", markersize=4, label=seeds),
        Line2D([], [], marker="o", color="0.4", linestyle="", markersize=9, markerfacecolor="none", label="chosen"),
        Line2D([], [], color="0.4", linestyle="--", linewidth=1, label=plan.systems[0]),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, columnspacing=1.4)
    return figure


def plot_contour(analysis: ReportData) -> Any:
    """Plot the development metric minus the baseline's over strength and switch point.

    A surface is drawn if there are enough points; otherwise each point is a disc of its colour. None without a
    two-stage variant.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize, TwoSlopeNorm

    plan, level = analysis.results.plan, _compute_baseline(analysis)
    places = {name: _average_gains(shown, level or 0.0) for name, shown in _collect_points(analysis).items()}
    names = [name for name in plan.systems if places.get(name)]
    if not names:
        return None
    flat = [gain for name in names for gain in places[name].values()]
    limit = max(max(map(abs, flat)), 1e-6)
    least, most = (min(flat), max(flat)) if max(flat) > min(flat) else (min(flat) - limit, max(flat) + limit)
    norm = Normalize(least, most) if level is None else TwoSlopeNorm(0.0, -limit, limit)
    palette = "viridis" if level is None else "PuOr"
    figure, axes = subplots(len(names), (1.6 + 2.9 * len(names), 3.2), sharex=True, sharey=True)
    levels = make_locator(10).tick_values(least, most)
    for axis, name in zip(axes, names, strict=True):
        shown = places[name]
        x, y = ([place[number] for place in shown] for number in (0, 1))
        surface = _draw_surface(axis, x, y, list(shown.values()), levels, norm, palette)
        axis.scatter(
            x, y, c=list(shown.values()), norm=norm, cmap=palette, s=_marker_size(len(shown)) if surface else 90,
                     edgecolors="0.3", linewidths=0.6, zorder=2)  # fmt: skip
        pruned = [c for c in analysis.configurations if c.pruned and c.system == name and c.switch]
        pruned = [c for c in pruned if (c.strength, c.switch) not in shown]
        axis.scatter(
            [c.strength for c in pruned], [c.switch for c in pruned], s=22, marker="x", c="0.4", linewidths=0.9
        )
        best = analysis.chosen.get(name)
        if best is not None and best.switch:
            axis.scatter(best.strength, best.switch, s=130 if surface else 230, facecolors="none", edgecolors="black",
                         linewidths=1.4, zorder=3)  # fmt: skip
        for (strength, switch), gain in shown.items() if len(shown) <= _MAX_LABELS and not surface else ():
            text = f"{gain:.3f}" if level is None else f"{gain:+.3f}"
            axis.annotate(text, (strength, switch), xytext=(0, 10), textcoords="offset points",
                          ha="center", fontsize=7, color="0.25")  # fmt: skip
        axis.set(title=name, xlabel=plan.symbol)
        axis.use_sticky_edges = False  # otherwise points at the edge of the surface are cut in half
        axis.margins(0.06 if surface else 0.18)
        axis.xaxis.set_major_locator(make_locator(5))
    axes[0].set_ylabel("switch point (share of training)")
    label = f"{plan.search_split} {plan.metric}" + ("" if level is None else f" minus {plan.systems[0]}'s")
    colours = ScalarMappable(norm, palette)
    figure.colorbar(colours, ax=list(axes), shrink=0.9).set_label(label, labelpad=8)
    return figure


def _marker_size(points: int) -> float:
    """Return the size of a marker: many are small, so that the surface between them is visible."""
    return 22 if points <= 60 else 7


def _smallest_step(values: list[float]) -> float:
    """Return the smallest distance between two different values; 0 if there are none."""
    return min((after - before for before, after in pairwise(sorted(set(values)))), default=0.0)


def _schedule_label(configuration: Configuration) -> str:
    if configuration.switch:
        return f"switch {configuration.switch:.3g}"
    return str(dict(configuration.other_settings).get("schedule", "constant"))


def _average_gains(points: list[_Point], level: float) -> dict[tuple[float, float], float]:
    """Return the mean gain of the two-stage configurations at each strength and switch point."""
    gains_at: dict[tuple[float, float], list[float]] = {}
    for c, mean, _ in points:
        if c.switch and c.strength:
            gains_at.setdefault((c.strength, c.switch), []).append(mean - level)
    return {place: sum(gains) / len(gains) for place, gains in sorted(gains_at.items())}


def _draw_surface(
    axis: Any, x: list[float], y: list[float], z: list[float], levels: Any, norm: Any, palette: str
) -> bool:
    """Draw a linear interpolation over triangles, both settings scaled to their range.

    Returns:
        False if there are too few points.
    """
    from matplotlib.tri import Triangulation

    if len(z) < _MIN_SURFACE_POINTS or len(set(x)) < 3 or len(set(y)) < 3 or np.ptp(z) == 0:
        return False
    triangles = Triangulation(_scale_to_unit(x), _scale_to_unit(y)).triangles
    axis.tricontourf(Triangulation(x, y, triangles), z, levels=levels, norm=norm, cmap=palette, zorder=0)
    axis.tricontour(Triangulation(x, y, triangles), z, levels=levels, colors="white", linewidths=0.5,
                     linestyles="solid", zorder=1)  # fmt: skip
    return True


def _scale_to_unit(values: list[float]) -> Any:
    return (np.array(values) - min(values)) / np.ptp(values)


def _collect_points(analysis: ReportData) -> dict[str, list[_Point]]:
    """Return the complete smoothed configurations of each system."""
    from scipy import stats

    plan, points = analysis.results.plan, dict[str, list[_Point]]()
    count = len(plan.seeds)
    width = float(stats.t.ppf(0.975, count - 1)) / math.sqrt(count) if count > 1 else 0.0
    for configuration in analysis.configurations:
        smoothed = configuration.strength and configuration.system in plan.systems and not configuration.pruned
        values = configuration.evaluate_queries(plan, "search") if smoothed else None
        if values is not None:
            seeds = values.mean(axis=1)
            spread = width * float(seeds.std(ddof=1)) if width else 0.0
            points.setdefault(configuration.system, []).append(_Point(configuration, float(seeds.mean()), spread))
    return points


def _compute_baseline(analysis: ReportData) -> float | None:
    plan = analysis.results.plan
    configuration = analysis.chosen.get(plan.systems[0])
    values = configuration.evaluate_queries(plan, "search") if configuration else None
    return None if values is None else float(values.mean())


def draw_baseline(axis: Any, analysis: ReportData) -> None:
    """Draw a line at the baseline's development metric, if it is known."""
    level = _compute_baseline(analysis)
    if level is not None:
        axis.axhline(level, color="0.4", linestyle="--", linewidth=1, zorder=0)
