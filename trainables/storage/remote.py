"""Storage on any fsspec file system that writes a file atomically, such as an object store.

Object stores take time and money for each request. So no method here makes a request for each stored folder, and none
asks for what a listing contains.
"""

import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from trainables.storage.base import MANIFEST, USED_FILE, Marker, Storage, StoredFile
from trainables.utils.files import write_atomically

_MODIFIED_KEYS = ("LastModified", "last_modified", "mtime", "updated")
"""Names of the modification time in the listings of file systems: s3fs, adlfs, gcsfs and others."""


class RemoteStorage(Storage):
    """Storage in a folder of an fsspec file system.

    Markers are exclusive only if the file system can create a file exclusively. If it cannot, two processes may both
    believe that they created a marker, and then do the same work twice.

    Args:
        filesystem: an fsspec file system.
        root: path of the folder, as `fsspec.core.url_to_fs` returns it.
    """

    poll_interval_s = 5.0
    heartbeat_s = 20.0

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
            for path in sorted(Path(folder).iterdir(), key=lambda path: (path.name == MANIFEST, path.name)):
                self.put_file(f"{name}/{path.name}", path)

    @contextmanager
    def read_folder(self, name: str) -> Iterator[Path]:
        """Yield a temporary local folder with the downloaded files."""
        with tempfile.TemporaryDirectory() as folder:
            for path in self._list_folder(name):
                if (file := path.rpartition("/")[2]) != USED_FILE:
                    self._filesystem.get_file(path, str(Path(folder, file)))
            yield Path(folder)

    def exists(self, name: str) -> bool:
        """Return whether the manifest of a folder exists."""
        self._filesystem.invalidate_cache()
        return bool(self._filesystem.exists(self._full_path(name, MANIFEST)))

    def list_folders(self) -> list[str]:
        """Return the names of all folders with a manifest, sorted."""
        if not self._list_folder():  # takes fewer requests than a listing of what does not exist
            return []
        parts = [file.path.split("/") for file in self.list_files()]
        return sorted(names[0] for names in parts if names[1:] == [MANIFEST])

    def remove(self, name: str) -> None:
        """Remove a folder, its manifest first; if that fails, files may remain."""
        with suppress(Exception):  # the exception types depend on the file system
            if not self._list_folder(name):  # removing what does not exist takes several requests
                return
            with suppress(FileNotFoundError):  # first the manifest: without it the rest is incomplete
                self._filesystem.rm_file(self._full_path(name, MANIFEST))
            self._filesystem.rm(self._full_path(name), recursive=True)

    def mark_used(self, name: str) -> None:
        """Write the empty file `used` into the folder, if possible."""
        with suppress(Exception):
            self._filesystem.pipe_file(self._full_path(name, USED_FILE), b"")

    def list_files(self, name: str = "") -> Iterator[StoredFile]:
        """Yield all files below a folder."""
        self._filesystem.invalidate_cache()
        try:
            files = self._filesystem.find(self._full_path(name).rstrip("/"), detail=True)
        except FileNotFoundError:
            return
        start = len(self._root) + 1
        for path, info in files.items():
            yield StoredFile(path[start:], info["size"], self._get_modified_at(path, info))

    def put_file(self, name: str, source: Path) -> None:
        """Upload a local file."""
        path = self._full_path(name)
        self._write_file(path, lambda: self._filesystem.put_file(str(source), path))

    def get_file(self, name: str, target: Path) -> None:
        """Download a file to a local path, atomically."""
        with write_atomically(target) as temporary:
            self._filesystem.get_file(self._full_path(name), str(temporary))

    def create_marker(self, name: str, text: str) -> bool:
        """Create a marker if the file system can, and return whether it now has this text."""
        path, content = self._full_path(name), _encode_marker(text)
        try:
            self._write_file(path, lambda: self._filesystem.pipe_file(path, content, mode="create"))
        except FileExistsError:
            return False
        marker = self.read_marker(name)
        return marker is not None and marker.text == text

    def read_marker(self, name: str) -> Marker | None:
        """Return a marker with the stamp in its second line, or None if it does not exist."""
        self._filesystem.invalidate_cache()
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder, "marker")
            try:
                self._filesystem.get_file(self._full_path(name), str(copy))  # s3fs takes two requests for `cat_file`
            except FileNotFoundError:
                return None
            text, _, stamp = copy.read_text(encoding="utf-8").partition("\n")
        return Marker(text, stamp)

    def refresh_marker(self, name: str, text: str) -> None:
        """Write a marker again, with another stamp, if it still has this text."""
        marker = self.read_marker(name)
        if marker is not None and marker.text == text:
            self._filesystem.pipe_file(self._full_path(name), _encode_marker(text))

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

    def _write_file(self, path: str, write: Callable[[], object]) -> None:
        """Write a file; if that fails, write it again after its folder was created.

        Creating the folder beforehand would cost object stores a request.
        """
        try:
            write()
        except FileExistsError:
            raise
        except OSError:  # the types depend on the file system
            self._filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
            write()

    def _get_modified_at(self, path: str, info: dict[str, Any]) -> float:
        """Return when a file was modified, from the listing if it says so."""
        found = next((info[key] for key in _MODIFIED_KEYS if isinstance(info.get(key), datetime | float | int)), None)
        modified_at = self._filesystem.modified(path) if found is None else found
        return float(modified_at.timestamp() if isinstance(modified_at, datetime) else modified_at)

    def _list_folder(self, *names: str) -> list[str]:
        self._filesystem.invalidate_cache()
        try:
            return [path.rstrip("/") for path in self._filesystem.ls(self._full_path(*names), detail=False)]
        except FileNotFoundError:
            return []


def _encode_marker(text: str) -> bytes:
    """Return the content of a marker: its text, and in a second line a new stamp."""
    return f"{text}\n{uuid.uuid4().hex}".encode()
