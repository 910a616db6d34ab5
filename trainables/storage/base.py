"""Interface of a storage: named folders of files that appear as a whole or not at all.

On a local or shared disk, a folder is written under a temporary name and renamed. On other file systems its files are
uploaded one by one, each atomically, and the file `MANIFEST` last: a folder without it is incomplete.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

MANIFEST = "stage.json"
STATE_FILE = "state.safetensors"
"""File of a checkpoint with its tensors."""
USED_FILE = "used"
"""Empty file of a folder of an object store that says by its modification time when the folder was last used."""
RESUME_FOLDER = "resume"
"""Folder of the resume checkpoints: `resume/<run id>/<instances>/` contains the newest one of an unfinished run."""


class StoredFile(NamedTuple):
    """A file in a storage."""

    path: str  # relative to the storage
    size: int  # bytes
    modified_at: float  # seconds since 1970, by the clock of the file system


class Marker(NamedTuple):
    """A small text file, with a stamp that changes each time it is written."""

    text: str
    modified_at: str


class Storage(ABC):
    """Named folders of files, and small text files (markers) next to them."""

    poll_interval_s: float
    """Seconds to wait between two checks for a change."""
    heartbeat_s: float
    """Seconds between two heartbeats of the holder of a lease."""

    @abstractmethod
    def subfolder(self, name: str) -> "Storage":
        """Return the storage that has a folder of this one as its root."""

    @abstractmethod
    @contextmanager
    def write_folder(self, name: str) -> Iterator[Path]:
        """Yield an empty local folder; its files become the folder `name` if the block succeeds."""

    @abstractmethod
    @contextmanager
    def read_folder(self, name: str) -> Iterator[Path]:
        """Yield a local folder with the files of the folder `name`.

        If there is no such folder, opening its files raises FileNotFoundError.
        """

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Return whether there is a complete folder of this name."""

    @abstractmethod
    def list_folders(self) -> list[str]:
        """Return the names of all complete folders, sorted."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a folder if it exists; if that fails, the folder stays."""

    @abstractmethod
    def mark_used(self, name: str) -> None:
        """Record that a folder was used now; a failure to do so is ignored."""

    @abstractmethod
    def list_files(self, name: str = "") -> Iterator[StoredFile]:
        """Yield all files below a folder, or of the whole storage, except temporary ones."""

    @abstractmethod
    def put_file(self, name: str, source: Path) -> None:
        """Copy a local file to a path in the storage, atomically; an existing file is replaced."""

    @abstractmethod
    def get_file(self, name: str, target: Path) -> None:
        """Copy a file of the storage to a local path, atomically.

        Raises:
            FileNotFoundError: the storage has no such file.
        """

    @abstractmethod
    def create_marker(self, name: str, text: str) -> bool:
        """Write a marker unless it exists; return whether it was written."""

    @abstractmethod
    def read_marker(self, name: str) -> Marker | None:
        """Return a marker, or None if it does not exist."""

    @abstractmethod
    def refresh_marker(self, name: str, text: str) -> None:
        """Change the stamp of a marker if it still has this text."""

    @abstractmethod
    def delete_marker(self, name: str, text: str) -> None:
        """Delete a marker if it still has this text."""

    @abstractmethod
    def remove_stale_files(self) -> None:
        """Remove the temporary files that killed writers left."""
