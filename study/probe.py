"""How near other sentences of a batch are: python -m study.probe [STUDY] [KEY=VALUE ...] [--output FOLDER].

For a study of sentence encoders. Writes probe.csv, probe.png and probe.svg: cosines of a sentence to its nearest others
by the size of the batch, with the study's model as it is before training (Wu et al. 2021, figure 1); and what
Gaussian noise among the negatives would be beside them.
"""

from trainables.utils import interruption

if __name__ == "__main__":
    interruption.catch("study.probe")

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from study.config.arguments import split_arguments
from study.config.loader import load
from study.config.schema import Study
from study.execution.connect import address
from trainables.utils.cli import Parser, complain, show
from trainables.utils.errors import UserError

_SENTENCES = 20_000
"""Most that are embedded: the first of the prepared data."""
_SIZES = (8, 16, 32, 64, 128, 256, 512)
_MULTIPLE = 3.0
"""Noise vectors as a multiple of the batch."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit status: 0 done, 2 bad input."""
    options = _parser().parse_intermixed_args(argv)
    try:
        name, overrides = split_arguments(options.arguments)
        _probe(load(name, overrides), options.sizes, Path(options.output).expanduser())
        return 0
    except UserError as error:
        complain("study.probe", error)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m study.probe",
        description="Cosines of a sentence to its nearest others, by the size of the batch.",
    )
    parser.add_argument("arguments", nargs="*", metavar="STUDY | KEY=VALUE", help="study file or name, then overrides")
    parser.add_argument("--sizes", nargs="+", type=int, default=list(_SIZES), metavar="N", help="sentences of a batch")
    parser.add_argument("--output", default="probe", metavar="FOLDER", help="where the files go (default: probe)")
    return parser


def _probe(study: Study, sizes: Sequence[int], folder: Path) -> None:
    runs = study.kind.trainable.runs
    if not hasattr(runs, "embedded"):
        raise UserError("trainable", study.trainable, "one that embeds sentences")
    import numpy as np
    import pandas as pd

    from analysis.figures.neighbours import NOISE, SHARE, SIZE, draw
    from study.execution.resolve import resolve
    from study.execution.slots import ready
    from study.scheduling.trials import Maker
    from study.utils.console import say
    from trainables.contrastive.neighbours import NEAREST, beside_noise, nearest
    from trainables.utils.files import whole_file

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError("--output", repr(str(folder)), "a folder that can be written") from error
    ready(study)
    study, resolved, prepared = resolve(study, say)
    count = min(_SENTENCES, int(prepared.meta()["splits"]["train"]["queries"]))
    maker = Maker(study.model_copy(update={"task": prepared.settings}), resolved, "")
    untrained = maker.controls()[0]
    if wrong := [size for size in sizes if not NEAREST < size <= count]:
        raise UserError("--sizes", wrong[0], f"sizes from {NEAREST + 1} to {count}, the sentences there are")
    asked = maker.errand(untrained, untrained.runs[0], "train").job, np.arange(count)
    if address(study) is None:
        embeddings = runs.embedded(*asked)
    else:
        from study.execution import nodes  # it loads ray

        (embeddings,) = nodes.calls(study, runs.embedded, [asked])
    cosines = nearest(embeddings, sizes)
    table = pd.DataFrame({SIZE: sizes})
    for place in range(cosines.shape[1]):
        table[f"nearest_{place + 1}"] = cosines[:, place]
    training: Any = study.training
    beside = beside_noise(embeddings, sizes, _MULTIPLE, training.temperature)
    table[NOISE], table[SHARE] = beside[:, 0], beside[:, 1]
    with whole_file(folder / "probe.csv") as draft:
        table.to_csv(draft, index=False)
    draw(table, folder)
    show(table.to_string(index=False, float_format="{:.4g}".format))


if __name__ == "__main__":
    interruption.run(main)
