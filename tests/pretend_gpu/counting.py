"""Counts of kernels, copies and waits, with the line of the project that caused each copy and wait."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PACKAGE = f"{Path(__file__).parent}/"
_ROOT = f"{Path(__file__).parents[2]}/"


class Counts:
    """Numbers of what happened inside a block of `count`.

    Attributes:
        kernels: operations that computed on the device.
        copies: copies between host and device, blocking or not.
        waits: times that the host waited for the device. A blocking copy is also a wait.
        operations: kernels by name of the operation.
        places: copies and waits by kind, operation and line.
    """

    def __init__(self) -> None:
        self.kernels = self.copies = self.waits = 0
        self.operations, self.places = Counter[str](), Counter[str]()

    def __sub__(self, other: "Counts") -> "Counts":
        found = Counts()
        for name, value in vars(self).items():
            setattr(found, name, value - getattr(other, name))
        return found

    def __repr__(self) -> str:
        lines = [f"{number} x {place}" for place, number in self.places.most_common()]
        return "\n  ".join([f"{self.kernels} kernels, {self.copies} copies, {self.waits} waits", *lines])


_active: list[Counts] = []
captured: Counter[str] | None = None
"""Kernels of the CUDA graph that is captured now; they do not run."""


@contextmanager
def count() -> Iterator[Counts]:
    """Count what happens inside the block, in all threads."""
    counts = Counts()
    _active.append(counts)
    try:
        yield counts
    finally:
        _active.remove(counts)


def note_kernel(operation: str) -> None:
    if captured is not None:
        captured[operation] += 1
        return
    for counts in _active:
        counts.kernels += 1
        counts.operations[operation] += 1


def note_copy(operation: str) -> None:
    for counts in _active:
        counts.copies += 1
        counts.places[f"copy by {operation} at {find_line()}"] += 1


def note_wait(operation: str) -> None:
    for counts in _active:
        counts.waits += 1
        counts.places[f"wait by {operation} at {find_line()}"] += 1


def find_line() -> str:
    """Return the innermost line of the project that is running, outside this package and installed libraries."""
    frame = sys._getframe()
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(_ROOT) and not name.startswith(_PACKAGE) and "site-packages" not in name:
            return f"{name.removeprefix(_ROOT)}:{frame.f_lineno}"
        frame = frame.f_back
    return "no line of the project"
