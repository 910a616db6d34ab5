"""The figures of a study, and the two that are not of its search: learning curves and weak labels.

That of the weak supervision's distribution follows Penha and Hauff (2021).
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from analysis import effects, reliability, search_figures, smoothing_figures
from analysis.configurations import Configuration
from analysis.drawing import COLOURS, STYLE, colour_of, locator, panels
from analysis.plan import Plan
from analysis.tables import Analysis

_DPI = 160
"""Of the PNG files."""


def draw(analysis: Analysis, folder: Path) -> list[str]:
    """Writes every figure that the study has data for, as PNG and SVG, and returns their names without suffix.

    The same results give the same bytes with the same version of matplotlib.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    names = []
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # not the user's own settings: the same study gives the same figures
        matplotlib.rcParams.update(STYLE)
        for name, plot in FIGURES.items():
            figure = plot(analysis)
            if figure is not None:
                FigureCanvasAgg(figure)
                figure.dpi = _DPI
                figure.get_layout_engine().execute(figure)
                figure.set_layout_engine(None)  # laid out once: else each file is drawn twice, once to lay it out
                figure.savefig(folder / f"{name}.png", dpi=_DPI, metadata={"Software": None})
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
    figure, axes = panels(2, (7.0, 3.4), sharex=True)
    switches: dict[float, list[str]] = {}
    for name, configuration in lines:
        colour = colour_of(plan, name)
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
        axis.xaxis.set_major_locator(locator(5))
        axis.margins(x=0.02)
    handles, labels = axes[1].get_legend_handles_labels()
    handles, labels = (handles, labels) if handles else axes[0].get_legend_handles_labels()
    if switches:
        handles, labels = [*handles, axes[0].lines[-1]], [*labels, "switch point"]
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), columnspacing=1.4, handlelength=1.8)
    return figure


def weak_labels(analysis: Analysis) -> Any:
    """Distribution of the training negatives' weak labels with its mean; None where the plan does not tell it."""
    spread = (analysis.results.plan.data or {}).get("weak_labels")
    if spread is None:
        return None
    figure, (axis,) = panels(1, (4.2, 2.8))
    edges = np.linspace(0, 1, len(spread["shares"]) + 1)
    axis.stairs(spread["shares"], edges, fill=True, color=COLOURS[1], alpha=0.5)
    for at, style, label in ((spread["mean"], "-", f"mean {spread['mean']:.2f}"), (0.5, "--", "uniform: 0.5")):
        axis.axvline(at, color="black", linestyle=style, linewidth=1.2, label=label)
    axis.set(xlabel="weak label s of a negative", ylabel="share of the negatives", xlim=(0, 1))
    axis.legend()
    return figure


FIGURES: dict[str, Callable[[Analysis], Any]] = {
    "effects": effects.effects,
    "learning_curves": learning_curves,
    "epsilon": smoothing_figures.sensitivity,
    "epsilon_switch": smoothing_figures.switch_points,
    "weak_labels": weak_labels,
    "reliability": reliability.diagram,
    "parallel_coordinates": search_figures.parallel_coordinates,
    "importance": search_figures.importance,
    "pareto_front": search_figures.pareto_front,
}
"""Name of the files -> what draws them."""
CAPTIONS = {
    "effects": "Declared comparisons: mean difference on the test split with its interval, which holds for all of a "
    "family at once. Triangle up: better, down: worse; square: equivalent; hollow circle: undecided. Each family has a "
    "scale of its own; a grey band is the margin within which differences do not matter.",
    "reliability": "Chosen configurations on the test split, all seeds pooled: share of relevant candidates by the "
    "probability they were given; on the dashed line a system is calibrated. Grey: how many candidates a bin has, the "
    "fullest a quarter of the height.",
    "learning_curves": "Chosen configurations: mean over seeds, band ± one standard deviation; dashed: switch point.",
    "epsilon": "Strength of the smoothing on the development set, every complete configuration; the chosen one is "
    "ringed, the baseline dashed.",
    "epsilon_switch": "Strength and switch point on the development set, every complete configuration; the chosen one "
    "is ringed. Configurations that share a place are shown by their mean; between the points colours are "
    "interpolated. A cross: only such as the race dropped.",
    "weak_labels": "Weak labels of the training negatives; LS is what WSLS would be if every one were 0.5.",
    "parallel_coordinates": "Every configuration that was searched and is complete, best on top; within a value the "
    "better run higher. Grey: dropped by the race. none: the schedule has no such "
    "setting.",
    "importance": "Share of the variance of the development score over the searched space that a hyperparameter "
    "explains by itself (fANOVA); what is missing to 1 is interaction.",
    "pareto_front": "Configurations by two objectives; the line joins those that no other beats in both. A cross is "
    "one that the race dropped, at its mean over fewer seeds.",
}


def _curve(configuration: Configuration, plan: Plan, key: str) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Instances, mean and standard deviation over seeds, where every seed has a value; None if some seed has none."""
    curves = []
    for seed in configuration.expected(plan, "search"):
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
