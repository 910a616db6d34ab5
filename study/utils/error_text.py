"""Why an errand came to nothing, in one line that may be published: no paths of the machine, no hosts, no addresses."""

import builtins
import errno
import ipaddress
import os
import platform
import re
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainables.utils.checksums import DamagedError
from trainables.utils.errors import MachineError
from trainables.worker.crash_report import CrashReport, to_relative_path
from trainables.worker.limits import StepLimits

_IO_PACKAGES = frozenset(
    {"adlfs", "aiobotocore", "aiohttp", "botocore", "gcsfs", "ray", "requests", "s3fs", "safetensors", "urllib3"}
)
"""Packages of disks and networks, none of whose errors a configuration can cause."""
_OS_ERROR_NAMES = "|".join(
    sorted({kind.__name__ for kind in vars(builtins).values() if isinstance(kind, type) and issubclass(kind, OSError)})
)
_RECORDED_MACHINE_FAULT = re.compile(
    rf"({_OS_ERROR_NAMES}|SafetensorError)\b|the trial's (node died|process was killed|process crashed \(Bus error\))"
    r"|Ray ended the trial's process|the trial ended without a record|RuntimeError: no difficulties by"
    r"|RuntimeError: this processor or these libraries"
)
"""How the record of a machine's fault begins, as they were once written."""
_DISK_FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
_PATH = re.compile(r"(?<![\w.:/~])~?/[^\s'\"`,;:()\[\]<>]+")
_IPV4 = re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b")
_IPV6 = re.compile(
    r"(?<![\w.:])(\[)?([0-9a-f:]*:[0-9a-f:]*:(?:[0-9a-f:.]*[0-9a-f]|(?<=::)))(?:%[\w.-]*\w)?(?(1)\](?::\d+)?)(?!\w|:\w)",
    re.IGNORECASE,
)
"""What may be an address of IPv6, with brackets, a zone and a port."""
_JSON_ANSWER = re.compile(r"\{\s*\"(?:data|errors)\".*\}", re.DOTALL)
_MESSAGE = re.compile(r'"message"\s*:\s*"((?:[^"\\]|\\.)*)"')
_OUT_OF_MEMORY = re.compile(r"allocate|bad_alloc|out of memory|could not create a (memory|primitive)", re.IGNORECASE)
_RAY_KILLED = re.compile(r"running low on memory.*?was (\S+) used / (\S+) limit", re.DOTALL)


HOSTS: set[str] = set()
"""Names and addresses of other machines: who joins a cluster adds those of its nodes."""


class IncompleteError(Exception):
    """Runs that failed by themselves leave a study or a configuration without a result.

    Args:
        what: has none, in words.
        causes: of the failed runs, each once.
    """

    def __init__(self, what: str, causes: Sequence[str]) -> None:
        reason = f" ({causes[0]}{f', and {len(causes) - 1} more' if len(causes) > 1 else ''})" if causes else ""
        super().__init__(f"{what}{reason}")
        same = causes and all(cause.startswith(FloatingPointError.__name__) for cause in causes)
        self.remedy = (
            "the same settings would fail alike: change them, e.g. training.learning_rate"
            if same
            else "the same command tries what failed again, as far as test scores have not fixed the choice"
        )


def is_disk_full(error: BaseException) -> bool:
    """Whether a disk takes nothing more, so that no errand ends well before somebody has seen to it."""
    known = isinstance(error, OSError) and error.errno in _DISK_FULL_ERRNOS
    return known or os.strerror(errno.ENOSPC) in str(error)  # as libraries say it that have errors of their own


def is_machine_fault(error: BaseException, limits: StepLimits) -> bool:
    """Whether an exception in a trial is the machine's fault: then it is no result of the configuration, and another
    try may end well. Too little memory is the configuration's under a limit, and on a GPU.

    Args:
        error: what was raised.
        limits: that were in force.
    """
    if isinstance(error, MachineError | DamagedError) or is_disk_full(error):
        return True
    if isinstance(error, OSError) and error.errno != errno.ENOMEM:  # before its words: a path may say anything
        return True
    if _is_out_of_memory(error):
        return limits.memory is None and "cuda" not in str(error).lower()
    return type(error).__module__.partition(".")[0] in _IO_PACKAGES


