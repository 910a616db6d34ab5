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
from trainables.worker.crash_report import LastWords, relative
from trainables.worker.limits import Limits

_FOREIGN = frozenset(
    {"adlfs", "aiobotocore", "aiohttp", "botocore", "gcsfs", "ray", "requests", "s3fs", "safetensors", "urllib3"}
)
"""Packages of disks and networks, none of whose errors a configuration can cause."""
_BY_NAME = "|".join(
    sorted({kind.__name__ for kind in vars(builtins).values() if isinstance(kind, type) and issubclass(kind, OSError)})
)
_RECORDED = re.compile(
    rf"({_BY_NAME}|SafetensorError)\b|the trial's (node died|process was killed|process crashed \(Bus error\))"
    r"|Ray ended the trial's process|the trial ended without a record|RuntimeError: no difficulties by"
    r"|RuntimeError: this processor or these libraries"
)
"""How the record of a machine's fault begins, as they were once written."""
_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
_PATH = re.compile(r"(?<![\w.:/~])~?/[^\s'\"`,;:()\[\]<>]+")
_ADDRESS = re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b")
_V6 = re.compile(
    r"(?<![\w.:])(\[)?([0-9a-f:]*:[0-9a-f:]*:(?:[0-9a-f:.]*[0-9a-f]|(?<=::)))(?:%[\w.-]*\w)?(?(1)\](?::\d+)?)(?!\w|:\w)",
    re.IGNORECASE,
)
"""What may be an address of IPv6, with brackets, a zone and a port."""
_ANSWER = re.compile(r"\{\s*\"(?:data|errors)\".*\}", re.DOTALL)
_MESSAGE = re.compile(r'"message"\s*:\s*"((?:[^"\\]|\\.)*)"')
_OF_MEMORY = re.compile(r"allocate|bad_alloc|out of memory|could not create a (memory|primitive)", re.IGNORECASE)
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
        told = f" ({causes[0]}{f', and {len(causes) - 1} more' if len(causes) > 1 else ''})" if causes else ""
        super().__init__(f"{what}{told}")
        same = causes and all(cause.startswith(FloatingPointError.__name__) for cause in causes)
        self.remedy = (
            "the same settings would fail alike: change them, e.g. training.learning_rate"
            if same
            else "the same command tries what failed again, as far as test scores have not fixed the choice"
        )


def unwritable(error: BaseException) -> bool:
    """Whether a disk takes nothing more, so that no errand ends well before somebody has seen to it."""
    known = isinstance(error, OSError) and error.errno in _UNWRITABLE
    return known or os.strerror(errno.ENOSPC) in str(error)  # as libraries say it that have errors of their own


def of_machine(error: BaseException, limits: Limits) -> bool:
    """Whether an exception in a trial is the machine's fault: then it is no result of the configuration, and another
    try may end well. Too little memory is the configuration's under a limit, and on a GPU.

    Args:
        error: what was raised.
        limits: that were in force.
    """
    if isinstance(error, MachineError | DamagedError) or unwritable(error):
        return True
    if isinstance(error, OSError) and error.errno != errno.ENOMEM:  # before its words: a path may say anything
        return True
    if _of_memory(error):
        return limits.memory is None and "cuda" not in str(error).lower()
    return type(error).__module__.partition(".")[0] in _FOREIGN


def machine_at_fault(entry: dict[str, Any]) -> bool:
    """Whether a record says that an evaluation failed by the machine's fault, as earlier versions recorded it."""
    cause = str(entry["summary"].get("error", ""))
    return entry["state"] == "failed" and (
        _RECORDED.match(cause) is not None or os.strerror(errno.ENOSPC) in cause
    )


def public(text: str) -> str:
    """`text` without what belongs to the machine."""
    text = _PATH.sub(lambda found: relative(found[0]), text.replace(str(Path.home()), "~"))
    text = _ADDRESS.sub("(address)", _V6.sub(_without_address, text))
    known = {platform.node(), *HOSTS} - {"", "localhost"}
    names = sorted(known | {name.partition(".")[0] for name in known if not name[0].isdigit()}, key=len, reverse=True)
    found = "|".join(map(re.escape, names))
    return re.sub(rf"(?<!\w)(?:{found})(?!\w)", "(host)", text, flags=re.IGNORECASE) if found else text


def _without_address(found: re.Match[str]) -> str:
    try:
        ipaddress.IPv6Address(found[2])
    except ValueError:
        return found[0]  # such as a time of day
    return "(address)" if found[2].strip(":") else found[0]


def of_server(error: BaseException) -> str:
    """What a W&B server said, without the form in which it answers."""
    text = ": ".join(line.strip() for line in str(error).splitlines() if line.strip())
    if re.search(r"\b(error|status|HTTP)\W{1,3}401\b|\b401 (Client Error|Unauthorized)", text, re.IGNORECASE):
        return "the server does not accept the API key (401); set WANDB_API_KEY, or run wandb login"
    told = _ANSWER.sub(lambda found: "; ".join(_MESSAGE.findall(found[0])) or "no reason given", text)
    return f"{type(error).__name__}: {told}"


def cause(error: BaseException, limits: Limits) -> str:
    """Of an exception in the trial."""
    line = public((str(error).strip().splitlines() or [""])[0])
    told = f"{type(error).__name__}: {line}" if line else type(error).__name__
    if limits.memory is not None and _of_memory(error):
        return f"more than trial.memory = {_size(limits.memory)} was needed: {told}"
    return told


def _of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or _OF_MEMORY.search(str(error)) is not None


def story(error: BaseException) -> list[str]:
    """The traceback."""
    return [public(line) for line in traceback.format_exception(error)]


def death(told: str, words: LastWords | None, overdue: bool, limits: Limits) -> str:
    """Of a trial's process that ended without an exception.

    Args:
        told: Ray's error.
        words: what the process said, if anything.
        overdue: the process could say nothing here, and the step took longer than it may.
        limits: that were in force.
    """
    if overdue or (words and words.fault is None):
        where = words.where if words else "a place unknown, since its node does not see the study's folder"
        return f"a step took longer than trial.minutes = {limits.minutes:g}; it hung in {where}"
    if words:
        return f"the trial's process crashed ({words.fault}) in {words.where}"
    low = _RAY_KILLED.search(told)
    if low:
        return f"Ray ended the trial's process, since its node ran low on memory: {low[1]} of {low[2]} used"
    if "its node has died" in told:
        return "the trial's node died"
    limited = "with trial.memory set, a configuration that needs too much is recorded, and the study goes on"
    if limits.memory:
        limited = f"trial.memory = {_size(limits.memory)} was in force"
    return f"the trial's process was killed, as the system does when memory runs out (signal 9); {limited}"


def _size(count: int) -> str:
    return f"{count / 1e9:.3g} GB"
