"""Crash report of a trial process that ended without a Python exception: a timeout or a native crash.

Python's faulthandler writes the report from C without the GIL, so it also works if the GIL is never released.
"""

import re
from pathlib import Path
from typing import NamedTuple

PROJECT_ROOT = Path(__file__).resolve().parents[2]
_SECTION = re.compile(r"^(?:Current thread|Thread) (0x[0-9a-f]+).*\n((?:  .*\n?)*)", re.MULTILINE)
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)
_FATAL = re.compile(r"^Fatal Python error: (.*)$", re.MULTILINE)


class CrashReport(NamedTuple):
    """Content of a crash report."""

    fault: str | None
    """Name of the fault, such as "Segmentation fault"; None for a timeout."""
    location: str
    """Innermost frame of the thread that executed the step, and the innermost frame of this project that led there."""


def format_header(thread: int) -> str:
    """Return the first line of a crash report: the id of the thread that executes the step."""
    return f"{thread:#018x}\n"


def parse_crash_report(text: str) -> CrashReport | None:
    r"""Parse the text of a crash report.

    Args:
        text: the header, followed by the dump of faulthandler.

    Returns:
        The report, or None if the process ended before it could write one.

    Example:
        >>> dump = "Timeout (0:01:00)!\nThread 0x00000000000000ab (most recent call first):\n"
        >>> text = format_header(0xAB) + dump + '  File "/tmp/step.py", line 8 in wait\n'
        >>> parse_crash_report(text)
        CrashReport(fault=None, location='step.py:8 in wait')
    """
    thread, _, rest = text.partition("\n")
    fatal = _FATAL.search(rest)
    if fatal is None and not rest.startswith("Timeout"):
        return None
    frames = {number: _FRAME.findall(lines) for number, lines in _SECTION.findall(rest)}.get(thread, [])
    return CrashReport(fatal[1] if fatal else None, _format_location(frames))


def _format_location(frames: list[tuple[str, str, str]]) -> str:
    if not frames:
        return "an unknown place"
    lines = [f"{to_relative_path(path)}:{line} in {function}" for path, line, function in frames]
    project_lines = [line for line in lines if line.startswith(("trainables/", "study/"))]
    if project_lines and project_lines[0] != lines[0]:
        return f"{lines[0]}, called from {project_lines[0]}"
    return lines[0]


def to_relative_path(path: str) -> str:
    """Return the path of a source file without the parts that are specific to the machine.

    The path is relative to this project, to the installed packages, or to the folder of the file.

    Example:
        >>> to_relative_path("/home/jane/venv/lib/python3.11/site-packages/ray/tune/tuner.py")
        'ray/tune/tuner.py'
    """
    if Path(path).is_relative_to(PROJECT_ROOT):
        return str(Path(path).relative_to(PROJECT_ROOT))
    installed = re.search(r".*/(?:site|dist)-packages/(.+)|.*/lib/python\d[^/]*/(.+)", path)
    return (installed[1] or installed[2]) if installed else Path(path).name
