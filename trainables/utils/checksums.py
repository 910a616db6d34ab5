"""Cached files with the SHA-256 of what was written, checked when a process first opens them.

A file has its digest beside it in `<name>.sha256`, a folder those of all its files in `SHA256SUMS`; both in the form of
`sha256sum`, so `sha256sum --check` reads them too.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from trainables.utils.files import remove_folder, write_atomically, write_folder_atomically

_CHECKSUM_LIST, _SUFFIX = "SHA256SUMS", ".sha256"
_verified: dict[Path, tuple[int, int, int]] = {}
"""What a file was when this process checked it: inode, bytes, time of its last change."""
_Loaded = TypeVar("_Loaded")


class DamagedError(Exception):
    """A cached file is not what was written.

    Args:
        path: the file.
        reason: what is wrong with it.
        unit: the file or folder without which it is made anew; None: only a new start of the study makes it.
    """

    def __init__(self, path: Path, reason: str, unit: Path | None = None) -> None:
        super().__init__(f"{path.parent.parent.name}/{path.parent.name}/{path.name} {reason}")
        self.path, self.reason, self.unit = path, reason, unit

    def __reduce__(self) -> tuple[type["DamagedError"], tuple[Path, str, Path | None]]:
        return DamagedError, (self.path, self.reason, self.unit)

    def remove(self) -> None:
        """Removes the unit, so that it is made anew."""
        if self.unit is not None and self.unit.is_dir():
            remove_folder(self.unit)
        elif self.unit is not None:
            self.unit.unlink(missing_ok=True)
            _checksum_path(self.unit).unlink(missing_ok=True)


@contextmanager
def write_with_checksum(path: Path) -> Iterator[Path]:
    """As `whole_file`, with the digest beside it; not durable, since what a power cut damages is noticed."""
    with write_atomically(path, durable=False) as temporary:
        yield temporary
        with write_atomically(_checksum_path(path), durable=False) as sums:
            sums.write_text(f"{hash_file(temporary)}  {path.name}\n", encoding="utf-8")


@contextmanager
def write_folder_with_checksums(path: Path) -> Iterator[Path]:
    """As `whole_folder`, with the digests of its files."""
    with write_folder_atomically(path, durable=False) as temporary:
        yield temporary
        files = sorted(file for file in temporary.iterdir() if file.is_file())
        lines = [f"{hash_file(file)}  {file.name}\n" for file in files]
        (temporary / _CHECKSUM_LIST).write_text("".join(lines), encoding="utf-8")


def verify_file(path: Path, unit: Path | None = None) -> Path:
    """`path`, whose bytes are those that were written: digested once in a process, unless it changes.

    Args:
        path: a file of `checked_file` or in a folder of `checked_folder`.
        unit: what `DamagedError` says must be removed.

    Raises:
        DamagedError: they are not, the file is missing, or there is no digest of it.
        OSError: the file is there and cannot be read.
    """
    try:
        about = path.stat()
    except FileNotFoundError:
        raise DamagedError(path, "is missing", unit) from None
    state = about.st_ino, about.st_size, about.st_mtime_ns
    if _verified.get(path) != state:
        known = _read_checksum(path)
        if known is None:
            raise DamagedError(path, "has no checksum", unit)
        if hash_file(path) != known:
            raise DamagedError(path, "does not have its checksum", unit)
        _verified[path] = state
    return path


def verify_folder(path: Path) -> Path:
    """`path`, all of whose files are as they were written; what came later, with a digest beside it, is not looked at.

    Raises:
        DamagedError: they are not; OSError: as `verified`.
    """
    names = _read_checksums(path / _CHECKSUM_LIST)
    if not names:
        raise DamagedError(path / _CHECKSUM_LIST, "is no list of checksums", path)
    there = {file.name for file in path.iterdir() if file.is_file() and not file.name.startswith(".")}
    later = {name for name in there if name.endswith(_SUFFIX) or f"{name}{_SUFFIX}" in there}
    for name in sorted(names.keys() | there - later - {_CHECKSUM_LIST}):
        verify_file(path / name, path)
    return path


def is_intact(path: Path, remove_damaged: bool = False) -> bool:
    """Whether a checked file or folder is there and as it was written.

    Args:
        path: of it.
        remove: where it is not, what is there of it.
    """
    try:
        if path.is_dir():
            verify_folder(path)
        else:
            verify_file(path, path)
    except DamagedError as error:
        if remove_damaged:
            error.remove()
        return False
    return True


def has_checksum(path: Path) -> bool:
    """Whether a checked file is there with its digest, whatever is in it."""
    return path.is_file() and _checksum_path(path).is_file()


def load_or_rebuild(load: Callable[[], _Loaded], rebuild: Callable[[], object]) -> _Loaded:
    """What `load` gives; where it finds a damaged unit, that is removed and made anew first."""
    try:
        return load()
    except DamagedError as error:
        if error.unit is None:
            raise
        error.remove()
        rebuild()
        return load()


def hash_file(path: Path) -> str:
    """Of a file, in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _checksum_path(path: Path) -> Path:
    return path.with_name(f"{path.name}{_SUFFIX}")


def _read_checksum(path: Path) -> str | None:
    return (_read_checksums(_checksum_path(path)) or _read_checksums(path.parent / _CHECKSUM_LIST)).get(path.name)


def _read_checksums(path: Path) -> dict[str, str]:
    """Digest by name; empty where there is no such list, or it cannot be understood."""
    try:
        rows = [line.split("  ", 1) for line in path.read_text(encoding="utf-8").splitlines()]
        return {name: digest for digest, name in rows}
    except (FileNotFoundError, UnicodeDecodeError, ValueError):
        return {}
