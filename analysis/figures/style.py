"""Palette, style, panels and files of all figures."""

import io
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from records.plan import Plan

_OKABE_ITO = ["#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
COLOURS = [*_OKABE_ITO, "#661100", "#BDB76B", "#332288", "#7F7F7F", "#B2182B"]
"""Okabe and Ito's palette, which colour-blind readers can distinguish, and five further colours.

The further colours are far from the palette and from each other.
"""
_DASHED = (0, (5, 1.5))
RC_PARAMS: Any = {
    "svg.hashsalt": "analysis",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
}
VERDICT_STYLES: dict[str, dict[str, Any]] = {
    "better": {"marker": "^", "color": COLOURS[1], "markersize": 8},
    "worse": {"marker": "v", "color": COLOURS[2], "markersize": 8},
    "equivalent": {"marker": "s", "color": COLOURS[3], "markersize": 6},
    "undecided": {"marker": "o", "color": "0.35", "markersize": 6, "markerfacecolor": "white"},
    "all values are equal": {"marker": "|", "color": "0.35", "markersize": 8},
}
"""Marker of each verdict. Shape and text distinguish verdicts too, not only colour."""
_DPI = 160
"""Resolution of the PNG files."""


def save_figures(plots: Mapping[str, Callable[[], Any]], folder: Path) -> list[str]:
    """Write figures as PNG and SVG; return the names of those that were written.

    A plot may return None, then nothing is written. The same figure gives the same bytes with the same version of
    matplotlib.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    names = []
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # ignore the user's settings, so that the same study gives the same figures
        matplotlib.rcParams.update(RC_PARAMS)
        for name, plot in plots.items():
            figure = plot()
            if figure is not None:
                FigureCanvasAgg(figure)
                figure.dpi = _DPI
                figure.get_layout_engine().execute(figure)
                figure.set_layout_engine(None)  # avoids that each file is drawn twice, once for its layout
                figure.savefig(folder / f"{name}.png", dpi=_DPI, metadata={"Software": None})
                figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
                names.append(name)
    return names


def render_svg(draw: Callable[[], Any]) -> str:
    """Return a figure as SVG: the same text with the same version of matplotlib."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(RC_PARAMS)
        stream = io.StringIO()
        draw().savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return stream.getvalue()


def subplots(
    columns: int,
    size: tuple[float, float],
    rows: int = 1,
    sharex: bool = False,
    sharey: bool = False,
) -> tuple[Any, Sequence[Any]]:
    """Return a figure of `size` inches and its panels, row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, list(np.ravel(figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey)))


def make_panels(
    count: int, size: tuple[float, float], margin: float, are_shared: bool = False
) -> tuple[Any, Sequence[Any]]:
    """Return a figure and its panels, at most three in a row.

    Args:
        count: number of panels.
        size: width and height of a panel in inches.
        margin: what the figure has in addition, in each direction.
        are_shared: True if all panels have the same axes.
    """
    columns = min(count, 3)
    rows = -(-count // columns)
    whole = margin + size[0] * columns, margin + size[1] * rows
    figure, axes = subplots(columns, whole, rows, sharex=are_shared, sharey=are_shared)
    for axis in axes[count:]:
        axis.set_visible(False)
    return figure, axes[:count]


def add_legend(figure: Any, *entries: Any, ncols: int, **style: Any) -> None:
    """Add a legend below the panels, in as many columns as fit into the width of the figure.

    A figure grows by the rows that a legend in one row would not have.

    Args:
        figure: the figure.
        entries: handles and labels. If there are none, those of the panels.
        ncols: most columns.
        style: further arguments of matplotlib's legend, such as `handles`.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure)  # measures text
    for columns in range(ncols, 0, -1):
        legend = figure.legend(*entries, loc="outside lower center", ncols=columns, **style)
        extent = legend.get_window_extent()
        if columns == 1 or extent.width <= figure.bbox.width:
            break
        legend.remove()
    rows, most = (-(-len(legend.get_texts()) // number) for number in (columns, ncols))
    figure.set_figheight(figure.get_figheight() + extent.height / figure.dpi * (1 - most / rows))


def compute_interval_factor(seeds: int) -> float:
    """Return half the width of the 95 % interval of a mean over seeds, in standard deviations; 0 for one seed."""
    from scipy import stats

    return float(stats.t.ppf(0.975, seeds - 1)) / math.sqrt(seeds) if seeds > 1 else 0.0


def get_colour(plan: Plan, name: str) -> str:
    """Return the colour of a system; grey for one that only comparisons name."""
    return COLOURS[plan.systems.index(name) % len(COLOURS)] if name in plan.systems else "0.5"


def get_line_style(plan: Plan, name: str) -> dict[str, Any]:
    """Return a system's colour and line style.

    The first seven lines are solid, so that no two of nineteen systems look the same.
    """
    whole = plan.systems.index(name) < len(_OKABE_ITO)
    return {"color": get_colour(plan, name), "linestyle": "-" if whole else _DASHED}
