"""Why an errand came to nothing, in one line that may be published: no paths of the machine, no hosts, no addresses."""

import errno
import os
import platform
import re
import traceback
from pathlib import Path

from trainables.last_words import LastWords, relative
from trainables.limits import Limits

_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
_PATH = re.compile(r"(?<![\w.:/~])~?/[^\s'\"`,;:()\[\]<>]+")
_ADDRESS = re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b")
_OF_MEMORY = re.compile(r"allocate|bad_alloc|out of memory|could not create a (memory|primitive)", re.IGNORECASE)
_RAY_KILLED = re.compile(r"running low on memory.*?was (\S+) used / (\S+) limit", re.DOTALL)


def unwritable(error: BaseException) -> bool:
    """Whether a disk takes nothing more, so that no errand ends well before somebody has seen to it."""
    known = isinstance(error, OSError) and error.errno in _UNWRITABLE
    return known or os.strerror(errno.ENOSPC) in str(error)  # as libraries say it that have errors of their own


def public(text: str) -> str:
    """`text` without what belongs to the machine."""
    text = _PATH.sub(lambda found: relative(found[0]), text.replace(str(Path.home()), "~"))
    text = _ADDRESS.sub("(address)", text)
    return re.sub(rf"\b{re.escape(platform.node())}\b", "(host)", text) if platform.node() else text


def cause(error: BaseException, limits: Limits) -> str:
    """Of an exception in the trial."""
    line = public((str(error).strip().splitlines() or [""])[0])
    told = f"{type(error).__name__}: {line}" if line else type(error).__name__
    if limits.memory is not None and (isinstance(error, MemoryError) or _OF_MEMORY.search(str(error))):
        return f"more than trial.memory = {_size(limits.memory)} was needed: {told}"
    return told


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
    limited = f"; trial.memory = {_size(limits.memory)} was in force" if limits.memory else ""
    return f"the trial's process was killed, as the system does when memory runs out (signal 9){limited}"


def _size(count: int) -> str:
    return f"{count / 1e9:.3g} GB"
