"""The figures of a study: learning curves, strength of smoothing, strength by switch point, weak labels.

Two follow Penha and Hauff (2021): the sensitivity (mean over seeds with its 95 % interval, the baseline dashed) and the
distribution of the weak supervision.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from analysis.configurations import Configuration
from analysis.results import Plan
from analysis.tables import Analysis

COLOURS = ["#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
"""Okabe and Ito's palette: told apart by colour-blind readers too."""
_STYLE: Any = {
    "svg.hashsalt": "analysis",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
}


def draw(analysis: Analysis, folder: Path) -> list[str]:
    """Writes every figure that the study has data for, as PNG and SVG, and returns their names without suffix.

    The same results give the same bytes with the same version of matplotlib.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    names = []
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # not the user's own settings: the same study gives the same figures
        matplotlib.rcParams.update(_STYLE)
        for name, plot in FIGURES.items():
            figure = plot(analysis)
            if figure is not None:
                FigureCanvasAgg(figure)
                figure.savefig(folder / f"{name}.png", dpi=160, metadata={"Software": None})
                figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
                names.append(name)
    return names


def learning_curves(analysis: Analysis) -> Any:
    """Training loss and development metric over instances of each system's chosen configuration; None without any."""
    plan = analysis.results.plan
    keys = {"train/loss": "training loss", f"{plan.search_split}/{plan.metric}": f"{plan.search_split} {plan.metric}"}
    lines = [(name, c) for name, c in analysis.chosen.items() if c is not None and name in plan.systems]
    if not any(_curve(c, plan, key) for _, c in lines for key in keys):
        return None
    figure, axes = _panels(2, (7.0, 3.4), sharex=True)
    switches: dict[float, list[str]] = {}
    for name, configuration in lines:
        colour = _colour(plan, name)
        for axis, key in zip(axes, keys, strict=True):
            if curve := _curve(configuration, plan, key):
                x, mean, spread = curve
                axis.plot(x, mean, color=colour, label=name, marker="o" if len(x) < 12 else None, markersize=3)
                axis.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.13, linewidth=0)
        if (at := _switch_instances(configuration)) is not None:
            switches.setdefault(at, []).append(colour)
    for at, colours in sorted(switches.items()):
        for axis in axes:
            axis.axvline(at, color=colours[0] if len(colours) == 1 else "0.4", linestyle="--", linewidth=1, zorder=0)
    for axis, title in zip(axes, keys.values(), strict=True):
        axis.set(xlabel="training instances", title=title)
        axis.xaxis.set_major_locator(_locator(5))
        axis.margins(x=0.02)
    handles, labels = axes[1].get_legend_handles_labels()
    handles, labels = (handles, labels) if handles else axes[0].get_legend_handles_labels()
    if switches:
        handles, labels = [*handles, axes[0].lines[-1]], [*labels, "switch point"]
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), columnspacing=1.4, handlelength=1.8)
    return figure


