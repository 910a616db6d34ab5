"""No legend is wider than its figure, however few panels there are and however long the names are."""

from pathlib import Path
from typing import Any

import pytest

from analysis.figures.smoothing import plot_strength_sensitivity
from analysis.figures.style import add_legend, subplots
from tests.analysis.builders import analyse, study_runs

pytest.importorskip("matplotlib")


def get_places(figure: Any) -> tuple[Any, Any]:
    """Draw a figure and return the boxes of its legend and of itself."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure).draw()
    return figure.legends[-1].get_window_extent(), figure.bbox


@pytest.mark.parametrize("variants", [["LS"], ["LS", "T-LS", "WSLS", "T-WSLS"]])
def test_the_legend_of_the_strengths_is_not_cut(variants: list[str], tmp_path: Path) -> None:
    runs = [run for run in study_runs() if run.variant in ("BERT", *variants)]
    family = {"name": "variants", "comparisons": [[name, "BERT"] for name in variants]}
    analysis = analyse(tmp_path, runs, systems=["BERT", *variants], families=[family])
    legend, figure = get_places(plot_strength_sensitivity(analysis))
    assert figure.x0 <= legend.x0 < legend.x1 <= figure.x1
    assert figure.y0 <= legend.y0


def test_a_legend_has_the_most_columns_that_fit_and_the_panels_keep_their_height() -> None:
    heights = []
    for length in (3, 16, 40):
        figure, (axis,) = subplots(1, (4.0, 3.0))
        for number in range(6):
            axis.plot([0, 1], [number, 1], label=f"{number} " + "x" * length)
        add_legend(figure, ncols=6)
        legend, box = get_places(figure)
        assert len(figure.legends) == 1
        assert legend.width <= box.width
        heights.append(axis.get_window_extent().height)
    assert heights == pytest.approx([heights[0]] * 3, rel=0.05)
