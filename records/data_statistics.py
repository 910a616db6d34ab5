"""Statistics of the prepared data in the study's folder, from where the report and W&B have them."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, model_validator

from records.json_files import read_intact_object
from trainables.utils.files import write_json

STATISTICS_FILE = "data.json"
"""Name of the file in the study's folder."""
STATISTICS_KEY = "data_statistics"
"""Key of the statistics in the configuration of the W&B run that holds the plan."""


class Statistic(BaseModel, frozen=True):
    """A row of `DataStatistics`."""

    name: str
    decimals: int = 0
    values: tuple[float | None, ...]
    """One value per column. None where the column has no such value."""


class DataStatistics(BaseModel, frozen=True):
    """Counts and mean lengths of the data, for people. They are no part of the plan.

    Example:
        >>> row = {"name": "words per query", "decimals": 1, "values": [8, 7.52]}
        >>> DataStatistics(columns=("train", "dev"), rows=(row,)).to_cells()
        (['statistic', 'train', 'dev'], [['words per query', '8.0', '7.5']])
    """

    columns: tuple[str, ...]
    """Splits or evaluation sets."""
    rows: tuple[Statistic, ...]
    legend: str = ""

    @model_validator(mode="after")
    def _check_rows(self) -> "DataStatistics":
        for row in self.rows:
            if len(row.values) != len(self.columns):
                raise ValueError(f"row {row.name!r} has {len(row.values)} values for {len(self.columns)} columns")
        return self

    def to_cells(self) -> tuple[list[str], list[list[str]]]:
        """Return header and rows as plain text."""
        rows = [
            [row.name, *("-" if value is None else f"{value:,.{row.decimals}f}" for value in row.values)]
            for row in self.rows
        ]
        return ["statistic", *self.columns], rows


def write_data_statistics(folder: Path, statistics: Mapping[str, object] | None) -> None:
    """Write the statistics of the prepared data, if any, to the study's folder, unless it has the same."""
    if statistics is not None and read_intact_object(folder / STATISTICS_FILE) != statistics:
        write_json(folder / STATISTICS_FILE, dict(statistics), with_checksum=True)
