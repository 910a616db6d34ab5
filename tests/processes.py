"""Processes of this machine, and what descends from one of them."""

import signal
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    """A process and when it started: a number alone may be another's by now."""

    number: int
    start: str


def processes() -> dict[Process, int]:
    """Every process with its parent's number."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text(encoding="utf-8").rpartition(")")[2].split()
            found[Process(int(path.parent.name), fields[19])] = int(fields[1])
    return found


def tree(root: int) -> set[Process]:
    """A process and all that descend from it."""
    everyone = processes()
    tree = {process for process in everyone if process.number == root}
    while more := {p for p, parent in everyone.items() if parent in {q.number for q in tree}} - tree:
        tree |= more
    return tree


def heed_interruptions() -> None:
    """Take back that a shell's background jobs, and all that they start, ignore Ctrl-C; for `preexec_fn`."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