def is_recorded_machine_fault(entry: dict[str, Any]) -> bool:
    """Whether a record says that an evaluation failed by the machine's fault, as earlier versions recorded it."""
    cause = str(entry["summary"].get("error", ""))
    return entry["state"] == "failed" and (
        _RECORDED_MACHINE_FAULT.match(cause) is not None or os.strerror(errno.ENOSPC) in cause
    )


def redact(text: str) -> str:
    """`text` without what belongs to the machine."""
    text = _PATH.sub(lambda found: to_relative_path(found[0]), text.replace(str(Path.home()), "~"))
    text = _IPV4.sub("(address)", _IPV6.sub(_replace_address, text))
    known = {platform.node(), *HOSTS} - {"", "localhost"}
    names = sorted(known | {name.partition(".")[0] for name in known if not name[0].isdigit()}, key=len, reverse=True)
    found = "|".join(map(re.escape, names))
    return re.sub(rf"(?<!\w)(?:{found})(?!\w)", "(host)", text, flags=re.IGNORECASE) if found else text


def _replace_address(found: re.Match[str]) -> str:
    try:
        ipaddress.IPv6Address(found[2])
    except ValueError:
        return found[0]  # such as a time of day
    return "(address)" if found[2].strip(":") else found[0]


def summarize_server_error(error: BaseException) -> str:
    """What a W&B server said, without the form in which it answers."""
    text = ": ".join(line.strip() for line in str(error).splitlines() if line.strip())
    if re.search(r"\b(error|status|HTTP)\W{1,3}401\b|\b401 (Client Error|Unauthorized)", text, re.IGNORECASE):
        return "the server does not accept the API key (401); set WANDB_API_KEY, or run wandb login"
    message = _JSON_ANSWER.sub(lambda found: "; ".join(_MESSAGE.findall(found[0])) or "no reason given", text)
    return f"{type(error).__name__}: {message}"


def summarize_error(error: BaseException, limits: StepLimits) -> str:
    """Of an exception in the trial."""
    line = redact((str(error).strip().splitlines() or [""])[0])
    message = f"{type(error).__name__}: {line}" if line else type(error).__name__
    if limits.memory is not None and _is_out_of_memory(error):
        return f"more than trial.memory = {_format_size(limits.memory)} was needed: {message}"
    return message


def _is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or _OUT_OF_MEMORY.search(str(error)) is not None


def format_redacted_traceback(error: BaseException) -> list[str]:
    """The traceback."""
    return [redact(line) for line in traceback.format_exception(error)]


def describe_crash(message: str, report: CrashReport | None, overdue: bool, limits: StepLimits) -> str:
    """Of a trial's process that ended without an exception.

    Args:
        told: Ray's error.
        words: what the process said, if anything.
        overdue: the process could say nothing here, and the step took longer than it may.
        limits: that were in force.
    """
    if overdue or (report and report.fault is None):
        where = report.location if report else "a place unknown, since its node does not see the study's folder"
        return f"a step took longer than trial.minutes = {limits.minutes:g}; it hung in {where}"
    if report:
        return f"the trial's process crashed ({report.fault}) in {report.location}"
    low = _RAY_KILLED.search(message)
    if low:
        return f"Ray ended the trial's process, since its node ran low on memory: {low[1]} of {low[2]} used"
    if "its node has died" in message:
        return "the trial's node died"
    limited = "with trial.memory set, a configuration that needs too much is recorded, and the study goes on"
    if limits.memory:
        limited = f"trial.memory = {_format_size(limits.memory)} was in force"
    return f"the trial's process was killed, as the system does when memory runs out (signal 9); {limited}"


def _format_size(count: int) -> str:
    return f"{count / 1e9:.3g} GB"
