"""Command line that runs a study.

    python -m study.run [STUDY | SUITE] [KEY=VALUE ...]

Each command imports only what it needs: --help, --list and --dry-run load neither torch nor ray.
"""

from trainables.utils import interruption

if __name__ == "__main__":
    interruption.start_command("study.run", "train")  # before imports that take time

import argparse
import json
import os
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from study.config.loader import Study, list_known_keys, load_study
from study.config.sources import list_shipped, split_arguments
from study.suites.suite_loader import Suite, is_suite, load_suite
from study.utils.console import print_line
from study.utils.error_text import IncompleteError, format_redacted_traceback
from trainables.utils.cli import Parser, explain_error, print_escaped, report_errors
from trainables.utils.errors import UserError, is_disk_full
from trainables.utils.files import read_json


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0 done, 2 bad input, 1 any other failure."""
    command = _Command(_build_parser().parse_intermixed_args(argv))
    return report_errors("study.run", command.run, command.describe_error, command.describe_interruption)


class _Command:
    """One call of the command; after the study is read, its messages name the study's folder."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options, self._start_time = options, time.monotonic()
        self._folder: Path | None = None

    def run(self) -> None:
        """Carry out what the options ask for.

        Raises:
            UserError: the options, the study or its inputs are wrong.
        """
        options = self._options
        _check_options(options)
        name, overrides = split_arguments(options.arguments)
        if options.list:
            from study.workflows.choices import print_choices

            if options.arguments:
                load_study(name, overrides)  # with its plug-ins
            print_choices()
            return
        overrides, parameters = _split_parameters(overrides) if options.sweep else (overrides, {})
        if options.sweep and not name:  # an agent without its variable gives none
            raise UserError("--sweep", "no study", "the name or file of its study, e.g. quick")
        if options.address:
            overrides.append(f"resources.address={options.address}")
        if name is not None and is_suite(name):
            self._run_suite(load_suite(name, overrides, options.study))
            return
        if options.study:
            raise UserError("--study", options.study[0], f"a suite; {name or 'quick'} is one study")
        study = load_study(name, overrides)
        self._folder = study.folder
        if options.export_sweep is not None:
            _export_sweeps(study, name, overrides, options.export_sweep)
        elif options.sweep:
            from study.wandb_sweeps.run_configuration import run_configuration

            run_configuration(study, parameters)
        elif options.export_trec is not None:
            _export_trec(study.folder, Path(options.export_trec).expanduser())
        elif options.dry_run:
            self._print_preview(study)
        elif options.prepare:
            from study.workflows.prepare_data import prepare_study_data

            prepare_study_data(study)
        else:
            from study.workflows.session import run_study

            run_study(study, self._start_time)

    def _run_suite(self, suite: Suite) -> None:
        options = self._options
        self._folder = suite.folder
        if options.sweep or options.export_sweep is not None:
            raise UserError("command line", "a suite with a sweep", "a study file; a sweep is for one search")
        if options.dry_run:
            self._print_preview(suite.studies[0].study if options.study and len(suite.studies) == 1 else suite)
        elif options.export_trec is not None:
            for each in suite.studies:
                _export_trec(each.study.folder, Path(options.export_trec).expanduser() / each.key)
        elif options.prepare:
            from study.suites.run_suite import prepare_suite_data

            prepare_suite_data(suite)
        else:
            from study.suites.run_suite import run_suite

            run_suite(suite, self._start_time)

    def _print_preview(self, planned: Study | Suite) -> None:
        from study.suites.preview import build_suite_preview
        from study.workflows.dry_run import build_preview

        estimate_cost, as_json, records = self._options.estimate_cost, self._options.json, self._options.records
        log: Callable[[str], None] = (lambda line: None) if as_json else print_line
        preview = (
            build_suite_preview(planned, estimate_cost, log, records)
            if isinstance(planned, Suite)
            else build_preview(planned, estimate_cost, log, records)
        )
        print_escaped(json.dumps(preview, indent=1) if as_json else str(preview))

    def describe_interruption(self) -> str:
        """Return the number of finished runs and the advice to resume."""
        return f"{_describe_saved_runs(self._folder)}; rerun the same command to resume"

    def describe_error(self, error: Exception) -> str:
        """Return one line: the cause, the number of finished runs, the remedy and the file with the full traceback."""
        cause, remedy = (str(error), error.remedy) if isinstance(error, IncompleteError) else explain_error(error)
        line = "; ".join(filter(None, (cause, _describe_saved_runs(self._folder), remedy)))
        needs_log = not (isinstance(error, IncompleteError | PermissionError) or is_disk_full(error))
        return line + _log_traceback(error, self._folder) if needs_log else line


