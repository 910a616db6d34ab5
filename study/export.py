"""Command line that writes the model of a system for other programs.

    python -m study.export STUDY SYSTEM [KEY=VALUE ...] --to FOLDER [--seed N | --average] [--form FORM] [--wandb]
    python -m study.export RESULTS SYSTEM --to FOLDER

The folder is loaded by sentence-transformers and by transformers, and has a model card made from the study.
"""

from trainables.utils import interruption

if __name__ == "__main__":
    interruption.start_command("study.export", "train")  # before imports that take time

import argparse
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from study.suites.suite_loader import load_one_study
from study.utils.console import print_line
from study.wandb_sweeps.sweep_export import StudyReference
from trainables.specs.plugin import ExportForm
from trainables.utils.cli import Parser, report_errors

_LOCAL_KEYS = ("output", "cache", "resources", "tracking", "trial")
"""First parts of the keys that say where and how a study runs, not what it is."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0 done, 2 bad input, 1 any other failure."""
    options = _build_parser().parse_intermixed_args(argv)
    return report_errors("study.export", lambda: _export(options))


def _build_parser() -> Parser:
    parser = Parser(
        "study.export",
        "Write the trained model of a system as a folder that sentence-transformers and transformers load, "
        "with a model card. Weights that neither the study (output.models) nor the cache kept are trained again.",
    )
    parser.add_argument("study", metavar="STUDY", help="file or name of a study or suite, or a folder of results")
    parser.add_argument("system", metavar="SYSTEM", help="a system of the report")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="the overrides of the study")
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="folder to write; it must not exist")
    parser.add_argument("--study", dest="key", metavar="KEY", help="of a suite, the study with this key")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--seed", type=int, metavar="N", help="seed of the model (default: the best on dev)")
    which.add_argument("--average", action="store_true", help="the models of all seeds, with their scores averaged")
    parser.add_argument(
        "--form",
        choices=get_args(ExportForm),
        help="model for sequence classification (default if there is one), modules of sentence-transformers, or what "
        "LoRA trained, as an adapter of peft",
    )
    parser.add_argument("--push", metavar="OWNER/NAME", help="upload the folder to this repository of Hugging Face")
    parser.add_argument("--wandb", action="store_true", help="log the folder as a model artifact in W&B")
    return parser


def _export(options: argparse.Namespace) -> None:
    study = load_one_study(options.study, options.overrides, options.key)
    from study.models import upload

    if options.push:
        upload.check_repository(options.push)
    if options.wandb:
        upload.check_tracking(study)
    from study.models.model_export import export_system

    folder = options.to.expanduser().absolute()
    command = _format_command(options)
    which = (options.seed, options.average, options.form)
    export = export_system(study, options.system, folder, command, print_line, *which)
    print_line(f"wrote {', '.join(run.label for run in export.runs)} to {folder}: {export.check}")
    if options.push:
        print_line(f"uploaded to {upload.push_to_hub(folder, options.push)}")
    if options.wandb:
        print_line(f"logged {upload.log_artifacts(study, export.runs, export.folders)}")


def _format_command(options: argparse.Namespace) -> str:
    """Return the command for a card, with variables for what names a place of this machine.

    Example:
        >>> arguments = ["/home/me/my.toml", "MINE", "model.name=team/bert", "task.path=/data/x", "--to", "out"]
        >>> _format_command(_build_parser().parse_args(arguments))
        "python -m study.export my.toml MINE model.name=team/bert 'task.path=${STUDY_TASK_PATH}' --to FOLDER"
    """
    kept = [text for text in options.overrides if re.split(r"[.=\s]", text.strip())[0] not in _LOCAL_KEYS]
    _, *overrides = StudyReference(options.study, kept).arguments
    study = Path(options.study)
    name = f"RESULTS/{study.absolute().name}" if study.is_dir() else study.name
    words = ["python", "-m", "study.export", name, options.system, *overrides]
    words += ["--study", options.key] if options.key else []
    words += ["--average"] if options.average else [] if options.seed is None else ["--seed", str(options.seed)]
    words += ["--form", options.form] if options.form else []
    return shlex.join([*words, "--to", "FOLDER"])


if __name__ == "__main__":
    interruption.run_command(main)
