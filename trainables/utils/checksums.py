"""Cached files with SHA-256 checksums, verified when a process first opens them.

The checksum of a file is next to it in `<name>.sha256`. The checksums of all files of a folder are in `SHA256SUMS`.
Both have the format of `sha256sum`, so `sha256sum --check` reads them too.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trainables.utils.files import remove_folder, write_atomically, write_folder_atomically

_CHECKSUM_LIST, _SUFFIX = "SHA256SUMS", ".sha256"
_verified: dict[Path, tuple[int, int, int, int]] = {}
"""Inode, size in bytes and times of each file when this process verified it."""


class DamagedError(Exception):
    """Raised if a cached file differs from what was written.

    Args:
        path: the file.
        reason: what is wrong with it.
        unit: the file or folder to remove so that the file is computed again. If None, only restarting the study
            computes it again.
    """

    def __init__(self, path: Path, reason: str, unit: Path | None = None) -> None:
        super().__init__(f"{path.parent.parent.name}/{path.parent.name}/{path.name} {reason}")
        self.path, self.reason, self.unit = path, reason, unit

    def __reduce__(self) -> tuple[type["DamagedError"], tuple[Path, str, Path | None]]:
        return DamagedError, (self.path, self.reason, self.unit)

    def remove(self) -> None:
        """Remove the unit, so that it is computed again."""
        if self.unit is not None and self.unit.is_dir():
            remove_folder(self.unit)
        elif self.unit is not None:
            self.unit.unlink(missing_ok=True)
            _checksum_path(self.unit).unlink(missing_ok=True)


@contextmanager
def write_with_checksum(path: Path) -> Iterator[Path]:
    """Yield a temporary path like `write_atomically`, and write the checksum of the file next to it.

    The write is not durable: the checksum reveals what a power cut damages.
    """
    with write_atomically(path, durable=False) as temporary:
        yield temporary
        with write_atomically(_checksum_path(path), durable=False) as checksum:
            checksum.write_text(f"{hash_file(temporary)}  {path.name}\n", encoding="utf-8")


@contextmanager
def write_folder_with_checksums(path: Path) -> Iterator[Path]:
    """Yield a temporary folder like `write_folder_atomically`, and add the checksums of its files."""
    with write_folder_atomically(path, durable=False) as temporary:
        yield temporary
        files = sorted(file for file in temporary.iterdir() if file.is_file())
        lines = [f"{hash_file(file)}  {file.name}\n" for file in files]
        (temporary / _CHECKSUM_LIST).write_text("".join(lines), encoding="utf-8")


def verify_file(path: Path, unit: Path | None = None) -> Path:
    """Return `path` after verifying that the file contains the bytes that were written.

    A process hashes a file once, and again only if the file changes.

    Args:
        path: a file written by `write_with_checksum`, or in a folder written by `write_folder_with_checksums`.
        unit: the file or folder to remove if the file is damaged, passed to `DamagedError`.

    Raises:
        DamagedError: the content differs, the file is missing, or it has no checksum.
        OSError: the file exists but cannot be read.
    """
    try:
        stat = path.stat()
    except FileNotFoundError:
        raise DamagedError(path, "is missing", unit) from None
    state = stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
    if _verified.get(path) != state:
        expected = _read_checksum(path)
        if expected is None:
            raise DamagedError(path, "has no checksum", unit)
        if hash_file(path) != expected:
            raise DamagedError(path, "does not match its checksum", unit)
        _verified[path] = state
    return path


def verify_folder(path: Path) -> Path:
    """Return `path` after verifying all files that were written with the folder.

    Files that were added later, each with its own checksum file, are not verified.

    Raises:
        DamagedError: a file is damaged, missing or without a checksum, or the list of checksums is unusable.
        OSError: a file exists but cannot be read.
    """
    names = _read_checksums(path / _CHECKSUM_LIST)
    if not names:
        raise DamagedError(path / _CHECKSUM_LIST, "is not a list of checksums", path)
    present = {file.name for file in path.iterdir() if file.is_file() and not file.name.startswith(".")}
    added_later = {name for name in present if name.endswith(_SUFFIX) or f"{name}{_SUFFIX}" in present}
    for name in sorted(names.keys() | present - added_later - {_CHECKSUM_LIST}):
        verify_file(path / name, path)
    return path


def is_intact(path: Path, remove_damaged: bool = False, log: Callable[[str], object] | None = None) -> bool:
    """Return whether a file or folder with checksums exists and is undamaged.

    Args:
        path: the file or folder.
        remove_damaged: whether it is removed if it is damaged.
        log: is called with a line if it is damaged.
    """
    try:
        if path.is_dir():
            verify_folder(path)
        else:
            verify_file(path, path)
    except DamagedError as error:
        if log and path.exists():
            log(f"{error}; it is computed again")
        if remove_damaged:
            error.remove()
        return False
    return True


def has_checksum(path: Path) -> bool:
    """Return whether a file and its checksum file exist, without verifying the content."""
    return path.is_file() and _checksum_path(path).is_file()


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _checksum_path(path: Path) -> Path:
    return path.with_name(f"{path.name}{_SUFFIX}")


def _read_checksum(path: Path) -> str | None:
    return (_read_checksums(_checksum_path(path)) or _read_checksums(path.parent / _CHECKSUM_LIST)).get(path.name)


def _read_checksums(path: Path) -> dict[str, str]:
    """Return file name -> checksum; empty if the list does not exist or cannot be parsed."""
    try:
        rows = [line.split("  ", 1) for line in path.read_text(encoding="utf-8").splitlines()]
        return {name: digest for digest, name in rows}
    except (FileNotFoundError, UnicodeDecodeError, ValueError):
        return {}
