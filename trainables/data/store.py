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

from trainables.storage.local import Disk
from trainables.storage.locks import Claims
from trainables.utils.checksums import DamagedError, checked_file, intact, verified
from trainables.utils.files import remove_folder
from trainables.utils.hashing import digest

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class PreparedFolder:
    """Tables of prepared data and what is known of them."""

    fingerprint: str
    folder: Path

    def meta(self) -> dict[str, Any]:
        """fingerprint, settings, and the counts."""
        meta: dict[str, Any] = json.loads(verified(self.folder / "meta.json").read_text(encoding="utf-8"))
        return meta

    def _table(self, name: str, columns: list[str] | None = None) -> "pd.DataFrame":
        import pandas as pd

        return pd.read_parquet(verified(self.folder / f"{name}.parquet"), columns=columns)


def place(fingerprint: str, cache: Path) -> Path:
    """Where the data of this fingerprint lie, once they are prepared."""
    return cache / "prepared" / fingerprint


def pointer(about: object, cache: Path) -> Path:
    """The file that remembers what sources gave; everything they and the reading of them depend on is in `about`."""
    return cache / "sources" / f"{digest(about)}.json"


def remembered(path: Path) -> dict[str, Any] | None:
    """What a pointer says; None where there is none, or it is damaged: the sources are then read again."""
    try:
        found: dict[str, Any] = json.loads(verified(path).read_text(encoding="utf-8"))
    except DamagedError:
        return None
    return found


def remember(path: Path, found: dict[str, Any]) -> None:
    """Writes a pointer."""
    with checked_file(path) as draft:
        draft.write_text(json.dumps(found), encoding="utf-8")


def once(folder: Path, make: Callable[[], object], report: Callable[[str], None]) -> None:
    """Makes `folder` where it is not there, or waits for the process that is at it, which `report` is told once."""
    told = False

    def waited() -> None:
        nonlocal told
        if not told:
            report("another process is preparing the same data: waiting for it")
        told = True

    def anew() -> None:
        if folder.is_dir():
            report(f"the prepared data {folder.name} are damaged, or lack checksums: they are made anew")
            remove_folder(folder)
        make()

    Claims(Disk(folder.parent)).once(folder.name, lambda: intact(folder), anew, waited)


def rows_digest(parts: Iterable[Iterable[object]]) -> str:
    """SHA-256 of the rows of several parts, each a JSON value."""
    total = hashlib.sha256()
    for part in parts:
        for row in part:
            total.update(f"{json.dumps(row)}\n".encode())
        total.update(b"\n")
    return total.hexdigest()
