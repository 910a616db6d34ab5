"""search.json: what the searches of a study proposed, in what order, and what became of it.

The report shows it, and a later start need not ask a sampler again for what it proposed before.
"""

from pathlib import Path
from typing import Any

from trainables.utils.files import read_json, write_json

_SEARCH_LOG_FILE = "search.json"


def read_search_log(folder: Path) -> dict[str, Any]:
    """By system, what was written; empty where there is nothing that can be read, since it can be found out again."""
    try:
        systems = read_json(folder / _SEARCH_LOG_FILE)["systems"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return systems if isinstance(systems, dict) else {}


def write_search_log(folder: Path, log: dict[str, Any]) -> bool:
    """Writes `Campaign.log`, if it is not there already; whether it was written."""
    if log["systems"] == read_search_log(folder):
        return False
    write_json(folder / _SEARCH_LOG_FILE, log, with_checksum=True)
    return True
