"""Keeps the statistics of the prepared data in the study's folder, from where the report and W&B have them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.data.results import STATISTICS_FILE
from trainables.utils.files import read_json, write_json

if TYPE_CHECKING:
    from trainables.specs.plugin import StatisticsTable


def write_data_statistics(folder: Path, statistics: "StatisticsTable | None") -> None:
    """Write the statistics of the prepared data, if any, to the study's folder, unless it has the same."""
    if statistics is not None and read_data_statistics(folder) != statistics:
        write_json(folder / STATISTICS_FILE, dict(statistics), with_checksum=True)


def read_data_statistics(folder: Path) -> dict[str, Any] | None:
    """Return the statistics in the study's folder, or None if there are none or they are damaged."""
    try:
        content = read_json(folder / STATISTICS_FILE)
    except (FileNotFoundError, ValueError):
        return None
    return content if isinstance(content, dict) else None
