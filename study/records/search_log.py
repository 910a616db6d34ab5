"""search.json: what the searches of a study proposed, in what order, and what became of it.

The report shows it, and a later start need not ask a sampler again for what it proposed before.
"""

from pathlib import Path
from typing import Any

from trainables.utils.files import read_json, write_json

_NAME = "search.json"


def read(folder: Path) -> dict[str, Any]:
    """By system, what was written; empty where there is nothing that can be read, since it can be found out again."""
    try:
        systems = read_json(folder / _NAME)["systems"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return systems if isinstance(systems, dict) else {}


def write(folder: Path, log: dict[str, Any]) -> bool:
    """Writes `Campaign.log`, if it is not there already; whether it was written."""
    if log["systems"] == read(folder):
        return False
    write_json(folder / _NAME, log, sealed=True)
    return True
