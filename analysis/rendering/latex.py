"""Renders the tables for a paper as LaTeX with booktabs: systems, comparisons, searches, strata and data."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from analysis.data.plan import Plan
from analysis.rendering import cells as render
from analysis.rendering import sections
from analysis.rendering.escaping import LATEX_MARKS, Raw, escape_latex, render_template
from analysis.rendering.looks import build_look_sections
from analysis.rendering.pooling import describe_pooling
from analysis.tables import confirmation
from analysis.tables.main import MainTable, ReportData
from analysis.tables.query_groups import QueryAttribute
from analysis.tables.strata import StrataTable

_HEADER = [
    "system", "baseline", "metric", "difference", "interval", "corrected p", render.QUERIES_BONFERRONI,
    "W/T/L", "verdict",
]  # fmt: skip
"""Columns of the comparisons, if they have them."""
_QUERIES_TEST = "do these checkpoints differ on new queries; it says nothing about new seeds."
_TEXT_COLUMNS = ("system", "baseline", "metric", "verdict")

_WRAPPED_COLUMN = r">{\raggedright\arraybackslash}p"
_CONFIRMED_COLUMNS = Raw(rf"l{_WRAPPED_COLUMN}{{.19\textwidth}}*{{6}}{{{_WRAPPED_COLUMN}{{.1\textwidth}}}}")
"""A column with its natural width, and seven columns with wrapped cells."""


class _Table(NamedTuple):
    """One floating table; everything but `Raw` text is escaped.

    Attributes:
        caption: text of the caption.
        label: label, after "tab:".
        columns: column types of the tabular.
        header: titles of the columns.
        rows: cells.
        environment: table, or table* for both columns of a page.
        notes: comments after the table.
    """

    caption: str
    label: Raw
    columns: Raw
    header: list[str]
    rows: list[list[str]]
    environment: str = "table"
    notes: Sequence[Raw] = ()


def render_latex(analysis: ReportData) -> str:
    r"""Render floats for \input; they need the packages array, amssymb and booktabs."""
    plan, strata = analysis.results.plan, analysis.strata
    caution = analysis.table.caution
    tables = [_build_main_table(analysis.table)]
    metrics = sections.build_metric_sections(analysis)
    tables += [_build_score_table(section, caution, "by-metric") for section in metrics]
    retrieval = sections.build_retrieval_sections(analysis)
    tables += [_build_score_table(section, caution, "retrieval") for section in retrieval]
    tables += [_build_look_table(section) for section in build_look_sections(analysis)]
    tables += _build_comparison_tables(analysis)
    tables += [_build_group_table(section) for section in sections.build_group_sections(analysis)]
    tables.append(_build_corrections_table(sections.build_corrections_section(analysis)))
    if analysis.confirmed:
        legend, rows = confirmation.format_legend(plan), confirmation.format_rows(analysis.confirmed)
        tables.append(_Table(legend, Raw("confirmed"), _CONFIRMED_COLUMNS, confirmation.HEADER, rows))
    tables += [_build_seed_table(section, caution) for section in sections.build_seed_sections(analysis)]
    if strata:
        tables += [_build_strata_table(strata, attribute, plan) for attribute in strata.attributes]
    tables += [_build_setup_table(section) for section in sections.build_setup_sections(analysis)]
    tables += [_build_data_table(section) for section in sections.build_data_sections(analysis.results.statistics)]
    return render_template("tables.tex.j2", tables=tables)


def render_sections(tables: Sequence[sections.Section]) -> str:
    """Render tables as floats, one for each, with their legends as captions.

    Args:
        tables: the tables.
    """
    floats = [
        _Table(
            f"{table.title}. {table.legend}",
            _make_label(table.title.lower()),
            Raw("".join("r" if index in table.numeric_columns else "l" for index in range(len(table.header)))),
            table.header,
            table.rows,
            _choose_environment(table),
        )
        for table in tables
    ]
    return render_template("tables.tex.j2", tables=floats)


def _build_main_table(table: MainTable) -> _Table:
    header, rows = render.format_main_table(table)
    columns = Raw("l" + "".join("r" if name in (table.symbol, "switch") else "l" for name in header[1:-1]))
    cells = [[*row[:-2], _raise_marks(escape_latex(row[-2]), row[-1])] for row in rows]
    notes = [Raw(" ".join(note.split())) for note in table.notes]
    caption = f"{render.format_legend(table)} {table.caution}".rstrip()
    return _Table(caption, Raw("main"), columns, header[:-1], cells, notes=notes)


def _build_comparison_tables(analysis: ReportData) -> list[_Table]:
    plan, tables = analysis.results.plan, []
    for family in plan.families:
        compared = [c for c in analysis.comparisons if c.family == family.name]
        header, cells = render.format_comparisons(compared, family.correction, plan.unit)
        shown = [name for name in map(plan.adapt_to_unit, _HEADER) if name in header]
        rows = [[row[header.index(name)] for name in shown] for row in cells]
        caption = (
            f"Comparisons {family.name} of {', '.join(plan.get_family_metrics(family))}: difference of the means, "
            f"simultaneous {100 * (1 - plan.alpha):g} % interval, p corrected for {len(compared)} "
            f"({family.correction}). " + plan.adapt_to_unit(f"{render.QUERIES_BONFERRONI}: {_QUERIES_TEST}")
        )
        if family.phase != "test":
            caption += f" {sections.describe_dev_scores(analysis)}"
        if pooling := describe_pooling(compared, plan.seed_variance):
            caption += f" {plan.adapt_to_unit(pooling)}"
        columns = Raw("".join("l" if name in _TEXT_COLUMNS else "r" for name in shown))
        tables.append(
            _Table(caption, _make_label(f"comparisons-{family.name}"), columns, [*map(_break_title, shown)], rows)
        )
    return tables


def _build_look_table(section: sections.Section) -> _Table:
    return _Table(section.legend, Raw("looks"), Raw("rrrrll"), section.header, section.rows, "table*")


def _build_group_table(section: sections.Section) -> _Table:
    return _Table(section.legend, Raw("groups"), Raw("lrll"), section.header, section.rows)


def _build_corrections_table(section: sections.Section) -> _Table:
    """Build the p-values by correction; those of each seed are wrapped."""
    left = sum(name in ("family", *_TEXT_COLUMNS) for name in section.header)
    columns = Raw("l" * left + "r" * (len(section.header) - left - 1) + rf"{_WRAPPED_COLUMN}{{.15\textwidth}}")
    header = [*map(_break_title, section.header)]
    return _Table(section.legend, Raw("corrections"), columns, header, section.rows, "table*")


def _build_seed_table(section: sections.Section, caution: str) -> _Table:
    """Build the test runs by seed; marks are superscripts, and a wide table spans both columns of a page."""
    rows = [
        [_format_seed_cell(cell, (index, column) in section.bold) for column, cell in enumerate(row)]
        for index, row in enumerate(section.rows)
    ]
    columns, header = Raw("l" * len(section.header)), [*map(_break_title, section.header)]
    caption = f"{section.legend} {caution}".rstrip()
    return _Table(caption, Raw("seed-by-seed"), columns, header, rows, _choose_environment(section))


def _build_score_table(section: sections.Section, caution: str, label: str) -> _Table:
    """Build the systems by metric; the best mean of a column is bold, without its spread and marks."""
    rows = [
        [_make_mean_bold(cell) if (index, column) in section.bold else cell for column, cell in enumerate(row)]
        for index, row in enumerate(section.rows)
    ]
    columns = Raw("l" + "r" * (len(section.header) - 1))
    caption = f"{section.legend} {caution}".rstrip()
    return _Table(caption, Raw(label), columns, section.header, rows, _choose_environment(section))


def _build_strata_table(table: StrataTable, attribute: QueryAttribute, plan: Plan) -> _Table:
    header, rows = table.to_cells(attribute)
    caption = f"{plan.metric} on {plan.get_split(table.phase)}. {table.describe_strata(attribute)} "
    caption += table.format_legend(plan)
    label = _make_label(f"strata-{attribute.name}")
    return _Table(caption, label, Raw("l" * len(header)), [*map(_break_title, header)], rows)


def _build_setup_table(section: sections.Section) -> _Table:
    columns = Raw(rf"l{_WRAPPED_COLUMN}{{.7\textwidth}}")
    return _Table(section.legend, Raw("setup"), columns, section.header, section.rows, "table*")


def _build_data_table(section: sections.Section) -> _Table:
    columns = Raw("l" + "r" * (len(section.header) - 1))
    caption = f"{section.title}. {section.legend}".rstrip()
    return _Table(caption, Raw("data"), columns, section.header, section.rows, _choose_environment(section))


def _choose_environment(section: sections.Section) -> str:
    return "table*" if section.is_wide else "table"


def _make_mean_bold(cell: str) -> Raw:
    value, blank, rest = cell.partition(" ")
    return Raw(rf"\textbf{{{escape_latex(value)}}}{blank}{escape_latex(rest)}")


def _format_seed_cell(cell: str, is_bold: bool) -> str:
    value, _, mark = cell.partition(" ")
    shown = Raw(rf"\textbf{{{escape_latex(value)}}}") if is_bold else escape_latex(value)
    return _raise_marks(shown, mark) if mark or is_bold else value


def _raise_marks(shown: str, marks: str) -> Raw:
    """Return text with marks of significance as its superscript."""
    return Raw(f"{shown}$^{{{''.join(LATEX_MARKS[mark] for mark in marks)}}}$" if marks else shown)


def _break_title(name: str) -> str:
    """Break the title of a column into lines, one for each of its parts."""
    parts = re.findall(r"[^-_ ]+[-_]?|[-_]", name)
    lines = r"\\".join(map(escape_latex, parts))
    return Raw(rf"\begin{{tabular}}[b]{{@{{}}l@{{}}}}{lines}\end{{tabular}}") if len(parts) > 1 else name


def _make_label(name: str) -> Raw:
    return Raw(re.sub(r"[^A-Za-z0-9-]+", "-", name))
