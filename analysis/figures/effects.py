"""Figure of the declared comparisons: each difference with its interval and verdict."""

from collections.abc import Sequence
from typing import Any

from analysis.comparisons.declared import select_headline_comparisons
from analysis.figures.style import VERDICT_STYLES, subplots
from analysis.stats.comparison import Comparison
from analysis.tables.main import ReportData
from trainables.metrics import LOWER_IS_BETTER


def plot_effects(analysis: ReportData) -> Any:
    """Plot the mean difference of every headline comparison with its simultaneous interval, in the order of the table.

    Comparisons with one baseline stand together. None if no comparison is complete.
    """
    plan = analysis.results.plan
    comparisons = select_headline_comparisons(plan, analysis.comparisons)
    if all(c.difference is None for c in comparisons):
        return None
    groups = _group_by_baseline(comparisons)
    height = 1.0 + len(comparisons) + 0.6 * (len(groups) - 1)
    figure, (axis,) = subplots(1, (4.8, 0.8 + 0.3 * height))
    positions, labels, position = list[float](), list[str](), 0.0
    for baseline, group in groups.items():
        for c in group:
            _draw_comparison(axis, c, position)
            positions.append(position)
            pair = c.system if len(groups) == 1 else f"{c.system} \N{MINUS SIGN} {baseline}"
            labels.append(pair + ("" if c.metric == plan.metric else f", {c.metric.removeprefix(f'{plan.metric}/')}"))
            position += 1
        position += 0.6
    axis.axvline(0, color="0.2", linewidth=1, zorder=0)
    if plan.margin:
        axis.axvspan(-plan.margin, plan.margin, color="0.93", zorder=-1)
    axis.set_yticks(positions, labels)
    axis.set(ylim=(position - 0.6 - 0.4, -0.6))
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    axis.margins(x=0.08)
    better = "lower" if plan.metric in LOWER_IS_BETTER else "higher"
    other = f" from {comparisons[0].baseline}" if len(groups) == 1 else ""
    split = plan.get_split(plan.headline.phase)
    axis.set_xlabel(f"difference{other} in {split} {plan.metric} ({better} is better)")
    return figure


def _group_by_baseline(comparisons: Sequence[Comparison]) -> dict[str, list[Comparison]]:
    groups: dict[str, list[Comparison]] = {}
    for c in comparisons:
        groups.setdefault(c.baseline, []).append(c)
    return groups


def _draw_comparison(axis: Any, c: Comparison, position: float) -> None:
    if c.difference is None:
        text = "incomplete"
    else:
        style, text = VERDICT_STYLES[c.verdict], c.verdict
        if c.interval:
            axis.plot(
                c.interval,
                [position, position],
                color=style["color"],
                linewidth=1.6,
                marker="|",
                markersize=6,
                zorder=1,
            )
        axis.plot(c.difference, position, linestyle="", zorder=2, **style)
    axis.annotate(text, (1.01, position), xycoords=("axes fraction", "data"), va="center", fontsize=9, color="0.25",
                  annotation_clip=False)  # fmt: skip
