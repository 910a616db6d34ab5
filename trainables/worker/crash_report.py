"""What a process says when it ends within a step without an exception: that it hung, or crashed in C code.

Python's faulthandler writes it, from C and without the interpreter's lock: also a process that never gives that lock
back is heard.
"""

import re
from pathlib import Path
from typing import NamedTuple

CRASH_REPORT_FILE = "last-words.txt"
"""Name, in the folder of a run's record, of what its trial says."""
PROJECT_ROOT = Path(__file__).resolve().parents[2]
_SECTION = re.compile(r"^(?:Current thread|Thread) (0x[0-9a-f]+).*\n((?:  .*\n?)*)", re.MULTILINE)
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)
_FATAL = re.compile(r"^Fatal Python error: (.*)$", re.MULTILINE)


class CrashReport(NamedTuple):
    """What was said."""

    fault: str | None
    """Name of the crash; None: the time was up."""
    location: str
    """Innermost line of the thread that made the step, and the innermost of this project that led there."""


def format_header(thread: int) -> str:
    """First line of the file: whose step it is."""
    return f"{thread:#018x}\n"


def parse_crash_report(text: str) -> CrashReport | None:
    """Reads the file; None where the process had no time to say anything."""
    thread, _, rest = text.partition("\n")
    fatal = _FATAL.search(rest)
    if fatal is None and not rest.startswith("Timeout"):
        return None
    frames = {number: _FRAME.findall(lines) for number, lines in _SECTION.findall(rest)}.get(thread, [])
    return CrashReport(fatal[1] if fatal else None, _format_location(frames))


def _format_location(frames: list[tuple[str, str, str]]) -> str:
    if not frames:
        return "a place unknown"
    lines = [f"{to_relative_path(path)}:{line} in {function}" for path, line, function in frames]
    own = [line for line in lines if line.startswith(("trainables/", "study/"))]
    return f"{lines[0]}, called from {own[0]}" if own and own[0] != lines[0] else lines[0]


def to_relative_path(path: str) -> str:
    """A source file's path without what belongs to the machine."""
    if Path(path).is_relative_to(PROJECT_ROOT):
        return str(Path(path).relative_to(PROJECT_ROOT))
    installed = re.search(r".*/(?:site|dist)-packages/(.+)|.*/lib/python\d[^/]*/(.+)", path)
    return (installed[1] or installed[2]) if installed else Path(path).name
