"""Figure of the error analysis: a panel for each thing that is known of the queries, as Penha and Hauff (2020) have."""

from typing import Any

import numpy as np

from analysis.figures.style import colour_of, panels
from analysis.tables.attributes import Attribute
from analysis.tables.main import Analysis
from analysis.tables.strata import Strata

_COLUMNS = 3
"""Most panels side by side."""
_APART = 0.22
"""Between the two systems' points, as a share of the way from a stratum to the next."""
_LONG = 5
"""Letters of a name that fits upright below a panel with many strata."""


def strata(analysis: Analysis) -> Any:
    """Mean and 95 % interval of the two systems shown in full, stratum by stratum; None where there are no strata."""
    plan, found = analysis.results.plan, analysis.strata
    if found is None:
        return None
    columns = min(len(found.attributes), _COLUMNS)
    rows = -(-len(found.attributes) // columns)
    figure, axes = panels(columns, (0.6 + 2.6 * columns, 0.6 + 2.3 * rows), rows=rows)
    for axis in axes[len(found.attributes) :]:
        axis.set_visible(False)
    for axis, attribute in zip(axes, found.attributes, strict=False):
        for number, system in enumerate(found.shown):
            look = {"color": colour_of(plan, system), "marker": "so"[number], "label": system}
            _points(axis, found, attribute, system, _APART * (number - 0.5), look)
        names = list(dict.fromkeys(row.stratum for row in found.of(attribute.name, found.shown[0])))
        slanted = len(names) > 3 and max(map(len, names)) > _LONG
        axis.set_xticks(range(len(names)), names, fontsize=7, rotation=40 if slanted else 0,
                        ha="right" if slanted else "center", rotation_mode="anchor")  # fmt: skip
        axis.set(title=attribute.title, xlim=(-0.5, len(names) - 0.5))
    figure.supylabel(f"{plan.split_of(found.phase)} {plan.metric}", fontsize=9)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), columnspacing=1.6)
    return figure


def _points(axis: Any, found: Strata, attribute: Attribute, system: str, aside: float, look: dict[str, Any]) -> None:
    values = [row.value for row in found.of(attribute.name, system)]
    halves = [np.nan if value.high is None else value.high - value.mean for value in values]
    axis.errorbar(
        [place + aside for place in range(len(values))],
        [value.mean for value in values],
        yerr=halves,
        linestyle="",
        markersize=4.5,
        capsize=2.5,
        elinewidth=1.1,
        **look,
    )