def sensitivity(analysis: Analysis) -> Any:
    """Development metric over the strength of smoothing, one panel a variant; None without a smoothed configuration."""
    plan = analysis.results.plan
    points = _points(analysis)
    names = [name for name in plan.systems if name in points]
    if not names:
        return None
    figure, axes = _panels(len(names), (1.1 + 2.0 * len(names), 3.0), sharey=True)
    for axis, name in zip(axes, names, strict=True):
        colour, shown = _colour(plan, name), points[name]
        switches = sorted({c.switch or 0.0 for c, _, _ in shown})
        for place, switch in enumerate([*switches] if len(switches) <= 4 else [None]):
            group = [point for point in shown if switch is None or (point[0].switch or 0.0) == switch]
            joined = switch is not None and len({c.epsilon for c, _, _ in group}) == len(group)
            axis.errorbar(
                [c.epsilon for c, _, _ in group],
                [mean for _, mean, _ in group],
                yerr=[half for _, _, half in group],
                marker="os^D"[place],
                linestyle=("-", "--", ":", "-.")[place] if joined else "",
                label=f"switch {switch or 0:.3g}",
                color=colour,
                capsize=2.5,
                elinewidth=1,
                markersize=4,
                linewidth=1.3,
            )
        if 1 < len(switches) <= 4:
            axis.legend(fontsize=7, handlelength=1.2)
        for c, mean, _ in shown:
            if c == analysis.chosen.get(name):
                axis.plot(c.epsilon, mean, "o", markersize=10, markerfacecolor="none", color=colour)
        _dashed_baseline(axis, analysis)
        axis.set(title=name, xlabel="ε")
        axis.margins(x=0.12)
        axis.xaxis.set_major_locator(_locator(4))
    axes[0].set_ylabel(f"{plan.search_split} {plan.metric}")
    from matplotlib.lines import Line2D

    seeds = f"mean over {len(plan.seeds)} seeds" + (", 95 % interval" if len(plan.seeds) > 1 else "")
    handles = [
        Line2D([], [], marker="o", color="0.4", linestyle="", markersize=4, label=seeds),
        Line2D([], [], marker="o", color="0.4", linestyle="", markersize=9, markerfacecolor="none", label="chosen"),
        Line2D([], [], color="0.4", linestyle="--", linewidth=1, label=plan.systems[0]),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, columnspacing=1.4)
    return figure


def switch_points(analysis: Analysis) -> Any:
    """Development metric, less the baseline's, over strength and switch point; None without a two-stage variant."""
    from matplotlib.colors import TwoSlopeNorm

    plan = analysis.results.plan
    points = {name: [p for p in shown if p[0].switch] for name, shown in _points(analysis).items()}
    names = [name for name in plan.systems if points.get(name)]
    if not names:
        return None
    level = _baseline(analysis)
    gains = {name: [mean - (level or 0.0) for _, mean, _ in points[name]] for name in names}
    flat = [gain for values in gains.values() for gain in values]
    limit = max(max(map(abs, flat)), 1e-6)
    norm = TwoSlopeNorm(0.0, -limit, limit) if level is not None else None
    figure, axes = _panels(len(names), (1.6 + 2.9 * len(names), 3.2), sharex=True, sharey=True)
    for axis, name in zip(axes, names, strict=True):
        x, y = [c.epsilon for c, _, _ in points[name]], [c.switch for c, _, _ in points[name]]
        drawn = axis.scatter(x, y, c=gains[name], norm=norm, cmap="PuOr" if norm else "viridis", s=90,
                             edgecolors="0.3", linewidths=0.6, zorder=2)  # fmt: skip
        for c, gain in zip((c for c, _, _ in points[name]), gains[name], strict=True):
            if c == analysis.chosen.get(name):
                axis.scatter(c.epsilon, c.switch, s=230, facecolors="none", edgecolors="black", linewidths=1.4)
            if len(points[name]) <= 16:
                text = f"{gain:+.3f}" if norm else f"{gain:.3f}"
                axis.annotate(text, (c.epsilon, c.switch), xytext=(0, 10), textcoords="offset points", ha="center",
                              fontsize=7, color="0.25")  # fmt: skip
        axis.set(title=name, xlabel="ε")
        axis.margins(0.18)
        axis.xaxis.set_major_locator(_locator(5))
    axes[0].set_ylabel("switch point (share of training)")
    label = f"{plan.search_split} {plan.metric}" + (f" less {plan.systems[0]}'s" if norm else "")
    figure.colorbar(drawn, ax=list(axes), shrink=0.9).set_label(label, labelpad=8)
    return figure


