"""The failure of a trial: an exception, a crash, a timeout or a fault of the machine; how often it is retried."""

from typing import Any, NamedTuple

from study.utils.error_text import describe_crash, is_machine_fault, summarize_error
from trainables.worker.crash_report import parse_crash_report
from trainables.worker.gpu_errors import GpuFaultError, classify_gpu_error
from trainables.worker.limits import StepLimits

MAX_ATTEMPTS = 3
"""Attempts of a trial that faults of the machine end."""
MAX_NODE_LOSSES = 10
"""Lost nodes that do not count as attempts of a trial.

Cloud nodes can be taken away at any time. A trial that loses ten nodes has probably brought them down itself, for
example by using all of their memory."""
_BUS_ERROR = "Bus error"
"""Crash of a process that reads a memory-mapped file while another process truncates it."""


class TrialError(Exception):
    """Brings the record of a failed run to the driver, together with the error that the run raised."""

    def __init__(self, error: Exception, record: dict[str, Any]) -> None:
        super().__init__(error, record)
        self.error, self.record = error, record

    def __str__(self) -> str:
        return f"{type(self.error).__name__}: {self.error}"


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
    record: dict[str, Any] | None = None
    """Run record of the failed run, if its process could still make one."""


def classify_failure(error: Exception | None, text: str, limits: StepLimits) -> TrialFailure:
    """Return the cause of a failed trial, and remove its crash report.

    Args:
        error: the exception of the trial's process, or None if the process ended without one.
        text: what Ray says of the end.
        limits: the limits of the trial, with the path of its crash report.
    """
    path, record = limits.crash_report, None
    crash_text = path.read_text(encoding="utf-8") if path is not None and path.is_file() else None
    if path is not None:
        path.unlink(missing_ok=True)
    if isinstance(error, TrialError):
        record, error = error.record, error.error
    if error is not None:
        error.add_note(text)
        # The same seed gives the same numbers and needs the same memory of a GPU, so a retry would fail too.
        is_deterministic = isinstance(error, FloatingPointError) or classify_gpu_error(error) == "too large"
        return TrialFailure(
            str(error) if isinstance(error, GpuFaultError) else summarize_error(error, limits),
            is_retryable=not is_deterministic,
            is_machine_fault=is_machine_fault(error, limits),
            error=error,
            record=record,
        )
    crash_report = None if crash_text is None else parse_crash_report(crash_text)
    return TrialFailure(
        describe_crash(text, crash_report, limits),
        is_retryable=crash_report is None or crash_report.fault is not None,  # a run that hung would hang again
        is_machine_fault=crash_report is None or crash_report.fault == _BUS_ERROR,
    )
