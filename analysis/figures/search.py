"""Figures of a search: all configurations side by side, what matters, and what several objectives cost each other."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from analysis.data.configurations import format_value
from analysis.data.search_log import ParamValue, Proposal, SystemSearchLog
from analysis.figures.style import get_colour, subplots
from analysis.tables.main import ReportData
from trainables.metrics import LOWER_IS_BETTER

_PALETTE = "viridis"
_WORDS = 8
"""Most numbers of an axis that are written beside it; names all are."""
_BAND = 0.74
"""Share of a value's place that its lines spread over."""


class _Axis(NamedTuple):
    """A hyperparameter of the parallel coordinates: its values from the bottom up; None: no such setting."""

    name: str
    values: list[ParamValue | None]

    def place(self, proposal: Proposal, rank: float) -> float:
        """Between 0 and 1; `rank` is 0 for the worst configuration and 1 for the best."""
        at = self.values.index(proposal.values.get(self.name))
        return (at + 0.5 + _BAND * (rank - 0.5)) / len(self.values)


def parallel_coordinates(analysis: ReportData) -> Any:
    """Every configuration of each searched system as a line through its hyperparameters to its score.

    One panel a system with several hyperparameters and at least two complete configurations; None without any.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    plan = analysis.results.plan
    shown = {name: search for name, search in _select_searches(analysis, 2).items() if len(search.grid) > 1}
    if not shown:
        return None
    figure, axes = subplots(1, (7.2, 0.6 + 2.3 * len(shown)), rows=len(shown))
    for axis, (name, search) in zip(axes, shown.items(), strict=True):
        complete = search.get_complete(plan.search_objectives)
        scores = _scores(complete, plan.metric)
        norm = Normalize(min(scores), max(scores) if max(scores) > min(scores) else min(scores) + 1e-6)
        _lines(axis, search, complete, scores, norm)
        axis.set_title(name, loc="left", fontweight="bold", pad=17)
        lost = len(search.proposals) - len(complete) - len(search.get_proposals("dropped"))
        if lost:
            axis.set_title(f"{lost} not complete, left out", loc="right", fontsize=7, color="0.4", pad=17)
        bar = figure.colorbar(ScalarMappable(norm, _PALETTE), ax=axis, pad=0.0, fraction=0.025, aspect=22)
        bar.outline.set_visible(False)
        bar.set_label(f"{plan.search_split} {plan.metric}", fontsize=8)
        bar.ax.tick_params(labelsize=7)
    figure.legend(handles=_line_handles(shown), loc="outside lower center", ncols=3, columnspacing=1.4)
    return figure


def importance(analysis: ReportData) -> Any:
    """Importance of each hyperparameter as a bar, one panel a system; None where nothing can be said of any."""
    plan, rows = analysis.results.plan, analysis.importances
    names = list(dict.fromkeys(row.system for row in rows if row.shares))
    if not names:
        return None
    objectives = plan.search_objectives
    most = max(sum(row.system == name for row in rows) for name in names)
    size = (1.0 + 2.4 * len(names), 1.2 + 0.32 * most * max(1.0, 0.6 * len(objectives)))
    figure, axes = subplots(len(names), size, sharex=True)
    height = 0.72 / len(objectives)
    for axis, name in zip(axes, names, strict=True):
        own = [row for row in rows if row.system == name]
        for place, row in enumerate(own):
            for number, objective in enumerate(objectives):
                at = place + (number - (len(objectives) - 1) / 2) * height
                if row.shares:
                    share = row.shares[objective]
                    axis.barh(
                        at, share, height * 0.92, color=get_colour(plan, name), alpha=1.0 if number == 0 else 0.45
                    )
                    axis.annotate(f"{share:.2f}", (share, at), xytext=(3, 0), textcoords="offset points", va="center",
                                  fontsize=7)  # fmt: skip
            if not row.shares:
                axis.annotate(row.reason.split(",")[0], (0, place), xytext=(3, 0), textcoords="offset points",
                              va="center", fontsize=7, color="0.4")  # fmt: skip
        axis.set_yticks(range(len(own)), [row.hyperparameter.replace("_", " ") for row in own])
        axis.set(title=name, xlim=(0, 1.16), xticks=(0, 0.5, 1), ylim=(len(own) - 0.4, -0.6))
        axis.set_xlabel("share of variance")
    if len(objectives) > 1:
        from matplotlib.patches import Patch

        handles = [
            Patch(color="0.35", alpha=1.0 if number == 0 else 0.45, label=objective)
            for number, objective in enumerate(objectives)
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def pareto_front(analysis: ReportData) -> Any:
    """The first two objectives of each searched system's configurations; None with one objective."""
    plan = analysis.results.plan
    shown = _select_searches(analysis, 1)
    if len(plan.search_objectives) < 2 or not shown:
        return None
    first, second = plan.search_objectives[:2]
    figure, axes = subplots(len(shown), (1.2 + 2.5 * len(shown), 3.2), sharex=True, sharey=True)
    for axis, (name, search) in zip(axes, shown.items(), strict=True):
        colour, complete = get_colour(plan, name), search.get_complete(plan.search_objectives)
        best = {p.configuration_id: p for p in complete}
        axis.scatter(_scores(complete, second), _scores(complete, first), s=20, color=colour, alpha=0.45, linewidths=0)
        on_front = [best[key] for key in search.front if key in best]
        front = sorted(zip(_scores(on_front, second), _scores(on_front, first), strict=True))
        x, y = [point[0] for point in front], [point[1] for point in front]
        line = {2: "-"}.get(len(plan.search_objectives), "")
        axis.plot(x, y, marker="o", markersize=5, color=colour, linestyle=line, linewidth=1.4,
                  drawstyle="steps-post" if second in LOWER_IS_BETTER else "steps-pre")  # fmt: skip
        if search.winner in best:
            (at_x,), (at_y,) = (_scores([best[search.winner]], objective) for objective in (second, first))
            axis.plot(at_x, at_y, "o", markersize=11, markerfacecolor="none", color="black", markeredgewidth=1.3)
        lost = [p for p in search.get_proposals("dropped") if p.objectives and {first, second} <= p.objectives.keys()]
        axis.scatter(_scores(lost, second), _scores(lost, first), s=20, marker="x", color="0.5", linewidths=0.9)
        left_out = len(search.proposals) - len(complete) - len(lost)
        if left_out:
            axis.annotate(f"{left_out} not complete, left out", (0.98, 0.02), xycoords="axes fraction", ha="right",
                          fontsize=7, color="0.4")  # fmt: skip
        axis.set(title=name, xlabel=_format_names(plan.search_split, second))
        axis.margins(0.1)
    axes[0].set_ylabel(_format_names(plan.search_split, first))
    figure.legend(handles=_point_handles(), loc="outside lower center", ncols=4, columnspacing=1.2)
    return figure


