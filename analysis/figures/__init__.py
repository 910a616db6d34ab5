"""The figures of a study, and the one of its weak labels, which follows Penha and Hauff (2021)."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from analysis.figures import (
    effects,
    reliability,
    slices,
)
from analysis.figures import (
    learning_curves as curves,
)
from analysis.figures import (
    search as search_figures,
)
from analysis.figures import (
    smoothing as smoothing_figures,
)
from analysis.figures import (
    strata as strata_figure,
)
from analysis.figures.style import COLOURS, save_figures, subplots
from analysis.tables.main import ReportData


def draw_figures(analysis: ReportData, folder: Path) -> list[str]:
    """Writes every figure that the study has data for, as PNG and SVG, and returns their names without suffix.

    The same results give the same bytes with the same version of matplotlib.
    """
    return save_figures({name: partial(plot, analysis) for name, plot in FIGURES.items()}, folder)


def plot_weak_labels(analysis: ReportData) -> Any:
    """Distribution of the training negatives' weak labels with its mean; None where the plan does not tell it."""
    spread = (analysis.results.plan.data or {}).get("weak_labels")
    if spread is None:
        return None
    figure, (axis,) = subplots(1, (4.2, 2.8))
    edges = np.linspace(0, 1, len(spread["shares"]) + 1)
    axis.stairs(spread["shares"], edges, fill=True, color=COLOURS[1], alpha=0.5)
    for at, style, label in ((spread["mean"], "-", f"mean {spread['mean']:.2f}"), (0.5, "--", "uniform: 0.5")):
        axis.axvline(at, color="black", linestyle=style, linewidth=1.2, label=label)
    axis.set(xlabel="weak label s of a negative", ylabel="share of the negatives", xlim=(0, 1))
    axis.legend()
    return figure


FIGURES: dict[str, Callable[[ReportData], Any]] = {
    "effects": effects.plot_effects,
    "learning_curves": curves.plot_learning_curves,
    "epsilon": smoothing_figures.plot_strength_sensitivity,
    "epsilon_switch": smoothing_figures.plot_contour,
    "hyperparameters": slices.slices,
    "weak_labels": plot_weak_labels,
    "reliability": reliability.plot_reliability,
    "strata": strata_figure.plot_strata,
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
    "learning_curves": "Chosen configurations: mean over seeds, band ± one standard deviation (none with more than "
    "six systems); a star: the best point of a curve; dashed and upright: switch point.",
    "strata": "The first baseline and the best other system on the development set, by whatever is known of the "
    "queries: mean with its 95 % interval, which is not corrected for their number.",
    "epsilon": "Strength of the smoothing on the development set, every complete configuration; the chosen one is "
    "ringed, the baseline dashed.",
    "epsilon_switch": "Strength and switch point on the development set, every complete configuration; the chosen one "
    "is ringed. Configurations that share a place are shown by their mean; between the points colours are "
    "interpolated. A cross: only such as the race dropped.",
    "hyperparameters": "Single hyperparameters on the development set: mean over seeds with its 95 % interval, without "
    "it where several configurations share a value; the chosen one is ringed, the baseline dashed.",
    "weak_labels": "Weak labels of the training negatives; were every one 0.5, smoothing by them would be uniform.",
    "parallel_coordinates": "Every configuration that was searched and is complete, best on top; within a value the "
    "better run higher. Grey: dropped by the race. none: the schedule has no such "
    "setting.",
    "importance": "Share of the variance of the development score over the searched space that a hyperparameter "
    "explains by itself (fANOVA); what is missing to 1 is interaction.",
    "pareto_front": "Configurations by two objectives; the line joins those that no other beats in both. A cross is "
    "one that the race dropped, at its mean over fewer seeds.",
}
