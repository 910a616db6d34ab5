"""Makes the floats of a paper from the tables of a report; they need the packages array, amssymb and booktabs."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from analysis.rendering.escaping import LATEX_MARKS, Raw, escape_latex
from analysis.tables.section import Section

_LEFT_OUT = ("p", "p (queries)", "p (pairs)", "p (seeds)", "MDE")
"""Columns of the comparisons that a paper does not need."""
_CAUTIONED = ("main", "by-metric", "retrieval", "seed-by-seed")
"""Tables with a caption that says what the scores cannot be compared with."""
_BROAD = ("looks", "corrections", "setup")
_WRAPPED = r">{\raggedright\arraybackslash}p"
_CONFIRMED_COLUMNS = rf"l{_WRAPPED}{{.19\textwidth}}*{{6}}{{{_WRAPPED}{{.1\textwidth}}}}"
_LAST_COLUMNS = {"corrections": rf"{_WRAPPED}{{.15\textwidth}}", "setup": rf"{_WRAPPED}{{.7\textwidth}}"}


class Float(NamedTuple):
    """One floating table; everything but `Raw` text is escaped.

    Attributes:
        caption: text of the caption.
        label: label, after "tab:".
        columns: column types of the tabular.
        header: titles of the columns.
        rows: cells.
        environment: table, or table* for both columns of a page.
    """

    caption: str
    label: Raw
    columns: Raw
    header: list[str]
    rows: list[list[str]]
    environment: str


def make_floats(sections: Sequence[Section], caution: str = "") -> list[Float]:
    """Return the floats of the tables that a paper shows.

    Args:
        sections: tables of a report.
        caution: what the scores cannot be compared with.
    """
    return [_make_float(section, caution) for section in sections if section.label]


def _make_float(section: Section, caution: str) -> Float:
    label = section.label
    if label == "main":
        rows = [[*row[:-2], f"{row[-2]} {row[-1]}".rstrip()] for row in section.rows]
        section = section._replace(header=section.header[:-1], rows=rows)
    shown = [
        index
        for index, name in enumerate(section.header)
        if not (label.startswith("comparisons-") and name in _LEFT_OUT)
    ]
    types = ["r" if index in section.numeric_columns else "l" for index in shown]
    types[-1] = _LAST_COLUMNS.get(label, types[-1])
    caption = section.caption or section.legend
    return Float(
        f"{caption} {caution}".rstrip() if label in _CAUTIONED else caption,
        Raw(re.sub(r"[^A-Za-z0-9-]+", "-", label)),
        Raw(_CONFIRMED_COLUMNS if label == "confirmed" else "".join(types)),
        [_break_title(section.header[index]) for index in shown],
        [
            [_format_cell(row[index], (number, index) in section.bold) for index in shown]
            for number, row in enumerate(section.rows)
        ],
        "table*" if section.is_wide or label in _BROAD else "table",
    )


def _format_cell(cell: str, is_bold: bool) -> str:
    """Return a cell with its marks as a superscript, and its first number bold if it is the best."""
    text, _, marks = cell.rpartition(" ")
    if not text or not set(marks) <= LATEX_MARKS.keys():
        text, marks = cell, ""
    first, blank, rest = text.partition(" ")
    shown = rf"\textbf{{{escape_latex(first)}}}{blank}{escape_latex(rest)}" if is_bold else escape_latex(text)
    if marks:
        shown += f"$^{{{''.join(LATEX_MARKS[mark] for mark in marks)}}}$"
    return Raw(shown) if is_bold or marks else cell


def _break_title(name: str) -> str:
    """Break the title of a column into lines, one for each of its parts."""
    parts = re.findall(r"[^-_ ]+[-_]?|[-_]", name)
    lines = r"\\".join(map(escape_latex, parts))
    return Raw(rf"\begin{{tabular}}[b]{{@{{}}l@{{}}}}{lines}\end{{tabular}}") if len(parts) > 1 else name
