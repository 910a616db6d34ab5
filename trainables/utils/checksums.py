"""Cached files with the SHA-256 of what was written, checked when a process first opens them.

A file has its digest beside it in `<name>.sha256`, a folder those of all its files in `SHA256SUMS`; both in the form of
`sha256sum`, so `sha256sum --check` reads them too.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from trainables.utils.files import remove_folder, whole_file, whole_folder

_MANIFEST, _SUFFIX = "SHA256SUMS", ".sha256"
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
            _beside(self.unit).unlink(missing_ok=True)


@contextmanager
def checked_file(path: Path) -> Iterator[Path]:
    """As `whole_file`, with the digest beside it; not durable, since what a power cut damages is noticed."""
    with whole_file(path, durable=False) as temporary:
        yield temporary
        with whole_file(_beside(path), durable=False) as sums:
            sums.write_text(f"{sha256(temporary)}  {path.name}\n", encoding="utf-8")


@contextmanager
def checked_folder(path: Path) -> Iterator[Path]:
    """As `whole_folder`, with the digests of its files."""
    with whole_folder(path, durable=False) as temporary:
        yield temporary
        files = sorted(file for file in temporary.iterdir() if file.is_file())
        lines = [f"{sha256(file)}  {file.name}\n" for file in files]
        (temporary / _MANIFEST).write_text("".join(lines), encoding="utf-8")


def verified(path: Path, unit: Path | None = None) -> Path:
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
        known = _known(path)
        if known is None:
            raise DamagedError(path, "has no checksum", unit)
        if sha256(path) != known:
            raise DamagedError(path, "does not have its checksum", unit)
        _verified[path] = state
    return path


def verified_folder(path: Path) -> Path:
    """`path`, all of whose files are as they were written; what came later, with a digest beside it, is not looked at.

    Raises:
        DamagedError: they are not; OSError: as `verified`.
    """
    names = _sums(path / _MANIFEST)
    if not names:
        raise DamagedError(path / _MANIFEST, "is no list of checksums", path)
    there = {file.name for file in path.iterdir() if file.is_file() and not file.name.startswith(".")}
    later = {name for name in there if name.endswith(_SUFFIX) or f"{name}{_SUFFIX}" in there}
    for name in sorted(names.keys() | there - later - {_MANIFEST}):
        verified(path / name, path)
    return path


def intact(path: Path, remove: bool = False) -> bool:
    """Whether a checked file or folder is there and as it was written.

    Args:
        path: of it.
        remove: where it is not, what is there of it.
    """
    try:
        if path.is_dir():
            verified_folder(path)
        else:
            verified(path, path)
    except DamagedError as error:
        if remove:
            error.remove()
        return False
    return True


def present(path: Path) -> bool:
    """Whether a checked file is there with its digest, whatever is in it."""
    return path.is_file() and _beside(path).is_file()


def loaded(load: Callable[[], _Loaded], make: Callable[[], object]) -> _Loaded:
    """What `load` gives; where it finds a damaged unit, that is removed and made anew first."""
    try:
        return load()
    except DamagedError as error:
        if error.unit is None:
            raise
        error.remove()
        make()
        return load()


def sha256(path: Path) -> str:
    """Of a file, in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}{_SUFFIX}")


def _known(path: Path) -> str | None:
    return (_sums(_beside(path)) or _sums(path.parent / _MANIFEST)).get(path.name)


def _sums(path: Path) -> dict[str, str]:
    """Digest by name; empty where there is no such list, or it cannot be understood."""
    try:
        rows = [line.split("  ", 1) for line in path.read_text(encoding="utf-8").splitlines()]
        return {name: digest for digest, name in rows}
    except (FileNotFoundError, UnicodeDecodeError, ValueError):
        return {}
