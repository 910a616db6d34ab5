"""Atomic writes of files and folders, the removal of temporaries that killed writers left, and outputs of users."""

import hashlib
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

from trainables.utils.errors import UserError
from trainables.utils.system import get_machine_id, has_exited

_TEMPORARY_NAME = re.compile(r"\..+\.(?P<machine>[0-9a-f]{8})-(?P<process>\d+)-[0-9a-f]{8}")
_CHECKSUM_LINE = re.compile(rb'\{\n "([^"\n]{6})": "([^"\n]{64})",\n')
"""The beginning of a file with a checksum, also if a byte of it is damaged."""
_HEAD_BYTES = 4096
_STALE_AFTER_S = 24 * 3600.0
"""Seconds after which a temporary counts as abandoned, on every machine."""


def make_temporary_path(path: Path) -> Path:
    """Return a temporary path in the folder of `path`; its name identifies this machine and process."""
    return path.with_name(f".{path.name}.{get_machine_id()}-{os.getpid()}-{uuid.uuid4().hex[:8]}")


def is_temporary(path: Path) -> bool:
    """Return whether a path has the form of those of `make_temporary_path`."""
    return _TEMPORARY_NAME.fullmatch(path.name) is not None


@contextmanager
def write_atomically(path: Path, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path; the file written there becomes `path` if the block succeeds.

    Args:
        path: the file; its folder is created if needed.
        durable: whether the file must survive a power cut from then on. If False, it may be empty after one.
    """
    make_folder(path.parent, durable)
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
    """Yield a temporary folder that becomes `path` if the block succeeds.

    If `path` exists already, the existing folder is kept: another process wrote the same content. The umask
    decides who can read its files, also those that a library wrote for their owner alone, as safetensors does.

    Args:
        path: the folder; its parents are created if needed.
        durable: whether the files must survive a power cut from then on.
    """
    make_folder(path.parent, durable)
    temporary = make_temporary_path(path)
    temporary.mkdir()
    try:
        yield temporary
        mode = temporary.stat().st_mode & 0o666
        for parent, _, names in os.walk(temporary):
            for file in (Path(parent, name) for name in names):
                _add_permissions(file, mode)
                if durable:
                    fsync_path(file)
            if durable:
                fsync_path(Path(parent))
        try:
            os.rename(temporary, path)
        except OSError:
            if not path.is_dir():
                raise
        if durable:
            fsync_path(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _add_permissions(file: Path, mode: int) -> None:
    """Add permissions that a file lacks, where the file system has any. What a link points to is not ours."""
    with suppress(OSError):
        if not file.is_symlink() and mode & ~file.stat().st_mode:
            file.chmod(file.stat().st_mode | mode)


def make_folder(folder: Path, durable: bool = True) -> None:
    """Create a folder and its parents where they are missing.

    Args:
        folder: the folder.
        durable: whether those that are created must survive a power cut: otherwise a file in them would not.
    """
    missing = list(takewhile(lambda each: not each.is_dir(), (folder, *folder.parents)))
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
    if durable:
        sync_folders(each.parent for each in missing)


def sync_folders(folders: Iterable[Path]) -> None:
    """Wait until the entries of folders are on the disk, except where a folder is missing or may not be read."""
    for folder in folders:
        with suppress(FileNotFoundError, PermissionError):
            fsync_path(folder)


def fsync_path(path: Path) -> None:
    """Wait until the content of a file, or the entries of a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_folder(path: Path) -> None:
    """Remove a folder atomically: no process sees half of it. A missing folder is not an error."""
    temporary = make_temporary_path(path)
    try:
        os.rename(path, temporary)
    except OSError:
        return
    shutil.rmtree(temporary, ignore_errors=True)


def remove_stale_files(folder: Path, recursive: bool = False) -> None:
    """Remove the temporaries in `folder` that no running process writes.

    These are temporaries older than a day, and those of processes of this machine that have ended.
    """
    for parent, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            if _is_stale(Path(parent, name)):
                shutil.rmtree(Path(parent, name), ignore_errors=True)
                Path(parent, name).unlink(missing_ok=True)
        folders[:] = [name for name in folders if recursive and not _TEMPORARY_NAME.fullmatch(name)]


def _is_stale(path: Path) -> bool:
    match = _TEMPORARY_NAME.fullmatch(path.name)
    if match is None:
        return False
    if has_exited(match["machine"], int(match["process"])):
        return True
    try:
        return time.time() - path.stat().st_mtime > _STALE_AFTER_S
    except FileNotFoundError:
        return False


def write_json(path: Path, value: object, with_checksum: bool = False) -> None:
    """Write `value` as JSON, atomically and durably.

    Args:
        path: the file.
        value: a value that JSON can represent.
        with_checksum: if True, the first key of a non-empty object is `sha256`: the SHA-256 of the text without
            that line.

    Raises:
        ValueError: the value contains a NaN or an infinity.
    """
    text = json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n"
    if with_checksum and value:
        text = f'{{\n "sha256": "{hashlib.sha256(text.encode()).hexdigest()}",\n{text[2:]}'
    with write_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_json(path: Path) -> Any:
    """Return the value that `write_json` wrote, without its checksum.

    A file that was written without a checksum is not verified.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is not JSON, or does not match its checksum.
    """
    content = path.read_bytes()
    if line := _CHECKSUM_LINE.match(content):
        content = b"{\n" + content[line.end() :]
        if (b"sha256", hashlib.sha256(content).hexdigest().encode()) != line.groups():
            raise ValueError("it does not match its checksum")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError("not JSON") from error


def check_outputs(
    option: str,
    outputs: Iterable[Path],
    is_own: Callable[[Path], bool],
    inputs: Iterable[Path] = (),
    own: str | None = None,
) -> None:
    """Check that outputs replace nothing but earlier outputs of the same command.

    Args:
        option: what names the outputs, for the error message.
        outputs: the files to write.
        is_own: returns whether an existing regular file has the form of what the command writes.
        inputs: files that the command reads; they need not exist.
        own: words for what `is_own` accepts, if the command may have written other files, too.

    Raises:
        UserError: an output is an input, a link, a device or a folder, or a file that the command did not write.
    """
    sources = [path for path in inputs if path.exists()]
    for path in outputs:
        if not os.path.lexists(path):
            continue
        if path.exists() and any(path.samefile(source) for source in sources):
            raise UserError(option, f"{path} is an input of this command", "another file")
        if path.is_symlink() or not path.is_file():
            raise UserError(option, f"{path} exists and is no regular file", "a file")
        if not is_own(path):
            if own:
                expected = f"a new file, or a {own} that this command wrote: name another file, or remove this one"
                raise UserError(option, f"{path} exists and is no {own}", expected)
            raise UserError(option, f"{path} exists and this command did not write it", "another file, or remove it")


def read_head(path: Path) -> str:
    """Return the beginning of a file as text; characters that are no UTF-8 are replaced."""
    with path.open("rb") as stream:
        return stream.read(_HEAD_BYTES).decode(errors="replace")


def has_json_form(path: Path, value: object) -> bool:
    """Return whether a file contains JSON that shares most of its keys with a value, or the same empty value.

    If they are lists of objects, the first ones are compared.
    """
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return False
    if not value:
        return bool(content == value)
    found, keys = _get_keys(content), _get_keys(value)
    return len(found & keys) > len(found ^ keys)


def _get_keys(value: Any) -> set[str]:
    first = value[0] if isinstance(value, list) and value else value
    return set(first) if isinstance(first, dict) else set()


def get_last_name(path: str) -> str:
    """Return the last name of a path as a user wrote it, and ~ for the home folder, since its name is that of the user.

    Example:
        >>> get_last_name("~/data/scifact/"), get_last_name("~")
        ('scifact', '~')
    """
    place = os.path.abspath(os.path.expanduser(path))
    return "~" if place == os.path.expanduser("~") else os.path.basename(place)
