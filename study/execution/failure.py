"""How a trial of Tune's that failed came to its end: by an exception, by itself, or at somebody's hands."""

import pickle
from pathlib import Path
from typing import NamedTuple

from ray.exceptions import RayTaskError
from ray.tune.experiment import Trial

from study.utils.error_text import cause, death, of_machine
from trainables.worker.crash_report import heard
from trainables.worker.limits import Limits

_MAPPED = "Bus error"
"""The crash of whoever reads a mapped file that was cut short meanwhile."""


class End(NamedTuple):
    """Of one try of an errand."""

    cause: str
    again: bool
    """Whether another try may end better."""
    machine: bool = False
    """Whether it was the machine's fault, which says nothing about the configuration."""
    error: Exception | None = None
    """What was raised in the trial's process, if it lived to tell; Ray's account of it is among its notes."""


def ended(trial: Trial, limits: Limits, silent: float) -> End:
    """The end of a trial that failed.

    Args:
        trial: as Tune has it.
        limits: that it had.
        silent: seconds since it began, or since its last step ended.
    """
    path = limits.last_words
    said = path.read_text(encoding="utf-8") if path is not None and path.is_file() else None
    if path is not None:
        path.unlink(missing_ok=True)
    error = _exception(trial)
    if error is not None:
        error.add_note(_told(trial))
        same = isinstance(error, FloatingPointError)  # the same seed gives the same numbers
        return End(cause(error, limits), again=not same, machine=of_machine(error, limits), error=error)
    words = None if said is None else heard(said)
    overdue = said is None and limits.minutes is not None and silent > 60 * limits.minutes
    hung = overdue or (words is not None and words.fault is None)
    machine = (words is None and not overdue) or (words is not None and words.fault == _MAPPED)
    return End(death(_told(trial), words, overdue, limits), again=not hung, machine=machine)


def _exception(trial: Trial) -> Exception | None:
    """What was raised in the trial's process, if it lived to tell."""
    kept = trial.pickled_error_file
    if kept is None or not Path(kept).is_file():
        return None
    error = pickle.loads(Path(kept).read_bytes())
    found = error.cause if isinstance(error, RayTaskError) else None
    return found if isinstance(found, Exception) else None


def _told(trial: Trial) -> str:
    """Ray's words."""
    kept = trial.error_file
    return Path(kept).read_text(encoding="utf-8") if kept is not None and Path(kept).is_file() else ""