def _build_parser() -> Parser:
    parser = Parser(
        "study.run",
        "Train every variant of a ranker or sentence encoder over several seeds, search hyperparameters, "
        "test the winners and write a report. Default: the quick study. Rerun the same command to resume.",
    )
    parser.add_argument(
        "arguments",
        nargs="*",
        metavar="STUDY | SUITE | KEY=VALUE",
        help="file or name of a study or suite, then overrides",
    )
    parser.add_argument(
        "--study",
        action="append",
        default=[],
        metavar="KEY",
        help='only these studies of a suite, e.g. "*qqp*"; may be repeated',
    )
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--list", action="store_true", help="list what a study can choose by name")
    modes.add_argument("--dry-run", action="store_true", help="only show what would run and what it costs")
    modes.add_argument("--prepare", action="store_true", help="only prepare the task's data and describe it")
    modes.add_argument(
        "--export-trec", metavar="FOLDER", help="only write the recorded rankings as TREC files to FOLDER"
    )
    modes.add_argument(
        "--sweep",
        action="store_true",
        help="run one configuration with all seeds, without test scores: variant=NAME and its NAME=VALUE",
    )
    modes.add_argument(
        "--export-sweep",
        nargs="?",
        const="sweeps",
        metavar="FOLDER",
        help="only write the search of each variant as a W&B sweep, in FOLDER (default: sweeps)",
    )
    parser.add_argument(
        "--estimate-cost", action="store_true", help="with --dry-run: train for a minute to estimate the cost"
    )
    parser.add_argument(
        "--records",
        metavar="SOURCE",
        help="with --dry-run: folder, file of scores or archive:NAME of an earlier study: show what this one finds",
    )
    parser.add_argument("--json", action="store_true", help="with --dry-run: print JSON")
    parser.add_argument("--address", metavar="ADDRESS", help="address of a running Ray cluster, e.g. auto")
    return parser


def _check_options(options: argparse.Namespace) -> None:
    """Refuse options that would be ignored."""
    for name in ("estimate_cost", "records", "json"):
        if getattr(options, name) and not options.dry_run:
            raise UserError("command line", f"--{name.replace('_', '-')}", "also --dry-run")


def _split_parameters(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the overrides of the study and the hyperparameters of one configuration, by name.

    A key is a hyperparameter if it has no dot and is no key of a study file.
    """
    overrides, parameters = list[str](), dict[str, str]()
    for argument in arguments:
        key, _, value = (part.strip() for part in argument.partition("="))
        if "." in key or key in list_known_keys():
            overrides.append(argument)
        elif parameters.setdefault(key, value) != value:
            raise UserError(f"command line: {key}", f"given twice, as {parameters[key]!r} and {value!r}", "one value")
    return overrides, parameters


def _export_sweeps(study: Study, name: str | None, overrides: Sequence[str], folder: str) -> None:
    from study.wandb_sweeps.sweep_export import StudyReference, export_sweeps

    if "=" in folder or Path(folder).is_file() or folder in list_shipped() | list_shipped(suites=True):
        raise UserError("--export-sweep", repr(folder), "a folder; the study and its settings come before the option")
    source = StudyReference(name or "quick", overrides)
    for path in export_sweeps(study, source, Path(folder).expanduser()):
        print_escaped(path)
    for variable, value in source.variables.items():
        print_escaped(f"for the agents: export {variable}={shlex.quote(value)}")


def _export_trec(results: Path, folder: Path) -> None:
    from analysis.export.trec import export_trec
    from analysis.readers.study_reader import read_records

    if not (results / "plan.json").is_file():
        raise UserError("--export-trec", f"no results in {results}", "a study that has been run")
    paths = export_trec(read_records(results), folder)
    n_rankings = sum(path.suffix == ".run" for path in paths)
    print_escaped(f"wrote {n_rankings} rankings and {len(paths) - n_rankings} files of qrels to {folder}")


def _log_traceback(error: Exception, folder: Path | None) -> str:
    """Write the traceback to error.log in the study's folder, if it exists, and return the end of the message."""
    if folder is None or not folder.is_dir():
        return ""
    try:
        (folder / "error.log").write_text("".join(format_redacted_traceback(error)), encoding="utf-8")
    except OSError as write_error:
        return f"; no error.log: {os.strerror(write_error.errno or 0).lower()}"
    return f"; full traceback: {folder / 'error.log'}"


def _describe_saved_runs(folder: Path | None) -> str:
    if folder is None:
        return "no run was started"
    records = [*folder.glob("runs/*/record.json"), *folder.glob("*/runs/*/record.json")]  # of a study, of a suite
    n_finished = sum(map(_is_finished, records))
    return f"{n_finished} finished run{'s' * (n_finished != 1)} kept in {folder}"


def _is_finished(path: Path) -> bool:
    try:
        return bool(read_json(path)["state"] == "finished")
    except (OSError, ValueError, KeyError, TypeError):
        return False


if __name__ == "__main__":
    interruption.run_command(main)
