"""How a trial of Tune's that failed came to its end: by an exception, by itself, or at somebody's hands."""

import pickle
from pathlib import Path
from typing import NamedTuple

from ray.exceptions import RayTaskError
from ray.tune.experiment import Trial

from study.utils.error_text import describe_crash, is_machine_fault, summarize_error
from trainables.worker.crash_report import parse_crash_report
from trainables.worker.limits import StepLimits

_BUS_ERROR = "Bus error"
"""The crash of whoever reads a mapped file that was cut short meanwhile."""


class TrialFailure(NamedTuple):
    """Of one try of an errand."""

    cause: str
    is_retryable: bool
    """Whether another try may end better."""
    is_machine_fault: bool = False
    """Whether it was the machine's fault, which says nothing about the configuration."""
    error: Exception | None = None
    """What was raised in the trial's process, if it lived to tell; Ray's account of it is among its notes."""


def classify_failure(trial: Trial, limits: StepLimits, step_seconds: float) -> TrialFailure:
    """The end of a trial that failed.

    Args:
        trial: as Tune has it.
        limits: that it had.
        silent: seconds since it began, or since its last step ended.
    """
    path = limits.crash_report
    crash_text = path.read_text(encoding="utf-8") if path is not None and path.is_file() else None
    if path is not None:
        path.unlink(missing_ok=True)
    error = _load_exception(trial)
    if error is not None:
        error.add_note(_read_ray_error(trial))
        is_deterministic = isinstance(error, FloatingPointError)  # the same seed gives the same numbers
        return TrialFailure(
            summarize_error(error, limits),
            is_retryable=not is_deterministic,
            is_machine_fault=is_machine_fault(error, limits),
            error=error,
        )
    crash_report = None if crash_text is None else parse_crash_report(crash_text)
    overdue = crash_text is None and limits.minutes is not None and step_seconds > 60 * limits.minutes
    hung = overdue or (crash_report is not None and crash_report.fault is None)
    by_machine = (crash_report is None and not overdue) or (
        crash_report is not None and crash_report.fault == _BUS_ERROR
    )
    return TrialFailure(
        describe_crash(_read_ray_error(trial), crash_report, overdue, limits),
        is_retryable=not hung,
        is_machine_fault=by_machine,
    )


def _load_exception(trial: Trial) -> Exception | None:
    """What was raised in the trial's process, if it lived to tell."""
    error_file = trial.pickled_error_file
    if error_file is None or not Path(error_file).is_file():
        return None
    error = pickle.loads(Path(error_file).read_bytes())
    found = error.cause if isinstance(error, RayTaskError) else None
    return found if isinstance(found, Exception) else None


def _read_ray_error(trial: Trial) -> str:
    """Ray's words."""
    error_file = trial.error_file
    return Path(error_file).read_text(encoding="utf-8") if error_file is not None and Path(error_file).is_file() else ""
