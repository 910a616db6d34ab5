"""Draws what the archive of seeds says of two equal rankers, into an SVG.

python -m docs.scripts.equal_rankers > docs/images/equal-rankers.svg
"""

from typing import Any

import numpy as np
from scipy import stats

from analysis.checks.equal_rankers import examine_equal_rankers
from analysis.figures.equal_rankers import draw_curves
from analysis.figures.style import COLOURS, render_svg, subplots
from benchmarks.statistics.replication import list_compared, list_many


def draw_archive() -> Any:
    """Return the figure: the usual test over queries by study, and the means of many seeds with a normal curve."""
    many = list_many()
    figure, (left, *others) = subplots(1 + len(many), (3.6 * (1 + len(many)), 3.0))
    found = {runs.study: examine_equal_rankers(runs.values) for runs in (*many, *list_compared())}
    draw_curves(left, {name: own for name, own in found.items() if own})
    for panel, runs in zip(others, many, strict=True):
        means = next(iter(runs.values.values())).mean(axis=1)
        panel.hist(means, bins=15, density=True, color=COLOURS[1], alpha=0.5)
        at = np.linspace(means.min(), means.max(), 100)
        panel.plot(at, stats.norm.pdf(at, means.mean(), means.std(ddof=1)), color="black", linewidth=1)
        panel.set(title=f"{runs.study}: {runs.seeds} seeds", xlabel="mean over queries", yticks=[])
    return figure


if __name__ == "__main__":
    print(render_svg(draw_archive), end="")
