"""Files written whole or not at all, and the removal of what killed writers left."""

import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainables.processes import gone, machine

_TEMPORARY = re.compile(r"\..+\.(?P<machine>[0-9a-f]{8})-(?P<process>\d+)-[0-9a-f]{8}")
_FORGOTTEN = 24 * 3600.0
"""Seconds after which a temporary is nobody's, wherever its writer was."""


def temporary_name(path: Path) -> Path:
    """A name beside `path` that says which process writes there."""
    return path.with_name(f".{path.name}.{machine()}-{os.getpid()}-{uuid.uuid4().hex[:8]}")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yields a temporary name beside `path`; what was written there becomes `path` when the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_name(path)
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """The same for a folder; where `path` exists already, as another process's equal work, that one stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_name(path)
    temporary.mkdir()
    try:
        yield temporary
        try:
            os.rename(temporary, path)
        except OSError:
            if not path.is_dir():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def remove_folder(path: Path) -> None:
    """Removes a folder so that nobody sees half of it; one that is not there is as good as removed."""
    temporary = temporary_name(path)
    try:
        os.rename(path, temporary)
    except OSError:
        return
    shutil.rmtree(temporary, ignore_errors=True)


def sweep(folder: Path, deep: bool = False) -> None:
    """Removes the temporaries in `folder` whose writer on this machine has ended, or that are older than a day.

    Args:
        folder: need not exist.
        deep: in all folders below as well.
    """
    for place, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            if _abandoned(Path(place, name)):
                shutil.rmtree(Path(place, name), ignore_errors=True)
                Path(place, name).unlink(missing_ok=True)
        folders[:] = [name for name in folders if deep and not _TEMPORARY.fullmatch(name)]


def _abandoned(path: Path) -> bool:
    found = _TEMPORARY.fullmatch(path.name)
    if found is None:
        return False
    if gone(found["machine"], int(found["process"])):
        return True
    try:
        return time.time() - path.stat().st_mtime > _FORGOTTEN
    except FileNotFoundError:
        return False


def write_json(path: Path, value: object) -> None:
    """Writes `value` as JSON, whole; NaN is refused."""
    with whole_file(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n", encoding="utf-8")
