"""Makes the floats of a paper from the tables of a report; they need the package booktabs."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from analysis.rendering.escaping import Raw, escape_latex
from analysis.tables.section import Section

_CAUTIONED = ("main", "by-metric", "retrieval")
"""Tables with a caption that says what the scores cannot be compared with."""


class Float(NamedTuple):
    """One floating table; everything but `Raw` text is escaped.

    Attributes:
        label: label, after "tab:".
        columns: column types of the tabular.
        environment: table, or table* for both columns of a page.
    """

    caption: str
    label: Raw
    columns: Raw
    header: list[str]
    rows: list[list[str]]
    environment: str


def make_floats(sections: Sequence[Section], caution: str = "") -> list[Float]:
    """Return the floats of the tables that a paper shows."""
    return [_make_float(section, caution) for section in sections if section.label]


def _make_float(section: Section, caution: str) -> Float:
    label = section.label
    types = ["r" if index in section.numeric_columns else "l" for index in range(len(section.header))]
    caption = section.caption or section.legend
    return Float(
        f"{caption} {caution}".rstrip() if label in _CAUTIONED else caption,
        Raw(re.sub(r"[^A-Za-z0-9-]+", "-", label)),
        Raw("".join(types)),
        section.header if label == "main" else [_break_title(name) for name in section.header],
        [
            [_format_cell(cell, (number, index) in section.bold) for index, cell in enumerate(row)]
            for number, row in enumerate(section.rows)
        ],
        "table*" if section.is_wide else "table",
    )


def _format_cell(cell: str, is_bold: bool) -> str:
    """Return a cell, with its first number bold if it is the best."""
    first, blank, rest = cell.partition(" ")
    return Raw(rf"\textbf{{{escape_latex(first)}}}{blank}{escape_latex(rest)}") if is_bold else cell


def _break_title(name: str) -> str:
    """Break the title of a column into lines, one for each of its parts."""
    parts = re.findall(r"[^-_ ]+[-_]?|[-_]", name)
    lines = r"\\".join(map(escape_latex, parts))
    return Raw(rf"\begin{{tabular}}[b]{{@{{}}l@{{}}}}{lines}\end{{tabular}}") if len(parts) > 1 else name
