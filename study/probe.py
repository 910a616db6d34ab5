"""Command line that measures how similar the sentences of a batch are to each other.

    python -m study.probe [STUDY] [KEY=VALUE ...] [--sizes N ...] [--output FOLDER]

It is for studies of sentence encoders. It writes probe.csv, probe.png and probe.svg: the cosines of a sentence to its
nearest others, by batch size, with the study's model before training (Wu et al. 2021, figure 1). For comparison they
also show Gaussian noise vectors as additional negatives.
"""

from trainables.utils import interruption

if __name__ == "__main__":
    interruption.start_command("study.probe")

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from study.config.loader import load_study
from study.config.schema import Study
from study.config.sources import split_arguments
from trainables.utils.cli import Parser, print_escaped, report_errors
from trainables.utils.errors import UserError

_MAX_SENTENCES = 20_000
"""Maximum number of sentences to embed. The first ones of the prepared data are used."""
_BATCH_SIZES = (8, 16, 32, 64, 128, 256, 512)
_NOISE_MULTIPLE = 3.0
"""Number of noise vectors, as a multiple of the batch size."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0 done, 2 bad input, 1 any other failure."""
    options = _build_parser().parse_intermixed_args(argv)

    def run() -> None:
        name, overrides = split_arguments(options.arguments)
        _run_probe(load_study(name, overrides), options.sizes, Path(options.output).expanduser())

    return report_errors("study.probe", run)


def _build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m study.probe",
        description="Measure the cosine of a sentence to its nearest others in a batch, by batch size. It uses the "
        "study's model before training. For studies of sentence encoders.",
    )
    parser.add_argument("arguments", nargs="*", metavar="STUDY | KEY=VALUE", help="study file or name, then overrides")
    parser.add_argument("--sizes", nargs="+", type=int, metavar="N", help="batch sizes; by default powers of 2")
    parser.add_argument("--output", default="probe", metavar="FOLDER", help="folder for the files (default: probe)")
    return parser


def _run_probe(study: Study, sizes: Sequence[int] | None, folder: Path) -> None:
    backend = study.study_type.trainable.training_backend
    if not hasattr(backend, "embed_sentences"):
        raise UserError("trainable", study.trainable, "one that embeds sentences")
    import numpy as np
    import pandas as pd

    from analysis.figures.neighbours import NOISE, SHARE, SIZE, draw_neighbours
    from study.execution.resolve import resolve_study
    from study.execution.slots import connect_or_check
    from study.scheduling.trials import ConfigurationFactory
    from study.utils.console import print_line
    from trainables.contrastive.neighbours import N_NEIGHBOURS, compute_neighbour_similarity, compute_noise_similarity
    from trainables.utils.files import check_outputs, read_head, write_atomically

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError("--output", repr(str(folder)), "a folder that can be written") from error
    outputs = [folder / f"probe.{suffix}" for suffix in ("csv", "png", "svg")]
    check_outputs("--output", outputs, lambda _: outputs[0].is_file() and read_head(outputs[0]).startswith(f"{SIZE},"))
    cluster = connect_or_check(study)
    study, resolved, prepared = resolve_study(study, cluster, print_line)
    n_sentences = min(_MAX_SENTENCES, int(prepared.read_metadata()["splits"]["train"]["queries"]))
    factory = ConfigurationFactory(study.model_copy(update={"task": prepared.settings}), resolved, "")
    untrained = factory.make_reference_systems()[0]
    sizes = sizes or [size for size in _BATCH_SIZES if size <= n_sentences]
    if invalid := [size for size in sizes if not N_NEIGHBOURS < size <= n_sentences]:
        raise UserError(
            "--sizes", invalid[0], f"sizes from {N_NEIGHBOURS + 1} to {n_sentences}, the number of sentences"
        )
    arguments = factory.make_request(untrained, untrained.runs[0], "train").trial, np.arange(n_sentences)
    if cluster is None:
        embeddings = backend.embed_sentences(*arguments)
    else:
        from study.execution.nodes import map_on_cluster  # imports ray

        (embeddings,) = map_on_cluster(study, backend.embed_sentences, [arguments])
    cosines = compute_neighbour_similarity(embeddings, sizes)
    table = pd.DataFrame({SIZE: sizes})
    for rank in range(cosines.shape[1]):
        table[f"nearest_{rank + 1}"] = cosines[:, rank]
    training: Any = study.training
    noise_columns = compute_noise_similarity(embeddings, sizes, _NOISE_MULTIPLE, training.temperature)
    table[NOISE], table[SHARE] = noise_columns[:, 0], noise_columns[:, 1]
    with write_atomically(outputs[0]) as draft:
        table.to_csv(draft, index=False)
    draw_neighbours(table, folder)
    print_escaped(table.to_string(index=False, float_format="{:.4g}".format))


if __name__ == "__main__":
    interruption.run_command(main)
