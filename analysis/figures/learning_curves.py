"""Figure of the learning curves: training loss and development metric, each curve's best point marked.

The markers follow Penha and Hauff (2020), Figure 4.
"""

import math
from typing import Any

import numpy as np

from analysis.data.configurations import Configuration
from analysis.figures.style import add_legend, get_colour, get_line_style, subplots
from analysis.tables.main import ReportData
from records.plan import Plan
from trainables.metrics import LOWER_IS_BETTER

_MAX_BANDS = 6
"""Most systems that are drawn with bands; with more, the bands would be hard to distinguish."""
_COLUMNS = 6
"""Most names in a row of the legend, if they do not fit in one row."""
_BEST_MARKER: dict[str, Any] = {"marker": "*", "markersize": 11, "markeredgecolor": "white", "markeredgewidth": 0.7}


def plot_learning_curves(analysis: ReportData) -> Any:
    """Plot training loss and development metric of each system's chosen configuration over instances.

    None if there is no curve.
    """
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator

    plan = analysis.results.plan
    keys = {"train/loss": "training loss", f"{plan.search_split}/{plan.metric}": f"{plan.search_split} {plan.metric}"}
    lines = [(name, c) for name, c in analysis.chosen.items() if c is not None and name in plan.systems]
    if not any(_compute_curve(c, plan, key) for _, c in lines for key in keys):
        return None
    few = len(lines) <= _MAX_BANDS
    figure, axes = subplots(2, (7.0, 3.4) if few else (9.0, 4.8), sharex=True)
    switches: dict[float, list[str]] = {}
    for name, configuration in lines:
        colour = get_colour(plan, name)
        for axis, key in zip(axes, keys, strict=True):
            if curve := _compute_curve(configuration, plan, key):
                x, mean, spread = curve
                marker, width = "o" if len(x) < 12 else None, 1.6 if few else 1.1
                axis.plot(
                    x, mean, **get_line_style(plan, name), label=name, marker=marker, markersize=3, linewidth=width
                )
                if few:
                    axis.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.13, linewidth=0)
                if axis is axes[1]:
                    best = int(np.argmin(mean) if plan.metric in LOWER_IS_BETTER else np.argmax(mean))
                    axis.plot(x[best], mean[best], color=colour, linestyle="", zorder=3, clip_on=False, **_BEST_MARKER)
        if (instances := _compute_switch_instances(configuration)) is not None:
            switches.setdefault(instances, []).append(colour)
    for instances, colours in sorted(switches.items()):
        for axis in axes:
            axis.axvline(
                instances, color=colours[0] if len(colours) == 1 else "0.4", linestyle="--", linewidth=1, zorder=0
            )
    for axis, title in zip(axes, keys.values(), strict=True):
        axis.set(xlabel="training instances", title=title)
        axis.xaxis.set_major_locator(MaxNLocator(5))
        axis.margins(x=0.02)
    handles, labels = axes[1].get_legend_handles_labels()
    handles, labels = (handles, labels) if handles else axes[0].get_legend_handles_labels()
    if axes[1].lines:
        handles, labels = [*handles, Line2D([], [], color="0.4", linestyle="", **_BEST_MARKER)], [*labels, "best point"]
    if switches:
        handles, labels = [*handles, axes[0].lines[-1]], [*labels, "switch point"]
    columns = len(labels) if len(labels) <= _MAX_BANDS + 2 else -(-len(labels) // -(-len(labels) // _COLUMNS))
    add_legend(figure, handles, labels, ncols=columns, columnspacing=1.4, handlelength=2.2)
    return figure


def _compute_curve(
    configuration: Configuration, plan: Plan, key: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return instances, mean and standard deviation over seeds, where every seed has a value.

    None if a seed has no value at all.
    """
    curves = []
    for seed in configuration.expected_seeds(plan, "search"):
        run = configuration.runs.get(seed)
        rows = run.history if run is not None and run.is_finished else []
        curves.append({float(row["instances"]): float(row[key]) for row in rows if _is_finite(row.get(key))})
    x = sorted(set.intersection(*map(set, curves))) if curves else []
    if not x:
        return None
    values = np.array([[curve[instances] for instances in x] for curve in curves])
    spread = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(len(x))
    return np.array(x), values.mean(axis=0), spread


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _compute_switch_instances(configuration: Configuration) -> float | None:
    if not configuration.switch:
        return None
    run = next(iter(configuration.runs.values()))
    total = run.get_settings("training").get("instances") or max((row["instances"] for row in run.history), default=0)
    return float(configuration.switch * total) if total else None