def weak_labels(analysis: Analysis) -> Any:
    """Distribution of the training negatives' weak labels with its mean; None where the plan does not tell it."""
    spread = (analysis.results.plan.data or {}).get("weak_labels")
    if spread is None:
        return None
    figure, (axis,) = _panels(1, (4.2, 2.8))
    edges = np.linspace(0, 1, len(spread["shares"]) + 1)
    axis.stairs(spread["shares"], edges, fill=True, color=COLOURS[1], alpha=0.5)
    for at, style, label in ((spread["mean"], "-", f"mean {spread['mean']:.2f}"), (0.5, "--", "uniform: 0.5")):
        axis.axvline(at, color="black", linestyle=style, linewidth=1.2, label=label)
    axis.set(xlabel="weak label s of a negative", ylabel="share of the negatives", xlim=(0, 1))
    axis.legend()
    return figure


FIGURES = {
    "learning_curves": learning_curves,
    "epsilon": sensitivity,
    "epsilon_switch": switch_points,
    "weak_labels": weak_labels,
}
"""Name of the files -> what draws them."""
CAPTIONS = {
    "learning_curves": "Chosen configurations: mean over seeds, band ± one standard deviation; dashed: switch point.",
    "epsilon": "Strength of the smoothing on the development set, every complete configuration; the chosen one is "
    "ringed, the baseline dashed.",
    "epsilon_switch": "Strength and switch point on the development set, every complete configuration; the chosen one "
    "is ringed.",
    "weak_labels": "Weak labels of the training negatives; LS is what WSLS would be if every one were 0.5.",
}


def _panels(
    columns: int, size: tuple[float, float], sharex: bool = False, sharey: bool = False
) -> tuple[Any, Sequence[Any]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, list(np.ravel(figure.subplots(1, columns, squeeze=False, sharex=sharex, sharey=sharey)))


def _locator(count: int) -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(count)


def _colour(plan: Plan, name: str) -> str:
    return COLOURS[plan.systems.index(name) % len(COLOURS)]


def _curve(configuration: Configuration, plan: Plan, key: str) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Instances, mean and standard deviation over seeds, where every seed has a value; None if some seed has none."""
    curves = []
    for seed in configuration.expected(plan):
        run = configuration.runs.get(seed)
        rows = run.history if run is not None and run.finished else []
        curves.append({float(row["instances"]): float(row[key]) for row in rows if _finite(row.get(key))})
    x = sorted(set.intersection(*map(set, curves))) if curves else []
    if not x:
        return None
    values = np.array([[curve[at] for at in x] for curve in curves])
    spread = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(len(x))
    return np.array(x), values.mean(axis=0), spread


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _switch_instances(configuration: Configuration) -> float | None:
    if not configuration.switch:
        return None
    run = next(iter(configuration.runs.values()))
    training = (run.config.get("specification") or {}).get("training") or {}
    total = training.get("instances") or max((row["instances"] for row in run.history), default=0)
    return float(configuration.switch * total) if total else None


def _points(analysis: Analysis) -> dict[str, list[tuple[Configuration, float, float]]]:
    """System -> its complete smoothed configurations with mean and half-width of the 95 % interval over seeds."""
    from scipy import stats

    plan, points = analysis.results.plan, dict[str, list[tuple[Configuration, float, float]]]()
    for configuration in analysis.found:
        values = configuration.values(plan, plan.search_split) if configuration.epsilon else None
        if values is not None and configuration.system in plan.systems:
            seeds = values.mean(axis=1)
            half = 0.0
            if len(seeds) > 1:
                half = float(stats.t.ppf(0.975, len(seeds) - 1) * seeds.std(ddof=1) / math.sqrt(len(seeds)))
            points.setdefault(configuration.system, []).append((configuration, float(seeds.mean()), half))
    return points


def _baseline(analysis: Analysis) -> float | None:
    plan = analysis.results.plan
    configuration = analysis.chosen.get(plan.systems[0])
    values = configuration.values(plan, plan.search_split) if configuration else None
    return None if values is None else float(values.mean())


def _dashed_baseline(axis: Any, analysis: Analysis) -> None:
    level = _baseline(analysis)
    if level is not None:
        axis.axhline(level, color="0.4", linestyle="--", linewidth=1, zorder=0)
