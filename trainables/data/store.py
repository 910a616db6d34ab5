"""A folder of prepared data under its fingerprint, which one process writes while the others wait.

`<cache>/prepared/<fingerprint>/`. Reading sources takes seconds, so `<cache>/sources/` remembers what unchanged ones
gave.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.storage.leases import Leases
from trainables.storage.local import LocalStorage
from trainables.utils.checksums import DamagedError, is_intact, verify_file, write_with_checksum
from trainables.utils.files import remove_folder
from trainables.utils.hashing import hash_json

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class PreparedDataset:
    """Tables of prepared data and what is known of them."""

    fingerprint: str
    folder: Path

    def read_metadata(self) -> dict[str, Any]:
        """fingerprint, settings, and the counts."""
        read_meta: dict[str, Any] = json.loads(verify_file(self.folder / "meta.json").read_text(encoding="utf-8"))
        return read_meta

    def _read_table(self, name: str, columns: list[str] | None = None) -> "pd.DataFrame":
        import pandas as pd

        return pd.read_parquet(verify_file(self.folder / f"{name}.parquet"), columns=columns)


def get_prepared_folder(fingerprint: str, cache: Path) -> Path:
    """Where the data of this fingerprint lie, once they are prepared."""
    return cache / "prepared" / fingerprint


def get_pointer_path(key: object, cache: Path) -> Path:
    """The file that remembers what sources gave; everything they and the reading of them depend on is in `about`."""
    return cache / "sources" / f"{hash_json(key)}.json"


def read_pointer(path: Path) -> dict[str, Any] | None:
    """What a pointer says; None where there is none, or it is damaged: the sources are then read again."""
    try:
        content: dict[str, Any] = json.loads(verify_file(path).read_text(encoding="utf-8"))
    except DamagedError:
        return None
    return content


def write_pointer(path: Path, content: dict[str, Any]) -> None:
    """Writes a pointer."""
    with write_with_checksum(path) as draft:
        draft.write_text(json.dumps(content), encoding="utf-8")


def create_once(folder: Path, make: Callable[[], object], report: Callable[[str], None]) -> None:
    """Makes `folder` where it is not there, or waits for the process that is at it, which `report` is told once."""
    reported = False

    def report_waiting() -> None:
        nonlocal reported
        if not reported:
            report("another process is preparing the same data: waiting for it")
        reported = True

    def rebuild() -> None:
        if folder.is_dir():
            report(f"the prepared data {folder.name} are damaged, or lack checksums: they are made anew")
            remove_folder(folder)
        make()

    Leases(LocalStorage(folder.parent)).run_once(folder.name, lambda: is_intact(folder), rebuild, report_waiting)


def hash_rows(parts: Iterable[Iterable[object]]) -> str:
    """SHA-256 of the rows of several parts, each a JSON value."""
    hasher = hashlib.sha256()
    for part in parts:
        for row in part:
            hasher.update(f"{json.dumps(row)}\n".encode())
        hasher.update(b"\n")
    return hasher.hexdigest()
