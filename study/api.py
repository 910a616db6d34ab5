"""Studies from a script or a notebook: load, plan, prepare, run, report, export, re-rank.

Each function does what a command does, with the same objects: `load` and `load_suite` read a file and settings, `plan`
is `python -m study.run --dry-run`, `prepare` is `--prepare`, `run` is `python -m study.run`, `report` is `python -m
analysis.report`, `export` is `python -m study.export`, and `rerank` is `python -m study.rerank`.

Example:
    >>> from study import api
    >>> study = api.load("quick", {"seeds": [1, 2], "output.folder": "results/two-seeds"})
    >>> api.plan(study)["seeds"]
    [1, 2]
"""

from trainables.utils import interruption

if missing := interruption.describe_missing_package("train"):
    raise ModuleNotFoundError(f"study.api: {missing}")

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from analysis.report import report
from study.config.loader import load_study
from study.config.schema import Study
from study.suites.preview import build_suite_preview
from study.suites.suite_loader import Suite, load_one_study
from study.suites.suite_loader import load_suite as _load_suite
from study.utils.console import print_line
from study.workflows.dry_run import Preview, build_preview
from trainables.utils.errors import UserError

if TYPE_CHECKING:
    from analysis.report import Report
    from analysis.suites.suite_report import SuiteReport

__all__ = ["export", "load", "load_suite", "plan", "prepare", "report", "rerank", "run"]


def load(study: str | Path = "quick", settings: Mapping[str, Any] | Sequence[str] = ()) -> Study:
    """Read and validate a study.

    Args:
        study: a study file, or the name of a shipped study.
        settings: settings that replace those of the file: values by dotted key, or texts as on the command line.

    Returns:
        The study, as the commands use it. It cannot be changed; load it again with other settings.

    Raises:
        UserError: if something is wrong; the message has one line for each error.

    Example:
        >>> load("quick", {"training.learning_rate": 1e-4}) == load("quick", ["training.learning_rate=1e-4"])
        True
    """
    return load_study(str(study), _format_settings(settings))


def load_suite(
    suite: str | Path, settings: Mapping[str, Any] | Sequence[str] = (), studies: Sequence[str] = ()
) -> Suite:
    """Read and validate a suite: several studies that run as one.

    Args:
        suite: a suite file, or the name of a shipped suite.
        settings: settings of all studies that replace those of the file, as for `load`.
        studies: patterns of the keys of some of the studies, such as "*qqp*". If empty, all are read.

    Raises:
        UserError: if something is wrong; the message has one line for each error.
    """
    return _load_suite(str(suite), _format_settings(settings), studies)


def plan(study: Study | Suite, estimate_cost: bool = False, records: str | Path | None = None) -> Preview:
    """Return what the study or suite would run, cost and show. Nothing runs, and neither torch nor ray is loaded.

    Args:
        study: a study or a suite.
        estimate_cost: True to train for a minute, for each study, in order to estimate the cost.
        records: folder, file of scores or archive:NAME of an earlier study, which say what differences this one shows.
            If None, those of the study's own folder.

    Returns:
        A dictionary with the keys of `--dry-run --json`; printed, it is the text of `--dry-run`.

    Raises:
        UserError: the study does not fit this machine, its model or its prepared data; or `records` do not fit it.
    """
    place = None if records is None else str(records)
    if isinstance(study, Suite):
        return build_suite_preview(study, estimate_cost, print_line, place)
    return build_preview(study, estimate_cost, print_line, place)


def prepare(study: Study) -> None:
    """Prepare the data of a study, and print a description and statistics of it. Nothing is trained.

    Raises:
        UserError: the task or the model is not what the study says.
    """
    from study.workflows.prepare_data import prepare_study_data

    prepare_study_data(study)


@overload
def run(study: Study) -> "Report": ...


@overload
def run(study: Suite) -> "SuiteReport": ...


def run(study: Study | Suite) -> "Report | SuiteReport":
    """Run everything in the study or suite that is not finished, write the report, and return it.

    Progress is printed. Ctrl-C, or the stop button of a notebook, ends the study; the next call resumes it.

    Returns:
        The report: data frames `systems`, `comparisons` and `runs`, the files of the `figures`, the `conclusion`. A
            suite has a joint report with the data frame `runs`.

    Raises:
        UserError: the model, the task or the folder is not what the study says.
        study.utils.error_text.IncompleteError: a system has no complete test result.
    """
    if isinstance(study, Suite):
        from study.suites.run_suite import run_suite

        return run_suite(study, time.monotonic())
    from study.workflows.session import run_study

    return run_study(study, time.monotonic())


def export(
    study: Study | str | Path,
    system: str,
    folder: str | Path,
    seed: int | None = None,
    form: Literal["classification", "modules", "adapter"] | None = None,
) -> Path:
    """Write the model of a system for sentence-transformers and transformers, with a model card.

    Args:
        study: a study that has been run, or its folder of results.
        system: a system of the report.
        folder: folder to write, which must not exist.
        seed: seed of the model. If None, the best on the dev split.
        form: model for sequence classification, modules of sentence-transformers, or what LoRA trained, as an adapter
            of peft. If None, the first if there is one, since most programs load that.

    Returns:
        The folder.

    Raises:
        UserError: the study has no such model, it cannot be written in this form, or the folder exists.
        trainables.utils.errors.MachineError: the written model does not give the scores of the study.
    """
    from study.models.model_export import export_system

    loaded = study if isinstance(study, Study) else load_one_study(str(study), ())
    place = Path(folder).expanduser().absolute()
    command = f"study.api.export(study, {system!r}, FOLDER{f', form={form!r}' if form else ''})"
    made = export_system(loaded, system, place, command, print_line, seed, form=form)
    print_line(f"wrote {made.runs[0].label} to {place}: {made.check}")
    return place


def rerank(
    model: str | Path,
    run: str | Path,
    queries: str | Path,
    documents: str | Path,
    out: str | Path,
    options: Sequence[str] = (),
) -> Path:
    """Score the pairs of a run with a saved ranker, and write the new run in the format of TREC.

    Args:
        model: folder of a ranker or of an ensemble, hub id, package:MODULE/FOLDER, or STUDY:SYSTEM.
        run: run to re-rank.
        queries: texts of the queries.
        documents: texts of the documents.
        out: file of the new run.
        options: further options as on the command line, such as "--depth=100".

    Returns:
        The absolute path of the new run.

    Raises:
        UserError: an input or an option is wrong.
        trainables.utils.errors.MachineError: a process that scores ends.
    """
    from study.rerank import parse_options, rerank_run

    place = Path(out).expanduser().absolute()
    files = [f"--run={run}", f"--queries={queries}", f"--documents={documents}", f"--out={place}"]
    message = StringIO()
    try:
        with redirect_stderr(message):  # the parser prints what is wrong before it exits
            parsed = parse_options([str(model), *files, *options])
    except SystemExit as error:
        reason = message.getvalue().strip().removeprefix("study.rerank: command line: ").removesuffix("; see --help")
        raise UserError("options", reason or list(options), "options of python -m study.rerank") from error
    rerank_run(parsed)
    return place


def _format_settings(settings: Mapping[str, Any] | Sequence[str]) -> Sequence[str]:
    if isinstance(settings, Mapping):
        return [f"{key}={_format_toml(value)}" for key, value in settings.items()]
    return settings


def _format_toml(value: object) -> str:
    """Return a value as an override has it; None is the bare word none."""
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_format_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_format_toml, value)) + "]"
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)
