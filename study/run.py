"""Command line that runs a study.

    python -m study.run [STUDY] [KEY=VALUE ...]

Each command imports only what it needs: --help, --list and --plan load neither torch nor ray.
"""

from trainables.utils import interruption

if __name__ == "__main__":
    interruption.handle_signals("study.run")  # before imports that take time

import argparse
import errno
import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from study.config.arguments import split_arguments
from study.config.loader import Study, list_known_keys, list_shipped_studies, load_study
from study.utils.error_text import IncompleteError, format_redacted_traceback, is_disk_full
from trainables.utils.checksums import DamagedError
from trainables.utils.cli import Parser, print_error, print_escaped
from trainables.utils.errors import MachineError, UserError
from trainables.utils.files import read_json


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0 done, 2 bad input, 1 any other failure."""
    options = _build_parser().parse_intermixed_args(argv)
    start_time = time.monotonic()
    folder: Path | None = None
    try:
        _check_options(options)
        if options.list:
            from study.workflows.choices import print_choices

            print_choices()
            sys.stdout.flush()
            return 0
        name, overrides = split_arguments(options.arguments)
        overrides, parameters = _split_parameters(overrides) if options.sweep else (overrides, {})
        if options.address:
            overrides.append(f"resources.address={options.address}")
        study = load_study(name, overrides)
        folder = study.folder
        if options.export_sweep is not None:
            _export_sweeps(study, name, overrides, options.export_sweep, options.engine)
        elif options.sweep:
            from study.wandb_sweeps.run_configuration import run_configuration

            run_configuration(study, parameters)
        elif options.trec is not None:
            _export_trec(study.folder, Path(options.trec).expanduser())
        elif options.plan:
            from study.workflows.dry_run import print_preview

            print_preview(study, options.calibrate, options.json)
        elif options.prepare:
            from study.workflows.prepare_data import prepare_study_data

            prepare_study_data(study)
        else:
            from study.workflows.run_study import run_study

            run_study(study, start_time)
        sys.stdout.flush()
        return 0
    except UserError as error:
        print_error("study.run", error)
        return 2
    except BrokenPipeError:  # the reader closed the pipe, e.g. `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (KeyboardInterrupt, Exception) as error:
        if not isinstance(error, Exception) or interruption.is_interrupted():
            interruption.report_interruption(
                "study.run", f"{_describe_saved_runs(folder)}; rerun the same command to resume"
            )
            return 1
        print_error("study.run", _format_error(error, folder))
        return 1


def _build_parser() -> Parser:
    parser = Parser(
        prog="python -m study.run",
        description="Train rankers or sentence encoders with every smoothing variant, search their hyperparameters "
        "over several seeds, test the chosen configurations and write a report. Default: the quick study. Rerun the "
        "same command to resume.",
    )
    parser.add_argument("arguments", nargs="*", metavar="STUDY | KEY=VALUE", help="study file or name, then overrides")
    parser.add_argument("--plan", action="store_true", help="show what would run and what it costs; run nothing")
    parser.add_argument("--calibrate", action="store_true", help="with --plan: train for a minute to estimate the cost")
    parser.add_argument("--json", action="store_true", help="with --plan: print JSON, for other programs")
    parser.add_argument("--prepare", action="store_true", help="only prepare the task's data and describe it")
    parser.add_argument(
        "--trec", metavar="FOLDER", help="write the recorded rankings as TREC files to FOLDER; run nothing"
    )
    parser.add_argument(
        "--sweep",
        action="store_true",
        help="run one configuration with all seeds, without test scores; give it as variant=NAME and a NAME=VALUE for "
        "each of its hyperparameters",
    )
    parser.add_argument(
        "--export-sweep",
        nargs="?",
        const="sweeps",
        metavar="FOLDER",
        help="write the search of each variant as a W&B sweep, a YAML file in FOLDER (default: sweeps); run nothing",
    )
    parser.add_argument(
        "--engine", choices=["optuna"], help="with --export-sweep: the study's own sampler proposes, not the W&B server"
    )
    parser.add_argument(
        "--list", action="store_true", help="list what a study can choose by name: tasks, samplers, schedules, ..."
    )
    parser.add_argument("--address", metavar="ADDRESS", help="address of a running Ray cluster, e.g. auto")
    return parser


def _check_options(options: argparse.Namespace) -> None:
    """Refuse options that exclude each other or that would be ignored.

    Raises:
        UserError: two commands are given, or an option has no effect with the command that is given.
    """
    modes = {
        "--list": options.list,
        "--plan": options.plan,
        "--prepare": options.prepare,
        "--trec": options.trec,
        "--sweep": options.sweep,
        "--export-sweep": options.export_sweep,
    }
    chosen = [name for name, value in modes.items() if value not in (None, False)]
    if len(chosen) > 1:
        raise UserError("command line", " and ".join(chosen), "one of them")
    if options.list and options.arguments:
        raise UserError("command line", repr(options.arguments[0]), "no other argument with --list")
    if (options.calibrate or options.json) and not options.plan:
        raise UserError("command line", "--calibrate" if options.calibrate else "--json", "--plan as well")
    if options.engine and options.export_sweep is None:
        raise UserError("command line", "--engine", "--export-sweep as well")


def _split_parameters(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the overrides of the study and the hyperparameters of one configuration, by name.

    A key is a hyperparameter if it has no dot and is no key of a study file.

    Raises:
        UserError: a hyperparameter is given twice, with different values.
    """
    overrides, parameters = list[str](), dict[str, str]()
    for argument in arguments:
        key, _, value = (part.strip() for part in argument.partition("="))
        if "." in key or key in list_known_keys():
            overrides.append(argument)
        elif parameters.setdefault(key, value) != value:
            raise UserError(f"command line: {key}", f"given twice, as {parameters[key]!r} and {value!r}", "one value")
    return overrides, parameters


