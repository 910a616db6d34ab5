"""Figure of the declared comparisons: each difference with its interval and verdict."""

from collections.abc import Sequence
from typing import Any

from analysis.figures.style import VERDICT_STYLES, add_legend, subplots
from analysis.tables.main import ReportData
from trainables.metrics import LOWER_IS_BETTER


def plot_effects(analysis: ReportData) -> Any:
    """Plot the mean difference of every declared comparison with its simultaneous interval.

    One panel a family, each with its own scale; comparisons are grouped by baseline. None if no comparison is
    complete.
    """
    plan = analysis.results.plan
    splits = " or ".join(dict.fromkeys(plan.get_split(family.phase) for family in plan.families))
    return draw_effects(
        analysis.comparisons, [family.name for family in plan.families], plan.metric, plan.margin, splits
    )


def draw_effects(
    comparisons: Sequence[Any], families: Sequence[str], metric: str, margin: float | None, split: str
) -> Any:
    """Draw comparisons with one panel a family. None if none is complete.

    Args:
        comparisons: the comparisons of all families: family, metric, system, baseline, difference, interval, verdict.
        families: names of the families, from top to bottom.
        metric: metric of the plan.
        margin: largest difference that does not matter. If None, no band is drawn.
        split: split of the scores, for the label of the axis.
    """
    grouped = {name: _group_by_baseline(comparisons, name) for name in families}
    if all(c.difference is None for c in comparisons):
        return None
    heights = [1.0 + sum(len(own) for own in groups) + 0.6 * (len(groups) - 1) for groups in grouped.values()]
    figure, axes = subplots(
        1, (6.4, 0.7 + 0.3 * sum(heights) + 0.35 * len(heights)), rows=len(grouped), heights=heights
    )
    for axis, (name, groups) in zip(axes, grouped.items(), strict=True):
        positions, labels, position = [], [], 0.0
        for group in groups:
            for c in group:
                _draw_comparison(axis, c, position)
                positions.append(position)
                labels.append(f"{c.system} \N{MINUS SIGN} {c.baseline}" + _format_metric(c, metric))
                position += 1
            position += 0.6
        axis.axvline(0, color="0.2", linewidth=1, zorder=0)
        if margin:
            axis.axvspan(-margin, margin, color="0.93", zorder=-1)
        axis.set_yticks(positions, labels)
        axis.set(ylim=(position - 0.6 - 0.4, -0.6), title=name)
        axis.tick_params(axis="y", length=0)
        axis.spines["left"].set_visible(False)
        axis.margins(x=0.08)
    better = "lower" if metric in LOWER_IS_BETTER else "higher"
    axes[-1].set_xlabel(f"difference in {split} {metric} ({better} is better)")
    add_legend(figure, handles=_make_handles(comparisons), ncols=4, columnspacing=1.4)
    return figure


def _format_metric(c: Any, metric: str) -> str:
    return "" if c.metric == metric else f", {c.metric.removeprefix(f'{metric}/')}"


def _group_by_baseline(comparisons: Sequence[Any], family: str) -> list[list[Any]]:
    groups: dict[str, list[Any]] = {}
    for c in comparisons:
        if c.family == family:
            groups.setdefault(c.baseline, []).append(c)
    return list(groups.values())


def _draw_comparison(axis: Any, c: Any, position: float) -> None:
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
    axis.annotate(text, (1.01, position), xycoords=("axes fraction", "data"), va="center", fontsize=8, color="0.25",
                  annotation_clip=False)  # fmt: skip


def _make_handles(comparisons: Sequence[Any]) -> list[Any]:
    from matplotlib.lines import Line2D

    verdicts = {c.verdict for c in comparisons if c.difference is not None}
    return [
        Line2D([], [], linestyle="", label=verdict, **style)
        for verdict, style in VERDICT_STYLES.items()
        if verdict in verdicts
    ]
