"""Draws the last recorded ratios of `make bench-quick`, one panel a kind of processor, into an SVG.

python -m docs.scripts.speed > docs/images/speed.svg
"""

from typing import Any

from analysis.figures.style import COLOURS, subplots
from benchmarks.recorded import read_entries
from docs.scripts.pacing import render_svg

CONTENDERS = {
    "training": "CrossEncoderTrainer",
    "evaluation": "batches padded to their longest pair",
    "re-ranking": "CrossEncoder.predict",
}


def draw_speed() -> Any:
    """Return the figure: medians and ranges of the ratios, in the order in which they were measured."""
    entries = {processor: records[-1] for processor, records in read_entries().items()}
    figure, panels = subplots(len(entries), (9, 3.2))
    for panel, (processor, entry) in zip(panels, entries.items(), strict=True):
        names = list(entry["ratios"])
        colours, unnamed = dict(zip(CONTENDERS, COLOURS[1:], strict=False)), set(CONTENDERS)
        for place, name in enumerate(names):
            values, kind = entry["ratios"][name], name.partition(",")[0]
            error = [[values["median"] - values["lowest"]], [values["highest"] - values["median"]]]
            label = f"{kind}: {CONTENDERS[kind]}" if kind in unnamed else None
            unnamed.discard(kind)
            panel.barh(place, values["median"], xerr=error, color=colours[kind], alpha=0.8, ecolor="0.3", label=label)
        panel.axvline(1, color="0.3", linewidth=1)
        panel.set(yticks=range(len(names)), yticklabels=names, xlabel="times as fast as the contender", title=processor)
        panel.invert_yaxis()
        panel.legend(title="contender", bbox_to_anchor=(1, 0.5), loc="center left")
    return figure


if __name__ == "__main__":
    print(render_svg(draw_speed), end="")
