"""A table of the report as plain text, which every format renders."""

import re
from collections.abc import Sequence
from typing import NamedTuple

_NUMBER = re.compile(r"[\[<]?[+-]?(\d[\d,]*(\.\d*)?|\.\d+)(e[+-]?\d+)?(?=$|[ ,/±])")
_NONE = ("-", "incomplete", "")
"""Cells without a value."""
MAX_COLUMNS = 8
"""Most columns of scores on an upright page."""


class Section(NamedTuple):
    """One table of the report.

    Attributes:
        rows: cells as plain text.
        legend: description of the columns.
        is_wide: True if the table does not fit on an upright page.
        bold: bold cells, by row and column.
        label: name of the table in a paper; empty if LaTeX leaves it out.
        caption: description of the columns in a paper. If empty, the legend.
    """

    title: str
    header: list[str]
    rows: list[list[str]]
    legend: str
    is_wide: bool = False
    bold: frozenset[tuple[int, int]] = frozenset()
    label: str = ""
    caption: str = ""

    @property
    def numeric_columns(self) -> set[int]:
        """Indices of the columns that hold numbers and nothing else."""
        return find_numeric_columns(len(self.header), self.rows)


def find_numeric_columns(count: int, rows: Sequence[Sequence[str]]) -> set[int]:
    """Return the indices of those of `count` columns that hold numbers and nothing else."""
    known = {index: [row[index] for row in rows if row[index] not in _NONE] for index in range(count)}
    return {index for index, cells in known.items() if cells and all(map(_NUMBER.match, cells))}
