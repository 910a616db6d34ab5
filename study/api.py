"""Studies from a script or a notebook: load, plan, run, report.

Each function does what a command does, with the same objects: `load` reads a study file and settings, `plan` is
`python -m study.run --dry-run`, `run` is `python -m study.run`, `report` is `python -m analysis.report`.

Example:
    >>> from study import api
    >>> study = api.load("quick", {"seeds": [1, 2], "search.n_configurations.LS": 1})
    >>> api.plan(study)["seeds"]
    [1, 2]
"""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from study.config.loader import load_study
from study.config.schema import Study
from study.utils.console import print_line
from study.workflows.dry_run import Preview, build_preview

if TYPE_CHECKING:
    from analysis.report import Report

__all__ = ["load", "plan", "report", "run"]


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
    if isinstance(settings, Mapping):
        settings = [f"{key}={_format_toml(value)}" for key, value in settings.items()]
    return load_study(str(study), settings)


def plan(study: Study, estimate_cost: bool = False) -> Preview:
    """Return what the study would run, share and cost. Nothing runs, and neither torch nor ray is loaded.

    Args:
        study: a study.
        estimate_cost: True to train for a minute in order to estimate the cost.

    Returns:
        A dictionary with the keys of `--dry-run --json`; printed, it is the text of `--dry-run`.

    Raises:
        UserError: the study does not fit this machine, its model or its prepared data.
    """
    return build_preview(study, estimate_cost, print_line)


def run(study: Study) -> "Report":
    """Run everything in the study that is not finished, write the report, and return it.

    Progress is printed. Ctrl-C, or the stop button of a notebook, ends the study; the next call resumes it.

    Returns:
        The report: data frames `systems`, `comparisons` and `runs`, the files of the `figures`, the `conclusion`.

    Raises:
        UserError: the model, the task or the folder is not what the study says.
        study.utils.error_text.IncompleteError: a system has no complete test result.
    """
    from study.workflows.run_study import run_study

    return run_study(study, time.monotonic())


def report(
    source: str | Path, study: str | None = None, cache: Path | None = None, output: Path | None = None
) -> "Report":
    """Analyse a finished study and write its report.

    Args:
        source: folder of a study, or wandb:ENTITY/PROJECT.
        study: name of the study, if the project on the server contains several.
        cache: folder that keeps the scores from a server. If None, they are removed.
        output: folder of the report. If None, it is `report` in the study's folder, or ./report-PROJECT.

    Raises:
        UserError: if there is no such study, or a file is damaged.
        analysis.readers.wandb_server.ServerError: if the server does not answer.
    """
    from analysis.readers.source import default_output_folder, open_results
    from analysis.report import write_report

    with open_results(str(source), study, cache) as results:
        return write_report(results, output or default_output_folder(str(source)))


def _format_toml(value: object) -> str:
    """Return a value as an override has it; None is the bare word none."""
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_format_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_format_toml, value)) + "]"
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)
