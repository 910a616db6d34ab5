"""Where states lie: named folders of files, each there as a whole or not at all, on any file system fsspec knows.

The file `SEAL` makes a folder count. On a disk, local or shared, a folder is written under a temporary name and
renamed; elsewhere its files are put one by one, each whole, and the seal last.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

MANIFEST = "stage.json"
RESUME_FOLDER = "resume"
"""Folder, among the stages, of the slots of unfinished runs: `resume/<run id>/<instances>/`, the newest state only."""


class StoredFile(NamedTuple):
    """A file of a storage, by its path in it."""

    path: str
    size: int
    modified_at: float  # seconds since 1970, by the clock of whoever keeps the file


class Marker(NamedTuple):
    """A small text, and what changes when it is written again."""

    text: str
    modified_at: str


class Storage(ABC):
    """Named folders, and notes beside them."""

    poll_interval_s: float
    """Seconds after which it is worth looking again."""

    @abstractmethod
    def subfolder(self, name: str) -> "Storage":
        """The storage that a folder of this one is."""

    @abstractmethod
    @contextmanager
    def write_folder(self, name: str) -> Iterator[Path]:
        """Yields an empty folder on this machine; its files become the folder `name` when the block ends well."""

    @abstractmethod
    @contextmanager
    def read_folder(self, name: str) -> Iterator[Path]:
        """Yields a folder on this machine with the files of `name`; FileNotFoundError where there is none."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Whether there is such a folder that counts."""

    @abstractmethod
    def list_folders(self) -> list[str]:
        """Names of all folders that count, sorted."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Removes a folder, if there is one; where that is not possible, it stays."""

    @abstractmethod
    def mark_used(self, name: str) -> None:
        """Notes that a folder was used; where that is not possible, nothing happens."""

    @abstractmethod
    def list_files(self) -> Iterator[StoredFile]:
        """All files of all folders, unfinished ones left out."""

    @abstractmethod
    def get_folder_size(self, name: str) -> int:
        """Bytes of the files below a folder; 0 where there is none."""

    @abstractmethod
    def put_file(self, name: str, source: Path) -> None:
        """Copies a file of this machine to `name`, a path in the storage, whole; one that is there is replaced."""

    @abstractmethod
    def get_file(self, name: str, target: Path) -> None:
        """Copies a file of the storage to this machine, whole; FileNotFoundError where there is none."""

    @abstractmethod
    def list_paths(self) -> list[str]:
        """Paths of all files that are whole, sorted."""

    @abstractmethod
    def create_marker(self, name: str, text: str) -> bool:
        """Writes a note unless there is one; whether it was written."""

    @abstractmethod
    def read_marker(self, name: str) -> Marker | None:
        """A note."""

    @abstractmethod
    def refresh_marker(self, name: str, text: str) -> None:
        """Changes the stamp of a note that still has this text."""

    @abstractmethod
    def delete_marker(self, name: str, text: str) -> None:
        """Removes a note if it still has this text."""

    @abstractmethod
    def remove_stale_files(self) -> None:
        """Removes what killed writers left."""
