"""Draws the pacing functions, as figure 3 of Penha and Hauff (2020), into an SVG.

python -m docs.scripts.pacing > docs/images/pacing.svg
"""

from typing import Any

import numpy as np

from analysis.figures.style import COLOURS, render_svg, subplots
from trainables.curriculum import PACING

DELTA, DURATION = 0.33, 0.9
STEPS = 1000
"""Steps of the training that is drawn."""


def draw_pacing() -> Any:
    """Return the figure: the share of the training queries that a batch may contain, by the share of training done."""
    figure, (panel,) = subplots(1, (7, 3.6))
    steps = np.arange(STEPS + 1)
    for name, colour in zip(PACING, COLOURS, strict=False):
        shares = [PACING[name](step, DURATION * STEPS, DELTA) for step in steps.tolist()]
        panel.plot(steps / STEPS, shares, label=name, color=colour)
    panel.axvline(DURATION, color="0.6", linestyle=":", linewidth=1)
    panel.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="share of the training steps", ylabel="share of the queries")
    panel.legend(bbox_to_anchor=(1, 0.5), loc="center left")
    return figure


if __name__ == "__main__":
    print(render_svg(draw_pacing), end="")
