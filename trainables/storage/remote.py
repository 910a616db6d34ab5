"""States on any file system of fsspec that keeps a file whole or not at all, as object stores do."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from trainables.storage.base import SEAL, File, Note, Storage
from trainables.utils.files import whole_file


class Objects(Storage):
    """A folder of such a file system. Notes are exclusive as far as it can be: where it cannot create a file only if
    there is none, two processes may both believe that they did, and then do the same work twice.

    Args:
        system: an fsspec file system.
        root: the folder, as `fsspec.core.url_to_fs` gives it.
    """

    patience = 1.0

    def __init__(self, system: Any, root: str) -> None:
        self._system, self._root = system, root.rstrip("/")

    def within(self, name: str) -> "Objects":
        return Objects(self._system, self._path(name))

    @contextmanager
    def write(self, name: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
            self._system.makedirs(self._path(name), exist_ok=True)
            for path in sorted(Path(folder).iterdir(), key=lambda path: (path.name == SEAL, path.name)):
                self._system.put_file(str(path), self._path(name, path.name))

    @contextmanager
    def read(self, name: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory() as folder:
            for path in self._listed(name):
                self._system.get_file(path, str(Path(folder, path.rpartition("/")[2])))
            yield Path(folder)

    def exists(self, name: str) -> bool:
        self._system.invalidate_cache()
        return bool(self._system.exists(self._path(name, SEAL)))

    def names(self) -> list[str]:
        found = [path.rpartition("/")[2] for path in self._listed()]
        return sorted(name for name in found if self._system.exists(self._path(name, SEAL)))

    def remove(self, name: str) -> None:
        with suppress(Exception):  # the file systems of fsspec raise errors of their own kinds
            with suppress(FileNotFoundError):  # the seal first: what is left of the folder then does not count
                self._system.rm_file(self._path(name, SEAL))
            self._system.rm(self._path(name), recursive=True)

    def touch(self, name: str) -> None:
        with suppress(Exception):
            self._system.pipe_file(self._path(name, "used"), b"")

    def files(self) -> Iterator[File]:
        self._system.invalidate_cache()
        try:
            found = self._system.find(self._root, detail=True)
        except FileNotFoundError:
            return
        start = len(self._root) + 1
        for path, about in found.items():
            if "/" in path[start:]:
                yield File(path[start:], about["size"], self._system.modified(path).timestamp())

    def size(self, name: str) -> int:
        self._system.invalidate_cache()
        try:
            return sum(about["size"] for about in self._system.find(self._path(name), detail=True).values())
        except FileNotFoundError:
            return 0

    def put_file(self, name: str, source: Path) -> None:
        try:
            self._system.put_file(str(source), self._path(name))
        except FileNotFoundError:  # a file system that has folders; to make sure beforehand costs object stores a call
            self._system.makedirs(self._path(name).rpartition("/")[0], exist_ok=True)
            self._system.put_file(str(source), self._path(name))

    def get_file(self, name: str, target: Path) -> None:
        with whole_file(target) as temporary:
            self._system.get_file(self._path(name), str(temporary))

    def paths(self) -> list[str]:
        self._system.invalidate_cache()
        try:
            found = self._system.find(self._root)
        except FileNotFoundError:
            return []
        return sorted(path[len(self._root) + 1 :] for path in found)

    def create(self, note: str, text: str) -> bool:
        self._system.makedirs(self._root, exist_ok=True)
        try:
            self._system.pipe_file(self._path(note), text.encode(), mode="create")
        except FileExistsError:
            return False
        found = self.peek(note)
        return found is not None and found.text == text

    def peek(self, note: str) -> Note | None:
        self._system.invalidate_cache()
        try:
            text = self._system.cat_file(self._path(note)).decode()
            return Note(text, str(self._system.modified(self._path(note))))
        except FileNotFoundError:
            return None

    def renew(self, note: str, text: str) -> None:
        found = self.peek(note)
        if found is not None and found.text == text:
            self._system.pipe_file(self._path(note), text.encode())

    def drop(self, note: str, text: str) -> None:
        found = self.peek(note)
        if found is not None and found.text == text:
            with suppress(FileNotFoundError):
                self._system.rm_file(self._path(note))

    def sweep(self) -> None:
        """Nothing: no temporary names are used there."""

    def _path(self, *names: str) -> str:
        return "/".join([self._root, *names])

    def _listed(self, *names: str) -> list[str]:
        self._system.invalidate_cache()
        try:
            return [path.rstrip("/") for path in self._system.ls(self._path(*names), detail=False)]
        except FileNotFoundError:
            return []