def _export_sweeps(study: Study, name: str | None, overrides: Sequence[str], folder: str, engine: str | None) -> None:
    from study.wandb_sweeps.export import SchedulerFactory, StudyReference, export_sweeps

    if "=" in folder or Path(folder).is_file() or folder in dict(list_shipped_studies()):
        raise UserError("--export-sweep", repr(folder), "a folder; the study and its settings come before the option")
    make_scheduler: SchedulerFactory | None = None
    if engine == "optuna":
        from study.wandb_sweeps.optuna_scheduler import make_sweep_scheduler as make_scheduler  # imports optuna
    source = StudyReference(name or "quick", overrides)
    for path in export_sweeps(study, source, Path(folder).expanduser(), make_scheduler):
        print_escaped(path)
    for variable, value in source.variables.items():
        print_escaped(f"for the agents: export {variable}={shlex.quote(value)}")


def _export_trec(results: Path, folder: Path) -> None:
    from analysis.export.trec import export_trec
    from analysis.readers.results import read_records

    if not (results / "plan.json").is_file():
        raise UserError("--trec", f"no results in {results}", "a study that has been run")
    paths = export_trec(read_records(results), folder)
    n_rankings = sum(path.suffix == ".run" for path in paths)
    print_escaped(f"wrote {n_rankings} rankings and {len(paths) - n_rankings} files of qrels to {folder}")


def _format_error(error: Exception, folder: Path | None) -> str:
    """Return one line: the cause, the number of finished runs and the remedy.

    It also writes the full traceback to error.log in the study's folder, if the folder exists and the disk is not full.
    """
    if is_disk_full(error):
        code = error.errno if isinstance(error, OSError) and error.errno else errno.ENOSPC
        remedy = "make it writable" if code == errno.EROFS else "free some space"
        reason = f"{os.strerror(code).lower()}{_format_location(error)}"
        return f"{reason}; {_describe_saved_runs(folder)}; {remedy} and rerun the same command"
    if isinstance(error, PermissionError):
        remedy = "make it readable and writable, and rerun the same command"
        return f"no permission{_format_location(error)}; {_describe_saved_runs(folder)}; {remedy}"
    if isinstance(error, IncompleteError):
        return f"{error}; {_describe_saved_runs(folder)}; {error.remedy}"
    line = f"{_format_cause(error)}; {_describe_saved_runs(folder)}{_format_resume_hint(error)}"
    if folder is None or not folder.is_dir():
        return line
    try:
        (folder / "error.log").write_text("".join(format_redacted_traceback(error)), encoding="utf-8")
    except OSError as write_error:
        return f"{line}; no error.log: {os.strerror(write_error.errno or 0).lower()}"
    return f"{line}; full traceback: {folder / 'error.log'}"


def _format_cause(error: Exception) -> str:
    cause = (str(error).strip().splitlines() or [""])[-1][:200]
    return cause if isinstance(error, MachineError | DamagedError) else f"{type(error).__name__}: {cause}"


def _format_resume_hint(error: Exception) -> str:
    """Return the advice to resume, or an empty string where rerunning the command may not help.

    A damaged file of the cache is removed here, so that the next run creates it again.
    """
    if isinstance(error, DamagedError):
        error.remove()
        return "; rerun the same command to create it again and resume"
    if isinstance(error, OSError):
        return "; fix this and rerun the same command to resume"
    return "; rerun the same command to resume" if isinstance(error, MachineError) else ""


def _format_location(error: Exception) -> str:
    name = error.filename if isinstance(error, OSError) else None
    return f" in {Path(os.fsdecode(name)).parent}" if isinstance(name, str | bytes) else ""


def _describe_saved_runs(folder: Path | None) -> str:
    if folder is None:
        return "no run was started"
    n_finished = sum(map(_is_finished, folder.glob("runs/*/record.json")))
    return f"{n_finished} finished run{'s' * (n_finished != 1)} kept in {folder}"


def _is_finished(path: Path) -> bool:
    try:
        return bool(read_json(path)["state"] == "finished")
    except (OSError, ValueError, KeyError, TypeError):
        return False


if __name__ == "__main__":
    interruption.run_command(main)
