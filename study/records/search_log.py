"""Reads and writes search.json: the proposals of a study's searches, their order and their states.

The report shows this log. With it, a later start does not have to ask a sampler again for its earlier proposals.
"""

from pathlib import Path
from typing import Any

from trainables.utils.files import read_json, write_json

_SEARCH_LOG_FILE = "search.json"


def read_search_log(folder: Path) -> dict[str, Any]:
    """Return the logs of the searches by system.

    They are empty if the file is missing or damaged, because the study can compute them again.
    """
    try:
        systems = read_json(folder / _SEARCH_LOG_FILE)["systems"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return systems if isinstance(systems, dict) else {}


def write_search_log(folder: Path, log: dict[str, Any]) -> bool:
    """Write the log of `StudyScheduler.build_search_log` if the stored one differs; return whether it was written."""
    if log["systems"] == read_search_log(folder):
        return False
    write_json(folder / _SEARCH_LOG_FILE, log, with_checksum=True)
    return True
