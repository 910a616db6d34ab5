"""Describes why a trial failed, in one line that may be published.

The line contains no paths of the machine, no host names and no addresses.
"""

import errno
import platform
import re
import traceback
from collections.abc import Sequence
from pathlib import Path

from trainables.utils.checksums import DamagedError
from trainables.utils.errors import MachineError, is_disk_full
from trainables.worker.crash_report import CrashReport, to_relative_path
from trainables.worker.gpu_errors import classify_gpu_error, parse_memory
from trainables.worker.limits import GPU_MEMORY_SHARE, StepLimits

_IO_PACKAGES = frozenset(
    {"adlfs", "aiobotocore", "aiohttp", "botocore", "gcsfs", "ray", "requests", "s3fs", "safetensors", "urllib3"}
)
"""Packages for disks and networks; a configuration cannot cause their errors."""
_PATH = re.compile(r"(?<![\w.:/~])~?/[^\s'\"`,;:()\[\]<>]+")
_IPV4 = re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b")
_JSON_ANSWER = re.compile(r"\{\s*\"(?:data|errors)\".*\}", re.DOTALL)
_MESSAGE = re.compile(r'"message"\s*:\s*"((?:[^"\\]|\\.)*)"')
_OUT_OF_MEMORY = re.compile(r"allocate|bad_alloc|out of memory|could not create a (memory|primitive)", re.IGNORECASE)
_RAY_KILLED = re.compile(r"running low on memory.*?was (\S+) used / (\S+) limit", re.DOTALL)

HOSTS: set[str] = set()
"""Names and addresses of other machines; connecting to a cluster adds those of its nodes."""


class IncompleteError(Exception):
    """Raised if a study or a configuration has no result because its runs failed on their own.

    Args:
        what: the missing result, in words.
        causes: the distinct causes of the failed runs.

    Example:
        >>> print(IncompleteError("no result of LS", ["FloatingPointError: loss is nan", "ValueError: x"]))
        no result of LS (FloatingPointError: loss is nan, and 1 more)
    """

    def __init__(self, what: str, causes: Sequence[str]) -> None:
        reason = f" ({causes[0]}{f', and {len(causes) - 1} more' if len(causes) > 1 else ''})" if causes else ""
        super().__init__(f"{what}{reason}")
        is_permanent = causes and all(cause.startswith(FloatingPointError.__name__) for cause in causes)
        self.remedy = (
            "the same settings would fail again; change them, e.g. training.learning_rate, and output.folder"
            if is_permanent
            else "rerun the same command to retry failed runs (runs of the search only while there are no test scores)"
        )


def is_machine_fault(error: BaseException, limits: StepLimits) -> bool:
    """Return whether an exception in a trial is the machine's fault.

    Such an exception is no result of the configuration, and a retry may succeed. A lack of memory is the fault of the
    configuration if there was a memory limit, and on a GPU if the trial needs more than its share.
    """
    if kind := classify_gpu_error(error):
        return kind != "too large"
    if isinstance(error, MachineError | DamagedError) or is_disk_full(error):
        return True
    if (
        isinstance(error, OSError) and error.errno != errno.ENOMEM
    ):  # checked before the message, which may contain any path
        return True
    if _is_out_of_memory(error):
        return limits.memory is None
    return type(error).__module__.partition(".")[0] in _IO_PACKAGES


def redact(text: str) -> str:
    """Return `text` with paths shortened and with IPv4 addresses and known host names replaced.

    Example:
        >>> redact("cannot connect to 10.0.0.7:6379")
        'cannot connect to (address)'
    """
    text = _PATH.sub(lambda match: to_relative_path(match[0]), text.replace(str(Path.home()), "~"))
    text = _IPV4.sub("(address)", text)
    known = {platform.node(), *HOSTS} - {"", "localhost"}
    names = sorted(known | {name.partition(".")[0] for name in known if not name[0].isdigit()}, key=len, reverse=True)
    pattern = "|".join(map(re.escape, names))
    return re.sub(rf"(?<!\w)(?:{pattern})(?!\w)", "(host)", text, flags=re.IGNORECASE) if pattern else text


def summarize_server_error(error: BaseException) -> str:
    """Return the message of a W&B server, without the JSON around it."""
    text = ": ".join(line.strip() for line in str(error).splitlines() if line.strip())
    if re.search(r"\b(error|status|HTTP)\W{1,3}401\b|\b401 (Client Error|Unauthorized)", text, re.IGNORECASE):
        return "the server does not accept the API key (401); set WANDB_API_KEY, or run wandb login"
    message = _JSON_ANSWER.sub(lambda match: "; ".join(_MESSAGE.findall(match[0])) or "no reason given", text)
    return f"{type(error).__name__}: {message}"


def summarize_error(error: BaseException, limits: StepLimits) -> str:
    """Describe an exception of a trial in one redacted line.

    Args:
        error: the exception.
        limits: the limits of the trial; a lack of memory is attributed to the one that was reached.

    Example:
        >>> summarize_error(ValueError("no such thing"), StepLimits())
        'ValueError: no such thing'
    """
    line = redact((str(error).strip().splitlines() or [""])[0])
    message = f"{type(error).__name__}: {line}" if line else type(error).__name__
    if kind := classify_gpu_error(error):
        return message if kind == "broken" else _describe_gpu_memory(error, limits)
    if limits.memory is not None and _is_out_of_memory(error):
        return f"more than trial.memory = {_format_size(limits.memory)} was needed: {message}"
    return message


def _describe_gpu_memory(error: BaseException, limits: StepLimits) -> str:
    """Say how much of a GPU's memory was needed and allowed; torch's own text is long and begins with other numbers."""
    needed, allowed = map(_format_size, parse_memory(str(error)))
    share = "" if limits.gpu is None else f", {GPU_MEMORY_SHARE:.0%} of resources.gpu = {limits.gpu:g}"
    if classify_gpu_error(error) == "too large":
        remedy = "give trials a larger share, or lower training.tokens_per_micro_batch or training.batch_size"
        return f"{needed} of the GPU's memory were needed, but {allowed} are allowed{share}; {remedy}"
    of_own = f" although this trial needed {needed} of the {allowed} that it is allowed{share}" * (allowed != "0 GB")
    return f"other processes left the GPU too little memory{of_own}"


def _is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or _OUT_OF_MEMORY.search(str(error)) is not None


def format_redacted_traceback(error: BaseException) -> list[str]:
    """Return the redacted lines of the traceback."""
    return [redact(line) for line in traceback.format_exception(error)]


def describe_crash(message: str, report: CrashReport | None, limits: StepLimits) -> str:
    """Describe why the process of a trial ended without an exception."""
    if report and report.fault is None:
        return f"a step took longer than trial.minutes = {limits.minutes:g}; it hung in {report.location}"
    if report:
        return f"the trial's process crashed ({report.fault}) in {report.location}"
    low = _RAY_KILLED.search(message)
    if low:
        return f"Ray ended the trial's process because its node ran low on memory: {low[1]} of {low[2]} used"
    if "its node has died" in message:
        return "the trial's node died"
    hint = "set trial.memory to record configurations that need too much memory and to continue the study"
    if limits.memory:
        hint = f"its limit was trial.memory = {_format_size(limits.memory)}"
    return f"the trial's process was killed, as the system does when memory runs out (signal 9); {hint}"


def _format_size(count: int) -> str:
    return f"{count / 1e9:.3g} GB"