def _select_searches(analysis: ReportData, least: int) -> dict[str, SystemSearchLog]:
    """The searched systems of the plan that have a hyperparameter to show and so many complete configurations."""
    plan, search = analysis.results.plan, analysis.results.search
    searches = search.systems if search else {}
    own = {name: searches[name] for name in plan.systems if name in searches}
    return {name: s for name, s in own.items() if s.grid and len(s.get_complete(plan.search_objectives)) >= least}


def _scores(proposals: Sequence[Proposal], objective: str) -> list[float]:
    return [p.objectives[objective] for p in proposals if p.objectives is not None]


def _lines(axis: Any, search: SystemSearchLog, complete: list[Proposal], scores: list[float], norm: Any) -> None:
    """The lines of a panel, the best drawn last; the score is the axis at the right, with the colour bar's ticks."""
    from matplotlib.collections import LineCollection

    lost = search.get_proposals("dropped")
    drawn = [_axis(search, name, [*complete, *lost]) for name in search.grid]
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(len(scores))
    ranks[order] = np.linspace(0, 1, len(scores))
    paths = [
        [(x, one.place(p, rank)) for x, one in enumerate(drawn)] + [(len(drawn), float(norm(score)))]
        for p, rank, score in zip(complete, ranks, scores, strict=True)
    ]
    thin = 0.6 if len(paths) > 100 else 1.1
    axis.add_collection(
        LineCollection([[(x, one.place(p, 0.0)) for x, one in enumerate(drawn)] for p in lost], colors="0.75",
                       linewidths=thin, linestyles=":", zorder=1)
    )  # fmt: skip
    lines = LineCollection([paths[place] for place in order], cmap=_PALETTE, norm=norm, linewidths=thin, zorder=2,
                           alpha=0.5 if len(paths) > 100 else 0.85)  # fmt: skip
    lines.set_array(np.array(scores)[order])
    axis.add_collection(lines)
    for p, path in zip(complete, paths, strict=True):
        style = "-" if p.configuration_id == search.winner else "--" if p.untuned else ""
        if style:
            axis.plot(*zip(*path, strict=True), color="black", linestyle=style, linewidth=1.4, zorder=3)
    for x, one in enumerate(drawn):
        axis.axvline(x, color="0.35", linewidth=0.8, zorder=0)
        apart = 1 if any(isinstance(value, str) for value in one.values) else math.ceil(len(one.values) / _WORDS)
        for number, value in list(enumerate(one.values))[::apart]:
            axis.annotate(_word(one.name, value), (x, (number + 0.5) / len(one.values)), xytext=(4, 0), fontsize=7,
                          textcoords="offset points", va="center", color="0.15", zorder=4,
                          bbox={"boxstyle": "round,pad=0.12", "fc": "white", "ec": "none", "alpha": 0.75})  # fmt: skip
        axis.annotate(one.name.replace("_", " "), (x, 1.03), ha="center" if x else "left", fontsize=8,
                      annotation_clip=False)  # fmt: skip
    axis.set(xlim=(-0.006 * len(drawn), len(drawn)), ylim=(0, 1.0), xticks=(), yticks=())
    for side in ("left", "bottom"):
        axis.spines[side].set_visible(False)


