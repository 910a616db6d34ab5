"""Files written whole or not at all, and the removal of what killed writers left."""

import hashlib
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trainables.utils.system import get_machine_id, has_exited

_TEMPORARY_NAME = re.compile(r"\..+\.(?P<machine>[0-9a-f]{8})-(?P<process>\d+)-[0-9a-f]{8}")
_CHECKSUM_LINE = re.compile(rb'\{\n "sha256": "([0-9a-f]{64})",\n')
_STALE_AFTER_S = 24 * 3600.0
"""Seconds after which a temporary is nobody's, wherever its writer was."""


def make_temporary_path(path: Path) -> Path:
    """A name beside `path` that says which process writes there."""
    return path.with_name(f".{path.name}.{get_machine_id()}-{os.getpid()}-{uuid.uuid4().hex[:8]}")


@contextmanager
def write_atomically(path: Path, durable: bool = True) -> Iterator[Path]:
    """Yields a temporary name beside `path`; what was written there becomes `path` when the block ends well.

    Args:
        path: of the file.
        durable: whether it must outlast a power cut from then on; else it may be found empty afterwards.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = make_temporary_path(path)
    try:
        yield temporary
        if durable:
            fsync_path(temporary)
        os.replace(temporary, path)
        if durable:
            fsync_path(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def write_folder_atomically(path: Path, durable: bool = True) -> Iterator[Path]:
    """The same for a folder; where `path` exists already, as another process's equal work, that one stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = make_temporary_path(path)
    temporary.mkdir()
    try:
        yield temporary
        for place, _, names in os.walk(temporary) if durable else ():
            for name in names:
                fsync_path(Path(place, name))
            fsync_path(Path(place))
        try:
            os.rename(temporary, path)
        except OSError:
            if not path.is_dir():
                raise
        if durable:
            fsync_path(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def fsync_path(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_folder(path: Path) -> None:
    """Removes a folder so that nobody sees half of it; one that is not there is as good as removed."""
    temporary = make_temporary_path(path)
    try:
        os.rename(path, temporary)
    except OSError:
        return
    shutil.rmtree(temporary, ignore_errors=True)


def remove_stale_files(folder: Path, recursive: bool = False) -> None:
    """Removes the temporaries in `folder` whose writer on this machine has ended, or that are older than a day.

    Args:
        folder: need not exist.
        deep: in all folders below as well.
    """
    for place, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            if _is_stale(Path(place, name)):
                shutil.rmtree(Path(place, name), ignore_errors=True)
                Path(place, name).unlink(missing_ok=True)
        folders[:] = [name for name in folders if recursive and not _TEMPORARY_NAME.fullmatch(name)]


def _is_stale(path: Path) -> bool:
    found = _TEMPORARY_NAME.fullmatch(path.name)
    if found is None:
        return False
    if has_exited(found["machine"], int(found["process"])):
        return True
    try:
        return time.time() - path.stat().st_mtime > _STALE_AFTER_S
    except FileNotFoundError:
        return False


def write_json(path: Path, value: object, with_checksum: bool = False) -> None:
    """Writes `value` as JSON, whole; NaN is refused.

    Args:
        path: of the file.
        value: JSON-able.
        sealed: the file of an object begins with the key `sha256`, the SHA-256 of its text without that line.
    """
    text = json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n"
    if with_checksum and value:
        text = f'{{\n "sha256": "{hashlib.sha256(text.encode()).hexdigest()}",\n{text[2:]}'
    with write_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_json(path: Path) -> Any:
    """What `write_json` wrote, without its seal; one that was written without a seal is not checked.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is not JSON, or does not have its checksum.
    """
    content = path.read_bytes()
    if seal := _CHECKSUM_LINE.match(content):
        content = b"{\n" + content[seal.end() :]
        if hashlib.sha256(content).hexdigest() != seal[1].decode():
            raise ValueError("it does not have its checksum")
    try:
        return json.loads(content)
    except ValueError as error:
        raise ValueError("not JSON") from error
