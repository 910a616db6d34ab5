"""The figures of a study, and the one of its weak labels, after Penha and Hauff (2021)."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from analysis.figures import (
    compared_values,
    effects,
    equal_rankers,
    learning_curves,
    reliability,
    smoothing,
    strata_panels,
)
from analysis.figures.style import COLOURS, save_figures, subplots
from analysis.tables.main import ReportData


def draw_figures(analysis: ReportData, folder: Path) -> list[str]:
    """Write every figure that the study has data for, as PNG and SVG; return their names without suffix.

    The same results give the same bytes with the same version of matplotlib.
    """
    return save_figures({name: partial(plot, analysis) for name, plot in FIGURES.items()}, folder)


def plot_weak_labels(analysis: ReportData) -> Any:
    """Plot the distribution of the training negatives' weak labels with its mean.

    None if the plan does not contain it.
    """
    weak_labels = (analysis.results.plan.data or {}).get("weak_labels")
    if weak_labels is None:
        return None
    figure, (axis,) = subplots(1, (4.2, 2.8))
    edges = np.linspace(0, 1, len(weak_labels["shares"]) + 1)
    axis.stairs(weak_labels["shares"], edges, fill=True, color=COLOURS[1], alpha=0.5)
    for at, style, label in (
        (weak_labels["mean"], "-", f"mean {weak_labels['mean']:.2f}"),
        (0.5, "--", "uniform: 0.5"),
    ):
        axis.axvline(at, color="black", linestyle=style, linewidth=1.2, label=label)
    axis.set(xlabel="weak label s of a negative", ylabel="share of the negatives", xlim=(0, 1))
    axis.legend()
    return figure


FIGURES: dict[str, Callable[[ReportData], Any]] = {
    "effects": effects.plot_effects,
    "equal_rankers": equal_rankers.plot_equal_rankers,
    "compared": compared_values.plot_compared_values,
    "learning_curves": learning_curves.plot_learning_curves,
    "epsilon": smoothing.plot_strength_sensitivity,
    "weak_labels": plot_weak_labels,
    "reliability": reliability.plot_reliability,
    "strata": strata_panels.plot_strata,
}
"""Name of the files -> function that plots the figure."""
FIGURE_FILES = [f"{name}.{suffix}" for name in FIGURES for suffix in ("png", "svg")]
"""Files that `draw_figures` may write."""
CAPTIONS = {
    "effects": "Differences with their intervals, which hold for all comparisons at once. A grey band is the declared "
    "margin: smaller differences do not matter.",
    "equal_rankers": "Share of the pairs of seeds of one system that the usual test over queries calls different, on "
    "random parts of the queries. Dashed: its level.",
    "compared": "One system for each value of a hyperparameter, chosen over the other hyperparameters, on the test "
    "split: mean over seeds with its 95 % interval. Dashed: the baseline.",
    "reliability": "Chosen configurations on the test split, all seeds pooled: share of relevant candidates by "
    "predicted probability. On the dashed line a system is calibrated. Grey: number of candidates in a bin; the "
    "fullest bin has a quarter of the height.",
    "learning_curves": "Chosen configurations: mean over seeds, with a band of ± one standard deviation for up to six "
    "systems. Star: the best point of a curve. Dashed vertical line: switch point.",
    "strata": "The first baseline and the best other system on the development set, by attributes of the queries: mean "
    "with its 95 % interval, not corrected for the number of strata.",
    "epsilon": "Strength of the smoothing on the development set, for every complete configuration. Ring: the chosen "
    "configuration. Dashed: the baseline.",
    "weak_labels": "Weak labels of the training negatives. If all were 0.5, smoothing by them would be uniform.",
}
