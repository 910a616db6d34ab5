"""States in a folder, on a disk of this machine or one that several share."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trainables.storage.base import SEAL, File, Note, Storage
from trainables.utils.files import remove_folder, sweep, temporary_name, whole_file, whole_folder


class Disk(Storage):
    """A folder. What is in it appears by one rename or one exclusive creation; shared disks keep to that as well."""

    patience = 0.1

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def within(self, name: str) -> "Disk":
        return Disk(self.folder / name)

    @contextmanager
    def write(self, name: str) -> Iterator[Path]:
        with whole_folder(self.folder / name) as temporary:
            yield temporary

    @contextmanager
    def read(self, name: str) -> Iterator[Path]:
        yield self.folder / name

    def exists(self, name: str) -> bool:
        return (self.folder / name).is_dir()

    def names(self) -> list[str]:
        if not self.folder.is_dir():
            return []
        return sorted(path.name for path in self.folder.iterdir() if path.is_dir() and not path.name.startswith("."))

    def remove(self, name: str) -> None:
        remove_folder(self.folder / name)

    def touch(self, name: str) -> None:
        with suppress(OSError):
            os.utime(self.folder / name / SEAL)

    def files(self) -> Iterator[File]:
        for place, folders, files in os.walk(self.folder):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for path in (Path(place, name) for name in files if Path(place) != self.folder):
                with suppress(FileNotFoundError):
                    about = path.stat()
                    yield File(path.relative_to(self.folder).as_posix(), about.st_size, about.st_mtime)

    def size(self, name: str) -> int:
        total = 0
        for place, _, files in os.walk(self.folder / name):
            for file in files:
                with suppress(FileNotFoundError):
                    total += Path(place, file).stat().st_size
        return total

    def put_file(self, name: str, source: Path) -> None:
        with whole_file(self.folder / name) as temporary:
            shutil.copyfile(source, temporary)

    def get_file(self, name: str, target: Path) -> None:
        with whole_file(target) as temporary:
            shutil.copyfile(self.folder / name, temporary)

    def paths(self) -> list[str]:
        found = []
        for place, folders, files in os.walk(self.folder):
            folders[:] = [name for name in folders if not name.startswith(".")]
            found += [Path(place, name).relative_to(self.folder) for name in files if not name.startswith(".")]
        return sorted(path.as_posix() for path in found)

    def create(self, note: str, text: str) -> bool:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(self.folder / note, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            return False
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(text)
        except OSError:  # half a note would be respected as somebody's for a while
            (self.folder / note).unlink(missing_ok=True)
            raise
        return True

    def peek(self, note: str) -> Note | None:
        path = self.folder / note
        try:
            return Note(path.read_text(encoding="utf-8"), str(path.stat().st_mtime_ns))
        except FileNotFoundError:
            return None

    def renew(self, note: str, text: str) -> None:
        found = self.peek(note)
        if found is not None and found.text == text:
            with suppress(OSError):
                os.utime(self.folder / note)

    def drop(self, note: str, text: str) -> None:
        path = self.folder / note
        aside = temporary_name(path)
        try:
            os.rename(path, aside)
        except FileNotFoundError:
            return
        if aside.read_text(encoding="utf-8") != text:  # written anew since the caller looked: put it back
            with suppress(OSError):
                os.link(aside, path)
        aside.unlink()

    def sweep(self) -> None:
        sweep(self.folder)
