"""States on any file system of fsspec that keeps a file whole or not at all, as object stores do."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from trainables.storage.base import MANIFEST, Marker, Storage, StoredFile
from trainables.utils.files import write_atomically


class RemoteStorage(Storage):
    """A folder of such a file system. Notes are exclusive as far as it can be: where it cannot create a file only if
    there is none, two processes may both believe that they did, and then do the same work twice.

    Args:
        system: an fsspec file system.
        root: the folder, as `fsspec.core.url_to_fs` gives it.
    """

    poll_interval_s = 1.0

    def __init__(self, filesystem: Any, root: str) -> None:
        self._filesystem, self._root = filesystem, root.rstrip("/")

    def subfolder(self, name: str) -> "RemoteStorage":
        return RemoteStorage(self._filesystem, self._full_path(name))

    @contextmanager
    def write_folder(self, name: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
            self._filesystem.makedirs(self._full_path(name), exist_ok=True)
            for path in sorted(Path(folder).iterdir(), key=lambda path: (path.name == MANIFEST, path.name)):
                self._filesystem.put_file(str(path), self._full_path(name, path.name))

    @contextmanager
    def read_folder(self, name: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory() as folder:
            for path in self._list_folder(name):
                self._filesystem.get_file(path, str(Path(folder, path.rpartition("/")[2])))
            yield Path(folder)

    def exists(self, name: str) -> bool:
        self._filesystem.invalidate_cache()
        return bool(self._filesystem.exists(self._full_path(name, MANIFEST)))

    def list_folders(self) -> list[str]:
        found = [path.rpartition("/")[2] for path in self._list_folder()]
        return sorted(name for name in found if self._filesystem.exists(self._full_path(name, MANIFEST)))

    def remove(self, name: str) -> None:
        with suppress(Exception):  # the file systems of fsspec raise errors of their own kinds
            with suppress(FileNotFoundError):  # the seal first: what is left of the folder then does not count
                self._filesystem.rm_file(self._full_path(name, MANIFEST))
            self._filesystem.rm(self._full_path(name), recursive=True)

    def mark_used(self, name: str) -> None:
        with suppress(Exception):
            self._filesystem.pipe_file(self._full_path(name, "used"), b"")

    def list_files(self) -> Iterator[StoredFile]:
        self._filesystem.invalidate_cache()
        try:
            found = self._filesystem.find(self._root, detail=True)
        except FileNotFoundError:
            return
        start = len(self._root) + 1
        for path, about in found.items():
            if "/" in path[start:]:
                yield StoredFile(path[start:], about["size"], self._filesystem.modified(path).timestamp())

    def get_folder_size(self, name: str) -> int:
        self._filesystem.invalidate_cache()
        try:
            return sum(about["size"] for about in self._filesystem.find(self._full_path(name), detail=True).values())
        except FileNotFoundError:
            return 0

    def put_file(self, name: str, source: Path) -> None:
        try:
            self._filesystem.put_file(str(source), self._full_path(name))
        except FileNotFoundError:  # a file system that has folders; to make sure beforehand costs object stores a call
            self._filesystem.makedirs(self._full_path(name).rpartition("/")[0], exist_ok=True)
            self._filesystem.put_file(str(source), self._full_path(name))

    def get_file(self, name: str, target: Path) -> None:
        with write_atomically(target) as temporary:
            self._filesystem.get_file(self._full_path(name), str(temporary))

    def list_paths(self) -> list[str]:
        self._filesystem.invalidate_cache()
        try:
            found = self._filesystem.find(self._root)
        except FileNotFoundError:
            return []
        return sorted(path[len(self._root) + 1 :] for path in found)

    def create_marker(self, name: str, text: str) -> bool:
        self._filesystem.makedirs(self._root, exist_ok=True)
        try:
            self._filesystem.pipe_file(self._full_path(name), text.encode(), mode="create")
        except FileExistsError:
            return False
        found = self.read_marker(name)
        return found is not None and found.text == text

    def read_marker(self, name: str) -> Marker | None:
        self._filesystem.invalidate_cache()
        try:
            text = self._filesystem.cat_file(self._full_path(name)).decode()
            return Marker(text, str(self._filesystem.modified(self._full_path(name))))
        except FileNotFoundError:
            return None

    def refresh_marker(self, name: str, text: str) -> None:
        found = self.read_marker(name)
        if found is not None and found.text == text:
            self._filesystem.pipe_file(self._full_path(name), text.encode())

    def delete_marker(self, name: str, text: str) -> None:
        found = self.read_marker(name)
        if found is not None and found.text == text:
            with suppress(FileNotFoundError):
                self._filesystem.rm_file(self._full_path(name))

    def remove_stale_files(self) -> None:
        """Nothing: no temporary names are used there."""

    def _full_path(self, *names: str) -> str:
        return "/".join([self._root, *names])

    def _list_folder(self, *names: str) -> list[str]:
        self._filesystem.invalidate_cache()
        try:
            return [path.rstrip("/") for path in self._filesystem.ls(self._full_path(*names), detail=False)]
        except FileNotFoundError:
            return []
