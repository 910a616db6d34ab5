"""The kinds of file systems that states can lie on, and what can happen to a file there."""

import uuid
from pathlib import Path

import fsspec

KINDS = ("folder", "file", "memory")


def place(kind: str, folder: Path) -> str:
    """An empty storage's place; one in memory is this process's alone."""
    if kind == "memory":
        return f"memory://bucket-{uuid.uuid4().hex}/stages"
    return f"file://{folder}/stages" if kind == "file" else f"{folder}/stages"


def content(place: str, path: str) -> bytes:
    """A file of a storage."""
    return bytes(fsspec.filesystem(_protocol(place)).cat_file(f"{place}/{path}"))


def write(place: str, path: str, value: bytes | None) -> None:
    """Overwrites a file of a storage; None removes it."""
    system = fsspec.filesystem(_protocol(place))
    if value is None:
        system.rm_file(f"{place}/{path}")
    else:
        system.pipe_file(f"{place}/{path}", value)


def _protocol(place: str) -> str:
    return place.partition("://")[0] if "://" in place else "file"


def truncated(content: bytes) -> bytes:
    return content[:-1]


def halved(content: bytes) -> bytes:
    return content[: len(content) // 2]


def empty(content: bytes) -> bytes:
    return b""


def flipped(content: bytes) -> bytes:
    """One bit, in the middle."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def no_text(content: bytes) -> bytes:
    return b"\xff" * len(content)


def missing(content: bytes) -> None:
    return None


DAMAGES = (truncated, halved, empty, flipped, no_text, missing)
