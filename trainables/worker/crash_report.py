"""What a process says when it ends within a step without an exception: that it hung, or crashed in C code.

Python's faulthandler writes it, from C and without the interpreter's lock: also a process that never gives that lock
back is heard.
"""

import re
from pathlib import Path
from typing import NamedTuple

FILE = "last-words.txt"
"""Name, in the folder of a run's record, of what its trial says."""
ROOT = Path(__file__).resolve().parents[2]
_SECTION = re.compile(r"^(?:Current thread|Thread) (0x[0-9a-f]+).*\n((?:  .*\n?)*)", re.MULTILINE)
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)
_FATAL = re.compile(r"^Fatal Python error: (.*)$", re.MULTILINE)


class LastWords(NamedTuple):
    """What was said."""

    fault: str | None
    """Name of the crash; None: the time was up."""
    where: str
    """Innermost line of the thread that made the step, and the innermost of this project that led there."""


def heading(thread: int) -> str:
    """First line of the file: whose step it is."""
    return f"{thread:#018x}\n"


def heard(text: str) -> LastWords | None:
    """Reads the file; None where the process had no time to say anything."""
    thread, _, rest = text.partition("\n")
    fatal = _FATAL.search(rest)
    if fatal is None and not rest.startswith("Timeout"):
        return None
    frames = {number: _FRAME.findall(lines) for number, lines in _SECTION.findall(rest)}.get(thread, [])
    return LastWords(fatal[1] if fatal else None, _where(frames))


def _where(frames: list[tuple[str, str, str]]) -> str:
    if not frames:
        return "a place unknown"
    lines = [f"{relative(path)}:{line} in {function}" for path, line, function in frames]
    own = [line for line in lines if line.startswith(("trainables/", "study/"))]
    return f"{lines[0]}, called from {own[0]}" if own and own[0] != lines[0] else lines[0]


def relative(path: str) -> str:
    """A source file's path without what belongs to the machine."""
    if Path(path).is_relative_to(ROOT):
        return str(Path(path).relative_to(ROOT))
    installed = re.search(r".*/(?:site|dist)-packages/(.+)|.*/lib/python\d[^/]*/(.+)", path)
    return (installed[1] or installed[2]) if installed else Path(path).name
