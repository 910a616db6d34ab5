"""Classifies the failure of a Tune trial: an exception, a crash, a timeout, or a fault of the machine."""

import pickle
from pathlib import Path
from typing import NamedTuple

from ray.exceptions import RayTaskError
from ray.tune.experiment import Trial

from study.utils.error_text import describe_crash, is_machine_fault, summarize_error
from trainables.worker.crash_report import parse_crash_report
from trainables.worker.limits import StepLimits

_BUS_ERROR = "Bus error"
"""Crash of a process that reads a memory-mapped file while another process truncates it."""


class TrialFailure(NamedTuple):
    """Failure of one attempt of a trial."""

    cause: str
    """One line, without secrets."""
    is_retryable: bool
    """True if another attempt may succeed."""
    is_machine_fault: bool = False
    """True if the machine caused the failure, so that it says nothing about the configuration."""
    error: Exception | None = None
    """Exception of the trial's process, if there was one. Ray's error text is among its notes."""


def classify_failure(trial: Trial, limits: StepLimits, step_seconds: float) -> TrialFailure:
    """Return the cause of a failed trial, and remove its crash report.

    Args:
        trial: the trial, as Tune has it.
        limits: limits that applied to its steps.
        step_seconds: seconds since the trial started or its last step ended.
    """
    path = limits.crash_report
    crash_text = path.read_text(encoding="utf-8") if path is not None and path.is_file() else None
    if path is not None:
        path.unlink(missing_ok=True)
    error = _load_exception(trial)
    if error is not None:
        error.add_note(_read_ray_error(trial))
        is_deterministic = isinstance(
            error, FloatingPointError
        )  # the same seed gives the same numbers, so a retry would fail too
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
    """Return the exception of the trial's process, or None if the process ended without one."""
    error_file = trial.pickled_error_file
    if error_file is None or not Path(error_file).is_file():
        return None
    error = pickle.loads(Path(error_file).read_bytes())
    cause = error.cause if isinstance(error, RayTaskError) else None
    return cause if isinstance(cause, Exception) else None


def _read_ray_error(trial: Trial) -> str:
    """Return Ray's error text, or an empty string."""
    error_file = trial.error_file
    return Path(error_file).read_text(encoding="utf-8") if error_file is not None and Path(error_file).is_file() else ""
