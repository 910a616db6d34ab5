"""Storage in a folder, on a local disk or one that several machines share."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trainables.storage.base import MANIFEST, Marker, Storage, StoredFile
from trainables.utils.files import (
    make_folder,
    make_temporary_path,
    remove_folder,
    remove_stale_files,
    write_atomically,
    write_folder_atomically,
)


class LocalStorage(Storage):
    """Storage in a folder of a disk.

    Folders appear by one rename and markers by one exclusive creation, which are atomic on shared disks too.

    Args:
        folder: root of the storage; it need not exist.
    """

    poll_interval_s = 0.1
    heartbeat_s = 5.0

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def subfolder(self, name: str) -> "LocalStorage":
        """Return the storage of a subfolder."""
        return LocalStorage(self.folder / name)

    @contextmanager
    def write_folder(self, name: str) -> Iterator[Path]:
        """Yield a temporary folder that is renamed to `name` if the block succeeds."""
        with write_folder_atomically(self.folder / name) as temporary:
            yield temporary

    @contextmanager
    def read_folder(self, name: str) -> Iterator[Path]:
        """Yield the folder itself."""
        yield self.folder / name

    def exists(self, name: str) -> bool:
        """Return whether the folder exists."""
        return (self.folder / name).is_dir()

    def list_folders(self) -> list[str]:
        """Return the names of all folders except hidden ones, sorted."""
        if not self.folder.is_dir():
            return []
        return sorted(path.name for path in self.folder.iterdir() if path.is_dir() and not path.name.startswith("."))

    def remove(self, name: str) -> None:
        """Remove a folder atomically; if that fails, it stays."""
        remove_folder(self.folder / name)

    def mark_used(self, name: str) -> None:
        """Set the modification time of the folder's manifest to now, if possible."""
        with suppress(OSError):
            os.utime(self.folder / name / MANIFEST)

    def list_files(self, name: str = "") -> Iterator[StoredFile]:
        """Yield all files below a folder, except hidden ones and those in hidden folders."""
        for parent, folders, files in os.walk(self.folder / name):
            folders[:] = [folder for folder in folders if not folder.startswith(".")]
            for path in (Path(parent, file) for file in files if not file.startswith(".")):
                with suppress(FileNotFoundError):
                    stat = path.stat()
                    yield StoredFile(path.relative_to(self.folder).as_posix(), stat.st_size, stat.st_mtime)

    def put_file(self, name: str, source: Path) -> None:
        """Copy a local file into the storage, atomically."""
        with write_atomically(self.folder / name) as temporary:
            shutil.copyfile(source, temporary)

    def get_file(self, name: str, target: Path) -> None:
        """Copy a file of the storage to a local path, atomically."""
        with write_atomically(target) as temporary:
            shutil.copyfile(self.folder / name, temporary)

    def create_marker(self, name: str, text: str) -> bool:
        """Create a marker exclusively (O_EXCL); return whether it was created."""
        make_folder(self.folder)
        try:
            descriptor = os.open(self.folder / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        except FileExistsError:
            return False
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(text)
        except OSError:  # others would wait for the owner of an incomplete marker
            (self.folder / name).unlink(missing_ok=True)
            raise
        return True

    def read_marker(self, name: str) -> Marker | None:
        """Return a marker with its modification time, or None if it does not exist."""
        path = self.folder / name
        try:
            return Marker(path.read_text(encoding="utf-8"), str(path.stat().st_mtime_ns))
        except FileNotFoundError:
            return None

    def refresh_marker(self, name: str, text: str) -> None:
        """Set the modification time of a marker to now, if it still has this text."""
        marker = self.read_marker(name)
        if marker is not None and marker.text == text:
            with suppress(OSError):
                os.utime(self.folder / name)

    def delete_marker(self, name: str, text: str) -> None:
        """Delete a marker if it still has this text."""
        path = self.folder / name
        aside = make_temporary_path(path)
        try:
            os.rename(path, aside)
        except FileNotFoundError:
            return
        if aside.read_text(encoding="utf-8") != text:  # written again since the caller read it: put it back
            with suppress(OSError):
                os.link(aside, path)
        aside.unlink()

    def remove_stale_files(self) -> None:
        """Remove the temporaries of processes that have ended."""
        remove_stale_files(self.folder)
