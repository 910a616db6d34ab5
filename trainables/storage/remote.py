"""Storage on any fsspec file system that writes a file atomically, such as an object store."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from trainables.storage.base import MANIFEST, Marker, Storage, StoredFile
from trainables.utils.files import write_atomically


class RemoteStorage(Storage):
    """Storage in a folder of an fsspec file system.

    Markers are exclusive only if the file system can create a file exclusively. If it cannot, two processes may both
    believe that they created a marker, and then do the same work twice.

    Args:
        filesystem: an fsspec file system.
        root: path of the folder, as `fsspec.core.url_to_fs` returns it.
    """

    poll_interval_s = 1.0

    def __init__(self, filesystem: Any, root: str) -> None:
        self._filesystem, self._root = filesystem, root.rstrip("/")

    def subfolder(self, name: str) -> "RemoteStorage":
        """Return the storage of a subfolder."""
        return RemoteStorage(self._filesystem, self._full_path(name))

    @contextmanager
    def write_folder(self, name: str) -> Iterator[Path]:
        """Yield a temporary local folder; upload its files if the block succeeds, the manifest last."""
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
            self._filesystem.makedirs(self._full_path(name), exist_ok=True)
            for path in sorted(Path(folder).iterdir(), key=lambda path: (path.name == MANIFEST, path.name)):
                self._filesystem.put_file(str(path), self._full_path(name, path.name))

    @contextmanager
    def read_folder(self, name: str) -> Iterator[Path]:
        """Yield a temporary local folder with the downloaded files."""
        with tempfile.TemporaryDirectory() as folder:
            for path in self._list_folder(name):
                self._filesystem.get_file(path, str(Path(folder, path.rpartition("/")[2])))
            yield Path(folder)

    def exists(self, name: str) -> bool:
        """Return whether the manifest of a folder exists."""
        self._filesystem.invalidate_cache()
        return bool(self._filesystem.exists(self._full_path(name, MANIFEST)))

    def list_folders(self) -> list[str]:
        """Return the names of all folders with a manifest, sorted."""
        names = [path.rpartition("/")[2] for path in self._list_folder()]
        return sorted(name for name in names if self._filesystem.exists(self._full_path(name, MANIFEST)))

    def remove(self, name: str) -> None:
        """Remove a folder, its manifest first; if that fails, files may remain."""
        with suppress(Exception):  # the exception types depend on the file system
            with suppress(FileNotFoundError):  # first the manifest: without it the rest is incomplete
                self._filesystem.rm_file(self._full_path(name, MANIFEST))
            self._filesystem.rm(self._full_path(name), recursive=True)

    def mark_used(self, name: str) -> None:
        """Write the empty file `used` into the folder, if possible."""
        with suppress(Exception):
            self._filesystem.pipe_file(self._full_path(name, "used"), b"")

    def list_files(self) -> Iterator[StoredFile]:
        """Yield all files in folders."""
        self._filesystem.invalidate_cache()
        try:
            files = self._filesystem.find(self._root, detail=True)
        except FileNotFoundError:
            return
        start = len(self._root) + 1
        for path, info in files.items():
            if "/" in path[start:]:
                yield StoredFile(path[start:], info["size"], self._filesystem.modified(path).timestamp())

    def get_folder_size(self, name: str) -> int:
        """Return the bytes of all files below a folder; 0 if it does not exist."""
        self._filesystem.invalidate_cache()
        try:
            return sum(info["size"] for info in self._filesystem.find(self._full_path(name), detail=True).values())
        except FileNotFoundError:
            return 0

    def put_file(self, name: str, source: Path) -> None:
        """Upload a local file."""
        try:
            self._filesystem.put_file(str(source), self._full_path(name))
        except FileNotFoundError:  # the folder is missing; a check beforehand would cost object stores a request
            self._filesystem.makedirs(self._full_path(name).rpartition("/")[0], exist_ok=True)
            self._filesystem.put_file(str(source), self._full_path(name))

    def get_file(self, name: str, target: Path) -> None:
        """Download a file to a local path, atomically."""
        with write_atomically(target) as temporary:
            self._filesystem.get_file(self._full_path(name), str(temporary))

    def list_paths(self) -> list[str]:
        """Return the paths of all files, sorted."""
        self._filesystem.invalidate_cache()
        try:
            paths = self._filesystem.find(self._root)
        except FileNotFoundError:
            return []
        return sorted(path[len(self._root) + 1 :] for path in paths)

    def create_marker(self, name: str, text: str) -> bool:
        """Create a marker if the file system can, and return whether it now has this text."""
        self._filesystem.makedirs(self._root, exist_ok=True)
        try:
            self._filesystem.pipe_file(self._full_path(name), text.encode(), mode="create")
        except FileExistsError:
            return False
        marker = self.read_marker(name)
        return marker is not None and marker.text == text

    def read_marker(self, name: str) -> Marker | None:
        """Return a marker with its modification time, or None if it does not exist."""
        self._filesystem.invalidate_cache()
        try:
            text = self._filesystem.cat_file(self._full_path(name)).decode()
            return Marker(text, str(self._filesystem.modified(self._full_path(name))))
        except FileNotFoundError:
            return None

    def refresh_marker(self, name: str, text: str) -> None:
        """Write a marker again if it still has this text."""
        marker = self.read_marker(name)
        if marker is not None and marker.text == text:
            self._filesystem.pipe_file(self._full_path(name), text.encode())

    def delete_marker(self, name: str, text: str) -> None:
        """Delete a marker if it still has this text."""
        marker = self.read_marker(name)
        if marker is not None and marker.text == text:
            with suppress(FileNotFoundError):
                self._filesystem.rm_file(self._full_path(name))

    def remove_stale_files(self) -> None:
        """Do nothing: uploads use no temporary names."""

    def _full_path(self, *names: str) -> str:
        return "/".join([self._root, *names])

    def _list_folder(self, *names: str) -> list[str]:
        self._filesystem.invalidate_cache()
        try:
            return [path.rstrip("/") for path in self._filesystem.ls(self._full_path(*names), detail=False)]
        except FileNotFoundError:
            return []
