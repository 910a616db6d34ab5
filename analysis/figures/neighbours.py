"""Figure of the similarity of a sentence's neighbours by batch size: Wu et al. (2021), figure 1."""

from pathlib import Path
from typing import Any

import pandas as pd

from analysis.figures.style import COLOURS, save_figures, subplots

SIZE, NOISE, SHARE = "batch_size", "noise", "noise_share"
"""Columns of the table: sentences in a batch, cosine to the nearest noise vector, and share of the noise in the
denominator of the loss. The other columns are the neighbours.
"""
_ORDINALS = ("nearest", "2nd nearest", "3rd nearest", "4th nearest")


def draw_neighbours(table: pd.DataFrame, folder: Path) -> None:
    """Write probe.png and probe.svg.

    Args:
        table: one row a batch size; columns `SIZE`, one for each neighbour (nearest first), `NOISE` and `SHARE`.
        folder: folder of the files.
    """
    save_figures({"probe": lambda: _plot_neighbours(table)}, folder)


def _plot_neighbours(table: pd.DataFrame) -> Any:
    figure, (axis,) = subplots(1, (5.4, 3.4))
    neighbours = [name for name in table.columns if name not in (SIZE, NOISE, SHARE)]
    for index, name in enumerate(neighbours):
        axis.plot(table[SIZE], table[name], marker="o", markersize=4, color=COLOURS[index + 1], label=_ORDINALS[index])
    axis.plot(table[SIZE], table[NOISE], marker="s", markersize=4, color="0.5", linestyle="--", label="nearest noise")
    axis.set_xscale("log", base=2)
    axis.set_xticks(table[SIZE], [str(size) for size in table[SIZE]])
    axis.minorticks_off()
    axis.set(xlabel="sentences in a batch", ylabel="cosine")
    figure.legend(loc="outside right center")
    return figure
