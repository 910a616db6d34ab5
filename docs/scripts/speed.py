"""Draws the last recorded ratios of `make bench-quick`, one panel a kind of processor, into an SVG.

python -m docs.scripts.speed > docs/images/speed.svg
"""

from typing import Any

from matplotlib.patches import Patch

from analysis.figures.style import COLOURS, render_svg, subplots
from benchmarks.recorded import read_entries

CONTENDERS = {
    "training": "CrossEncoderTrainer",
    "evaluation": "batches padded to their longest pair",
    "re-ranking": "CrossEncoder.predict",
}


def draw_speed() -> Any:
    """Return the figure: medians and ranges of the ratios, in the order in which they were measured."""
    colours = dict(zip(CONTENDERS, COLOURS[1:], strict=False))
    entries = {processor: records[-1] for processor, records in read_entries().items()}
    figure, panels = subplots(1, (7, 2.6 * len(entries) + 1), rows=len(entries), sharex=True)
    for panel, (processor, entry) in zip(panels, entries.items(), strict=True):
        names = list(entry["ratios"])
        for place, name in enumerate(names):
            values, kind = entry["ratios"][name], name.partition(",")[0]
            error = [[values["median"] - values["lowest"]], [values["highest"] - values["median"]]]
            panel.barh(place, values["median"], xerr=error, color=colours[kind], alpha=0.8, ecolor="0.3")
        panel.axvline(1, color="0.3", linewidth=1)
        panel.set(yticks=range(len(names)), yticklabels=names, title=processor)
        panel.invert_yaxis()
    panels[-1].set_xlabel("times as fast as the contender")
    patches = [Patch(color=colours[kind], alpha=0.8, label=f"{kind}: {name}") for kind, name in CONTENDERS.items()]
    figure.legend(handles=patches, title="contender", loc="outside lower center")
    return figure


if __name__ == "__main__":
    print(render_svg(draw_speed), end="")
