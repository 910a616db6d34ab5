"""Figure of the declared comparisons: each difference with its interval and verdict."""

from collections.abc import Sequence
from typing import Any

from analysis.comparisons.declared import select_headline_comparisons
from analysis.figures.style import VERDICT_STYLES, subplots
from analysis.tables.main import ReportData
from trainables.metrics import LOWER_IS_BETTER


def plot_effects(analysis: ReportData) -> Any:
    """Plot the mean difference of every headline comparison with its simultaneous interval, in the order of the table.

    None if no comparison is complete.
    """
    plan, family = analysis.results.plan, analysis.results.plan.headline
    headlines = select_headline_comparisons(plan, analysis.comparisons)
    return draw_effects(headlines, [family.name], plan.metric, plan.margin, plan.get_split(family.phase))


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
    figure, axes = subplots(1, (4.8, 0.5 + 0.3 * sum(heights) + 0.3 * len(heights)), rows=len(grouped), heights=heights)
    has_one_baseline = len({c.baseline for c in comparisons}) == 1
    for axis, (name, groups) in zip(axes, grouped.items(), strict=True):
        positions, labels, position = [], [], 0.0
        for group in groups:
            for c in group:
                _draw_comparison(axis, c, position)
                positions.append(position)
                pair = c.system if has_one_baseline else f"{c.system} \N{MINUS SIGN} {c.baseline}"
                labels.append(pair + _format_metric(c, metric))
                position += 1
            position += 0.6
        axis.axvline(0, color="0.2", linewidth=1, zorder=0)
        if margin:
            axis.axvspan(-margin, margin, color="0.93", zorder=-1)
        axis.set_yticks(positions, labels)
        axis.set(ylim=(position - 0.6 - 0.4, -0.6), title=name if len(grouped) > 1 else "")
        axis.tick_params(axis="y", length=0)
        axis.spines["left"].set_visible(False)
        axis.margins(x=0.08)
    better = "lower" if metric in LOWER_IS_BETTER else "higher"
    other = f" from {comparisons[0].baseline}" if has_one_baseline else ""
    axes[-1].set_xlabel(f"difference{other} in {split} {metric} ({better} is better)")
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
    axis.annotate(text, (1.01, position), xycoords=("axes fraction", "data"), va="center", fontsize=9, color="0.25",
                  annotation_clip=False)  # fmt: skip
