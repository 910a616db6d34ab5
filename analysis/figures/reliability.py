"""Reliability diagrams: share of relevant candidates by the probability that a system predicts.

DeGroot and Fienberg (1983), "The comparison and evaluation of forecasters".
"""

from typing import Any

import numpy as np

from analysis.data.configurations import Configuration
from analysis.figures.style import get_colour, make_panels
from analysis.tables.main import ReportData
from records.plan import Plan
from records.scores import read_scores_and_labels
from trainables.metrics import expected_calibration_error, reliability_curve
from trainables.utils.arrays import Floats


def plot_reliability(analysis: ReportData) -> Any:
    """Plot the chosen configuration of every system on the test split, all seeds pooled.

    None if no configuration is complete. None also for sentence pairs, because gold similarities are no relevance
    labels, and for scores that are a single logit, because no probability follows from it.
    """
    plan = analysis.results.plan
    if plan.unit != "query":
        return None
    pooled_scores = {
        name: _pool_scores(plan, c) for name in plan.systems if (c := analysis.chosen.get(name)) is not None
    }
    shown = {name: pooled for name, pooled in pooled_scores.items() if pooled is not None}
    if not shown:
        return None
    figure, axes = make_panels(len(shown), (2.3, 2.5), 0.5, are_shared=True)
    for axis, (name, (scores, relevant)) in zip(axes, shown.items(), strict=True):
        curve, error = reliability_curve(scores, relevant), expected_calibration_error(scores, relevant)
        largest, filled = curve.candidates.max(), curve.candidates > 0
        edges = np.linspace(0, 1, len(curve.candidates) + 1)
        axis.stairs(0.25 * curve.candidates / largest, edges, fill=True, color="0.85", zorder=0)
        axis.plot([0, 1], [0, 1], color="0.4", linestyle="--", linewidth=1, zorder=1)
        colour = get_colour(plan, name)
        axis.plot(curve.probability[filled], curve.relevant[filled], marker="o", markersize=4, color=colour)
        axis.set(title=f"{name}, ECE {error:.3f}", xlim=(0, 1), ylim=(0, 1), aspect="equal")
        text_style = {"xycoords": "axes fraction", "va": "top", "fontsize": 7, "color": "0.35"}
        axis.annotate(f"fullest bin: {largest:,}", (0.03, 0.98), **text_style)
    figure.supxlabel("probability of relevance", fontsize=9)
    figure.supylabel("share relevant", fontsize=9)
    return figure


def _pool_scores(plan: Plan, configuration: Configuration) -> tuple[Floats, Floats] | None:
    """Return scores and relevance over all seeds.

    None if a run is missing, if the system has no seeds, because its scores are no logits, or if no probability follows
    from its scores.
    """
    seeds, split = configuration.expected_seeds(plan, "test"), plan.test_split
    if seeds == [None] or configuration.find_faults(plan, "test"):
        return None
    if not all(configuration.runs[seed].has_probabilities for seed in seeds):
        return None
    columns = [read_scores_and_labels(configuration.runs[seed].files[split], split) for seed in seeds]
    return np.concatenate([scores for scores, _ in columns]), np.concatenate([relevant for _, relevant in columns])
