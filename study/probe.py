"""How near other sentences of a batch are: python -m study.probe [STUDY] [KEY=VALUE ...] [--output FOLDER].

For a study of sentence encoders. Writes probe.csv, probe.png and probe.svg: cosines of a sentence to its nearest others
by the size of the batch, with the study's model as it is before training (Wu et al. 2021, figure 1); and what
Gaussian noise among the negatives would be beside them.
"""

from trainables.utils import interruption

if __name__ == "__main__":
    interruption.handle_signals("study.probe")

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from study.config.arguments import split_arguments
from study.config.loader import load_study
from study.config.schema import Study
from study.execution.connect import get_cluster_address
from trainables.utils.cli import Parser, print_error, print_escaped
from trainables.utils.errors import UserError

_MAX_SENTENCES = 20_000
"""Most that are embedded: the first of the prepared data."""
_BATCH_SIZES = (8, 16, 32, 64, 128, 256, 512)
_NOISE_MULTIPLE = 3.0
"""Noise vectors as a multiple of the batch."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit status: 0 done, 2 bad input."""
    options = _build_parser().parse_intermixed_args(argv)
    try:
        name, overrides = split_arguments(options.arguments)
        _run_probe(load_study(name, overrides), options.sizes, Path(options.output).expanduser())
        return 0
    except UserError as error:
        print_error("study.probe", error)
        return 2


def _build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m study.probe",
        description="Cosines of a sentence to its nearest others, by the size of the batch.",
    )
    parser.add_argument("arguments", nargs="*", metavar="STUDY | KEY=VALUE", help="study file or name, then overrides")
    parser.add_argument(
        "--sizes", nargs="+", type=int, default=list(_BATCH_SIZES), metavar="N", help="sentences of a batch"
    )
    parser.add_argument("--output", default="probe", metavar="FOLDER", help="where the files go (default: probe)")
    return parser


def _run_probe(study: Study, sizes: Sequence[int], folder: Path) -> None:
    runs = study.study_type.trainable.training_backend
    if not hasattr(runs, "embed_sentences"):
        raise UserError("trainable", study.trainable, "one that embeds sentences")
    import numpy as np
    import pandas as pd

    from analysis.figures.neighbours import NOISE, SHARE, SIZE, draw_neighbours
    from study.execution.resolve import resolve_study
    from study.execution.slots import connect_or_check
    from study.scheduling.trials import ConfigurationFactory
    from study.utils.console import print_line
    from trainables.contrastive.neighbours import N_NEIGHBOURS, compute_neighbour_similarity, compute_noise_similarity
    from trainables.utils.files import write_atomically

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError("--output", repr(str(folder)), "a folder that can be written") from error
    connect_or_check(study)
    study, resolved, prepared = resolve_study(study, print_line)
    count = min(_MAX_SENTENCES, int(prepared.read_metadata()["splits"]["train"]["queries"]))
    factory = ConfigurationFactory(study.model_copy(update={"task": prepared.settings}), resolved, "")
    untrained = factory.make_reference_systems()[0]
    if wrong := [size for size in sizes if not N_NEIGHBOURS < size <= count]:
        raise UserError("--sizes", wrong[0], f"sizes from {N_NEIGHBOURS + 1} to {count}, the sentences there are")
    arguments = factory.make_request(untrained, untrained.runs[0], "train").trial, np.arange(count)
    if get_cluster_address(study) is None:
        embeddings = runs.embed_sentences(*arguments)
    else:
        from study.execution import nodes  # it loads ray

        (embeddings,) = nodes.map_on_cluster(study, runs.embed_sentences, [arguments])
    cosines = compute_neighbour_similarity(embeddings, sizes)
    table = pd.DataFrame({SIZE: sizes})
    for rank in range(cosines.shape[1]):
        table[f"nearest_{rank + 1}"] = cosines[:, rank]
    training: Any = study.training
    noise_columns = compute_noise_similarity(embeddings, sizes, _NOISE_MULTIPLE, training.temperature)
    table[NOISE], table[SHARE] = noise_columns[:, 0], noise_columns[:, 1]
    with write_atomically(folder / "probe.csv") as draft:
        table.to_csv(draft, index=False)
    draw_neighbours(table, folder)
    print_escaped(table.to_string(index=False, float_format="{:.4g}".format))


if __name__ == "__main__":
    interruption.run_command(main)
