"""Command line that re-ranks a run with a saved cross-encoder.

    python -m study.rerank MODEL --run RUN --queries FILE --documents FILE --out RUN
    python -m study.rerank STUDY:SYSTEM [KEY=VALUE ...] --run RUN --queries FILE --documents FILE --out RUN

The scores are those of `CrossEncoder.predict` of sentence-transformers, without its activation function. Rerun the same
command to resume.
"""

from trainables.utils import interruption

if __name__ == "__main__":
    interruption.start_command("study.rerank", "train")

import argparse
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from study.utils.console import print_line
from study.utils.live_view import LiveView
from trainables.utils.cli import Parser, report_errors
from trainables.utils.errors import UserError
from trainables.utils.system import count_cores

_SECONDS_PER_LINE = 30.0
"""Seconds between two lines of progress where there is no terminal."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0 done, 2 bad input, 1 any other failure."""
    options = parse_options(argv)
    advice = "scored pairs are kept; rerun the same command to resume"
    return report_errors("study.rerank", lambda: rerank_run(options), describe_interruption=lambda: advice)


def parse_options(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of a command line. A wrong one ends the process with status 2."""
    parser = Parser(
        "study.rerank",
        "Score the pairs of a run with a saved ranker, and write a TREC run. Rerun it to resume.",
    )
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="folder of a ranker or of an ensemble, hub id, package:MODULE/FOLDER, or STUDY:SYSTEM",
    )
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="of STUDY:SYSTEM, the overrides of the study")
    parser.add_argument(
        "--run", required=True, metavar="RUN", help="run to re-rank: TREC format, or lines of query, document and rank"
    )
    texts = "TSV or JSON lines file, BEIR folder, or irds:ID"
    parser.add_argument("--queries", required=True, metavar="FILE", help=f"texts of the queries: {texts}")
    parser.add_argument("--documents", required=True, metavar="FILE", help=f"texts of the documents: {texts}")
    parser.add_argument("--out", required=True, metavar="RUN", help="file of the new run")
    parser.add_argument(
        "--depth", type=int, metavar="K", help="re-rank the first K documents of each query, without the others"
    )
    parser.add_argument(
        "--max-length", type=int, metavar="N", help="most tokens of a pair (default: as many as the model takes)"
    )
    parser.add_argument(
        "--precision",
        choices=["auto", "fp32", "bf16"],
        default="auto",
        help="precision of matrix products; auto is bf16 where that is faster",
    )
    parser.add_argument(
        "--threads",
        type=int,
        metavar="N",
        help="threads of a process (default: the cores over the processes; with a GPU 1)",
    )
    parser.add_argument(
        "--processes", type=int, metavar="N", help="processes on this machine (default: one a GPU, else 1)"
    )
    parser.add_argument("--address", metavar="ADDRESS", help="score on a running Ray cluster, e.g. auto")
    parser.add_argument("--tag", help="last field of each line (default: the name of the model's folder)")
    return parser.parse_intermixed_args(argv)


def rerank_run(options: argparse.Namespace) -> None:
    """Re-rank the run with a saved model, or with that of a study's system, which is exported for the time being.

    Raises:
        UserError: an option or an input is wrong.
    """
    _check_options(options)
    study, _, system = options.model.partition(":")
    if study == "package" or not system or Path(options.model).exists():
        if options.overrides:
            raise UserError("command line", repr(options.overrides[0]), "overrides with STUDY:SYSTEM alone")
        _rerank_with(options, options.model)
        return
    if options.address is not None:
        raise UserError("--address", options.address, "a folder on a shared disk as MODEL; study.export writes one")
    with TemporaryDirectory() as place:
        _rerank_with(options, str(_export_system(study, system, options.overrides, Path(place))))


def _check_options(options: argparse.Namespace) -> None:
    for name in ("depth", "max_length", "threads", "processes"):
        if (value := getattr(options, name)) is not None and value < 1:
            raise UserError(f"--{name.replace('_', '-')}", value, "at least 1")
    if options.tag is not None and (not options.tag or re.search(r"\s", options.tag)):
        raise UserError("--tag", repr(options.tag), "a text without blanks")
    if options.address is not None and (options.processes or 1) > 1:
        raise UserError("--processes", options.processes, "1 with --address, since the cluster says how many it has")


def _export_system(study_name: str, system: str, overrides: Sequence[str], place: Path) -> Path:
    """Write the model of a system's best seed to a folder, and return the folder."""
    _silence_libraries()
    from study.models.model_export import export_system
    from study.suites.suite_loader import load_one_study

    export = export_system(load_one_study(study_name, overrides), system, place / system, "", print_line)
    print_line(f"{export.runs[0].label}: {export.check}")
    return export.folders[0]


def _rerank_with(options: argparse.Namespace, model: str) -> None:
    _silence_libraries()
    from trainables.exchange.classifier import load_classifier
    from trainables.models.precision import Precision
    from trainables.reranking.job import Job, Workers, rerank
    from trainables.reranking.local_workers import LocalWorkers, list_gpus
    from trainables.reranking.resolved_models import resolve_models
    from trainables.specs.environment import DeviceType, detect_environment, is_bf16_faster

    models, out = resolve_models(model), Path(options.out).expanduser().absolute()
    for path in models:
        load_classifier(path)  # a model that cannot be loaded is an error before anything is read
    gpus = list_gpus() if options.address is None else []
    device: DeviceType = "cuda" if gpus else "cpu"
    processes = options.processes or max(1, len(gpus))
    threads = options.threads or (1 if gpus else max(1, count_cores() // processes))
    environment, bf16_faster = detect_environment(device), is_bf16_faster(device)
    if options.address is not None:
        from study.execution.connect import check_address, connect

        connect(check_address("--address", options.address), {"job_name": "re-ranking"}, out.parent, "scored pairs")
        from trainables.reranking.cluster import ClusterWorkers, probe_nodes

        threads = options.threads or 1
        environment, bf16_faster = probe_nodes(threads)
    precision: Precision = (
        "bf16" if options.precision == "bf16" or (options.precision == "auto" and bf16_faster) else "fp32"
    )
    name = Path(model).expanduser().absolute().name
    job = Job(
        models=models,
        run=Path(options.run).expanduser(),
        queries=options.queries,
        documents=options.documents,
        out=out,
        tag=options.tag or re.sub(r"\s", "_", name),
        depth=options.depth,
        max_length=options.max_length,
        precision=precision,
        threads=threads,
        environment=environment,
    )

    def make_workers(key: str) -> Workers:
        if options.address is not None:
            return ClusterWorkers(models, precision, threads, key)
        return LocalWorkers(models, precision, threads, processes, gpus)

    if gpus:
        used = min(processes, len(gpus))
        print_line(
            f"scoring on {used} GPU{'s' * (used > 1)} ({environment.device.removeprefix('cuda:')}) in {precision}"
        )
    start_time = time.monotonic()
    with LiveView() as view:
        n_pairs = rerank(job, make_workers, _Progress(view))
    print_line(f"{n_pairs} pairs in {time.monotonic() - start_time:.1f} s, {precision}: {options.out}")


class _Progress:
    """Shows progress with rate and time left: a bar on a terminal, elsewhere a line every half minute."""

    def __init__(self, view: LiveView) -> None:
        self._view = view
        self._starts = dict[str, float]()
        self._last_line_time = time.monotonic()

    def log(self, line: str) -> None:
        """Print a line."""
        print_line(line)

    def update(self, activity: str, done: int, total: int, start: int) -> None:
        """Show the progress of an activity; see `trainables.reranking.job.Reporter`."""
        now = time.monotonic()
        seconds = now - self._starts.setdefault(activity, now)
        note = ""
        if done > start and seconds > 0:
            rate = (done - start) / seconds
            note = f"{rate:.1f}/s, {_format_duration((total - done) / rate)} left"
        self._view.set_progress(activity, done, total, note)
        if not self._view.is_visible and note and now - self._last_line_time > _SECONDS_PER_LINE:
            self._last_line_time = now
            print_line(f"{activity}: {done} of {total}, {note}")


def _format_duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def _silence_libraries() -> None:
    """Let the libraries show no bars and no advice; errors are reported in one line."""
    os.environ |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "TRANSFORMERS_VERBOSITY": "error"}
    import transformers

    transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    interruption.run_command(main)
