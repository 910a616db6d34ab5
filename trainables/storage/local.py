"""States in a folder, on a disk of this machine or one that several share."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trainables.storage.base import MANIFEST, Marker, Storage, StoredFile
from trainables.utils.files import (
    make_temporary_path,
    remove_folder,
    remove_stale_files,
    write_atomically,
    write_folder_atomically,
)


class LocalStorage(Storage):
    """A folder. What is in it appears by one rename or one exclusive creation; shared disks keep to that as well."""

    poll_interval_s = 0.1

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def subfolder(self, name: str) -> "LocalStorage":
        return LocalStorage(self.folder / name)

    @contextmanager
    def write_folder(self, name: str) -> Iterator[Path]:
        with write_folder_atomically(self.folder / name) as temporary:
            yield temporary

    @contextmanager
    def read_folder(self, name: str) -> Iterator[Path]:
        yield self.folder / name

    def exists(self, name: str) -> bool:
        return (self.folder / name).is_dir()

    def list_folders(self) -> list[str]:
        if not self.folder.is_dir():
            return []
        return sorted(path.name for path in self.folder.iterdir() if path.is_dir() and not path.name.startswith("."))

    def remove(self, name: str) -> None:
        remove_folder(self.folder / name)

    def mark_used(self, name: str) -> None:
        with suppress(OSError):
            os.utime(self.folder / name / MANIFEST)

    def list_files(self) -> Iterator[StoredFile]:
        for place, folders, files in os.walk(self.folder):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for path in (Path(place, name) for name in files if Path(place) != self.folder):
                with suppress(FileNotFoundError):
                    about = path.stat()
                    yield StoredFile(path.relative_to(self.folder).as_posix(), about.st_size, about.st_mtime)

    def get_folder_size(self, name: str) -> int:
        total = 0
        for place, _, files in os.walk(self.folder / name):
            for file in files:
                with suppress(FileNotFoundError):
                    total += Path(place, file).stat().st_size
        return total

    def put_file(self, name: str, source: Path) -> None:
        with write_atomically(self.folder / name) as temporary:
            shutil.copyfile(source, temporary)

    def get_file(self, name: str, target: Path) -> None:
        with write_atomically(target) as temporary:
            shutil.copyfile(self.folder / name, temporary)

    def list_paths(self) -> list[str]:
        found = []
        for place, folders, files in os.walk(self.folder):
            folders[:] = [name for name in folders if not name.startswith(".")]
            found += [Path(place, name).relative_to(self.folder) for name in files if not name.startswith(".")]
        return sorted(path.as_posix() for path in found)

    def create_marker(self, name: str, text: str) -> bool:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(self.folder / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            return False
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(text)
        except OSError:  # half a note would be respected as somebody's for a while
            (self.folder / name).unlink(missing_ok=True)
            raise
        return True

    def read_marker(self, name: str) -> Marker | None:
        path = self.folder / name
        try:
            return Marker(path.read_text(encoding="utf-8"), str(path.stat().st_mtime_ns))
        except FileNotFoundError:
            return None

    def refresh_marker(self, name: str, text: str) -> None:
        found = self.read_marker(name)
        if found is not None and found.text == text:
            with suppress(OSError):
                os.utime(self.folder / name)

    def delete_marker(self, name: str, text: str) -> None:
        path = self.folder / name
        aside = make_temporary_path(path)
        try:
            os.rename(path, aside)
        except FileNotFoundError:
            return
        if aside.read_text(encoding="utf-8") != text:  # written anew since the caller looked: put it back
            with suppress(OSError):
                os.link(aside, path)
        aside.unlink()

    def remove_stale_files(self) -> None:
        remove_stale_files(self.folder)