def _axis(search: SystemSearchLog, name: str, proposals: list[Proposal]) -> _Axis:
    tried = {p.values[name] for p in proposals if name in p.values}
    known: list[ParamValue] = sorted({*search.grid[name], *tried}, key=lambda value: (isinstance(value, str), value))
    lacking: list[ParamValue | None] = [None] if any(name not in p.values for p in proposals) else []
    return _Axis(name, [*lacking, *known])


def _word(name: str, value: ParamValue | None) -> str:
    return "none" if value is None else format_value(name, value)


def _format_names(split: str, objective: str) -> str:
    return f"{split} {objective}" + (" (less is better)" if objective in LOWER_IS_BETTER else "")


def _line_handles(shown: dict[str, SystemSearchLog]) -> list[Any]:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color="black", label="chosen")]
    if any(p.untuned for search in shown.values() for p in search.get_proposals("complete")):
        handles.append(Line2D([], [], color="black", linestyle="--", label="untuned"))
    if any(search.get_proposals("dropped") for search in shown.values()):
        handles.append(Line2D([], [], color="0.75", linestyle=":", label="dropped by the race"))
    return handles


def _point_handles() -> list[Any]:
    from matplotlib.lines import Line2D

    grey: dict[str, Any] = {"color": "0.4", "linestyle": ""}
    return [
        Line2D([], [], marker="o", markersize=4, alpha=0.45, label="complete", **grey),
        Line2D([], [], marker="o", markersize=5, color="0.4", label="Pareto front"),
        Line2D([], [], marker="o", markersize=9, markerfacecolor="none", label="chosen", **(grey | {"color": "black"})),
        Line2D([], [], marker="x", markersize=5, label="dropped by the race", **grey),
    ]
