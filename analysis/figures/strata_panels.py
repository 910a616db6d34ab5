"""Figure of the error analysis: one panel an attribute of the queries, after Penha and Hauff (2020)."""

from typing import Any

import numpy as np

from analysis.figures.style import add_legend, get_colour, make_panels
from analysis.tables.main import ReportData
from analysis.tables.query_strata import QueryAttribute
from analysis.tables.strata import StrataTable

_SPACING = 0.22
"""Distance between the two systems' points, as a share of the distance between strata."""
_MAX_UPRIGHT_LETTERS = 5
"""Most letters of a name that is written horizontally below a panel with many strata."""


def plot_strata(analysis: ReportData) -> Any:
    """Plot mean and 95 % interval of the two shown systems for each stratum; None without strata."""
    plan, table = analysis.results.plan, analysis.strata
    if table is None:
        return None
    figure, axes = make_panels(len(table.attributes), (2.6, 2.3), 0.6)
    for axis, attribute in zip(axes, table.attributes, strict=True):
        for number, system in enumerate(table.shown):
            style = {"color": get_colour(plan, system), "marker": "so"[number], "label": system}
            _draw_points(axis, table, attribute, system, _SPACING * (number - 0.5), style)
        names = list(dict.fromkeys(row.stratum for row in table.select(attribute.name, table.shown[0])))
        slanted = len(names) > 3 and max(map(len, names)) > _MAX_UPRIGHT_LETTERS
        axis.set_xticks(range(len(names)), names, fontsize=7, rotation=40 if slanted else 0,
                        ha="right" if slanted else "center", rotation_mode="anchor")  # fmt: skip
        axis.set(title=attribute.title, xlim=(-0.5, len(names) - 0.5))
    figure.supylabel(f"{plan.test_split} {plan.metric}", fontsize=9)
    handles, labels = axes[0].get_legend_handles_labels()
    add_legend(figure, handles, labels, ncols=len(labels), columnspacing=1.6)
    return figure


def _draw_points(
    axis: Any, table: StrataTable, attribute: QueryAttribute, system: str, offset: float, style: dict[str, Any]
) -> None:
    values = [row.value for row in table.select(attribute.name, system)]
    halves = [np.nan if value.high is None else value.high - value.mean for value in values]
    axis.errorbar(
        [index + offset for index in range(len(values))],
        [value.mean for value in values],
        yerr=halves,
        linestyle="",
        markersize=4.5,
        capsize=2.5,
        elinewidth=1.1,
        **style,
    )
