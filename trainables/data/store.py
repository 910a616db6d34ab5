"""Folders of prepared data, found by their fingerprint.

The data are in `<cache>/prepared/<fingerprint>/`. One process writes a folder while the others wait. Reading the
sources takes seconds, so a pointer in `<cache>/sources/` maps unchanged sources to their prepared data.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from trainables.specs.run_spec import BaseTaskSettings
from trainables.storage.leases import Leases
from trainables.storage.local import LocalStorage
from trainables.text.text_overlap import Overlap, SplitTexts, count_overlaps
from trainables.utils.checksums import DamagedError, hash_file, is_intact, verify_file, write_with_checksum
from trainables.utils.errors import UserError
from trainables.utils.files import remove_folder
from trainables.utils.hashing import hash_json

if TYPE_CHECKING:
    import pandas as pd

_OVERLAPS_FORMAT = 2
"""Part of the stored counts of overlaps. Increase it when the same tables give different counts."""


@dataclass(frozen=True)
class PreparedDataset(ABC):
    """Prepared data: a folder of tables and metadata."""

    fingerprint: str
    """Hash of the settings and texts that the data were made from."""
    folder: Path
    """Folder of the tables."""
    settings: BaseTaskSettings
    """Settings without paths."""
    texts: ClassVar[str] = "queries"
    """What the splits must not share, in the plural."""

    def is_complete(self) -> bool:
        """Return whether all files exist and are undamaged."""
        return is_intact(self.folder)

    def read_metadata(self) -> dict[str, Any]:
        """Return the metadata: fingerprint, settings and counts."""
        metadata: dict[str, Any] = json.loads(verify_file(self.folder / "meta.json").read_text(encoding="utf-8"))
        return metadata

    def find_overlaps(self) -> list[Overlap]:
        """Return the counts of texts that several splits contain, which are stored with the data."""
        overlaps: list[Overlap] = load_or_compute(
            self.folder / "overlaps.json", _OVERLAPS_FORMAT, lambda: count_overlaps(self._group_texts(), self.texts)
        )
        return overlaps

    @abstractmethod
    def _group_texts(self) -> dict[str, SplitTexts]:
        """Return the texts of each split, which the splits must not share."""

    def _read_table(self, name: str, columns: list[str] | None = None) -> "pd.DataFrame":
        import pandas as pd

        return pd.read_parquet(verify_file(self.folder / f"{name}.parquet"), columns=columns)


Dataset = TypeVar("Dataset", bound=PreparedDataset)


def get_prepared_folder(fingerprint: str, cache: Path) -> Path:
    """Return the folder of the data with this fingerprint, which need not exist yet."""
    return cache / "prepared" / fingerprint


def get_pointer_path(key: object, cache: Path) -> Path:
    """Return the path of the pointer from sources to their prepared data."""
    return cache / "sources" / f"{hash_json(key)}.json"


def find_dataset(kind: type[Dataset], pointer: Path, settings: BaseTaskSettings, cache: Path) -> Dataset | None:
    """Return the data that a pointer names, or None if the sources must be read again.

    They must be if the pointer or the data are missing or damaged.
    """
    try:
        content = json.loads(verify_file(pointer).read_text(encoding="utf-8"))
    except DamagedError:
        return None
    prepared = kind(folder=get_prepared_folder(content["fingerprint"], cache), settings=settings, **content)
    return prepared if prepared.is_complete() else None


def write_pointer(path: Path, content: dict[str, Any]) -> None:
    """Write a pointer: the fingerprint of the data, and the further fields of `Dataset` that only sources tell."""
    with write_with_checksum(path) as draft:
        draft.write_text(json.dumps(content), encoding="utf-8")


def create_once(folder: Path, make: Callable[[], object], report: Callable[[str], None]) -> None:
    """Create a folder unless it is intact, or wait for the process that is creating it."""
    reported = False

    def report_waiting() -> None:
        nonlocal reported
        if not reported:
            report("another process is preparing the same data: waiting for it")
        reported = True

    def rebuild() -> None:
        if folder.is_dir():
            report(f"the prepared data {folder.name} are damaged or lack checksums: preparing them again")
            remove_folder(folder)
        make()

    Leases(LocalStorage(folder.parent)).run_once(folder.name, lambda: is_intact(folder), rebuild, report_waiting)


def load_or_compute(path: Path, version: int, compute: Callable[[], Any]) -> Any:
    """Return a value that is stored next to prepared data. Compute and store it if missing, damaged or outdated.

    If the folder is not writable, the value is computed every time.

    Args:
        path: File of the value. Its stem is the key of the value in it.
        version: Version of the computation. A value of another version is outdated.
        compute: Computes the value, which can be written as JSON.
    """
    with suppress(OSError, DamagedError):
        stored = json.loads(verify_file(path).read_bytes())
        if stored["format"] == version:
            return stored[path.stem]
    value = compute()
    with suppress(OSError), write_with_checksum(path) as draft:
        draft.write_text(json.dumps({"format": version, path.stem: value}), encoding="utf-8")
    return value


def hash_input_file(path: Path, key: str) -> str:
    """Return the digest of a file that a setting names, 16 hexadecimal digits.

    Raises:
        UserError: If the file cannot be read.
    """
    try:
        return hash_file(path)[:16]
    except OSError as error:
        raise UserError(key, str(path), f"a readable file ({error.strerror})") from error


def hash_rows(parts: Iterable[Iterable[object]]) -> str:
    """Return the SHA-256 of the rows of several parts. Each row is a JSON value.

    Example:
        >>> hash_rows([[("q1", "a query")], []])[:8]
        '31ec99c9'
    """
    hasher = hashlib.sha256()
    for part in parts:
        for row in part:
            hasher.update(f"{json.dumps(row)}\n".encode())
        hasher.update(b"\n")
    return hasher.hexdigest()
