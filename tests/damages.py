"""Damages files as disks and people do."""

import os
from collections.abc import Callable
from pathlib import Path


def flip(path: Path) -> None:
    """One bit, in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def flip_last(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-2] ^= 4
    path.write_bytes(content)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "flipped": flip,
    "flipped at the end": flip_last,
    "truncated": truncate,
    "empty": empty,
    "missing": Path.unlink,
}
