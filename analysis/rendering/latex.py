"""Renders the tables for a paper as LaTeX with booktabs: systems, comparisons, searches and strata."""

import re
from collections.abc import Sequence

from analysis.data.plan import Plan
from analysis.rendering import cells as render
from analysis.rendering import sections
from analysis.tables import confirmation
from analysis.tables.main import MainTable, ReportData
from analysis.tables.query_groups import QueryAttribute
from analysis.tables.strata import StrataTable

_MARKS = {
    **{"▲": r"\blacktriangle", "▼": r"\blacktriangledown", "△": r"\vartriangle", "▽": r"\triangledown"},
    **{"⇑": r"\Uparrow", "↑": r"\uparrow", "⇓": r"\Downarrow", "↓": r"\downarrow"},
}
_SPECIAL = {
    **{character: "\\" + character for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    "[": "{[}",
    "]": "{]}",
    "±": r"$\pm$",
    "ε": r"$\epsilon$",
    "\N{MINUS SIGN}": "$-$",
    "“": "``",
    "”": "''",
    **{mark: f"${symbol}$" for mark, symbol in _MARKS.items()},
}
_HEADER = [
    "system", "baseline", "metric", "difference", "interval", "corrected p", "effect", "W/T/L", "verdict",
]  # fmt: skip
"""Columns of the comparisons, if they have them."""

_WRAPPED_COLUMN = r">{\raggedright\arraybackslash}p"
_CONFIRMED_COLUMNS = rf"l{_WRAPPED_COLUMN}{{.19\textwidth}}*{{6}}{{{_WRAPPED_COLUMN}{{.1\textwidth}}}}"
"""A column with its natural width, and seven columns with wrapped cells."""


def render_latex(analysis: ReportData) -> str:
    r"""Render floats for \input; they need the packages array, amssymb and booktabs."""
    plan = analysis.results.plan
    parts = [r"% \usepackage{array,amssymb,booktabs}", _render_main_table(analysis.table)]
    parts += [_render_metric_table(section) for section in sections.build_metric_sections(analysis)]
    for family in plan.families:
        compared = [c for c in analysis.comparisons if c.family == family.name]
        header, cells = render.format_comparisons(compared, family.correction, plan.unit)
        shown = [name for name in _HEADER if name in header]
        rows = [[row[header.index(name)] for name in shown] for row in cells]
        caption = (
            f"Comparisons {family.name} of {', '.join(plan.get_family_metrics(family))}: difference of the means, "
            "simultaneous "
            f"{100 * (1 - plan.alpha):g} % interval, p corrected for {len(compared)} ({family.correction})."
        )
        parts.append(
            _render_float(caption, f"comparisons-{family.name}", "l" * (len(shown) - 6) + "rrrrrl", shown, rows)
        )
    if analysis.confirmed:
        rows = confirmation.format_rows(analysis.confirmed)
        parts.append(
            _render_float(confirmation.format_legend(plan), "confirmed", _CONFIRMED_COLUMNS, confirmation.HEADER, rows)
        )
    if analysis.defaults:
        header, rows = analysis.defaults.to_cells()
        parts.append(_render_float(analysis.defaults.format_legend(plan), "defaults", "llll", header, rows))
    parts += [_render_seed_table(section) for section in sections.build_seed_sections(analysis)]
    if analysis.strata:
        parts += [_render_strata(analysis.strata, attribute, plan) for attribute in analysis.strata.attributes]
    return "\n".join(parts)


def escape_latex(text: str) -> str:
    r"""Return the text on one line, without LaTeX commands.

    Example:
        >>> escape_latex("50 % of A_B")
        '50 \\% of A\\_B'
    """
    shown = re.sub(r"(?<!\w)-(?=\d)", "\N{MINUS SIGN}", " ".join(text.split()))
    return "".join(_SPECIAL.get(character, character) for character in shown)


def _render_main_table(table: MainTable) -> str:
    header, rows = render.format_main_table(table)
    for cells in rows:
        raised = "".join(_MARKS[mark] for mark in cells.pop())
        cells[-1] = escape_latex(cells[-1]) + (f"$^{{{raised}}}$" if raised else "")
        cells[:-1] = [escape_latex(_replace_dash(cell)) for cell in cells[:-1]]
    columns = "l" + "".join("r" if name in (table.symbol, "switch") else "l" for name in header[1:-1])
    notes = "".join(f"% {' '.join(note.split())}\n" for note in table.notes)
    return _render_float(render.format_legend(table), "main", columns, header[:-1], rows, escaped=True) + notes


def _render_seed_table(section: sections.Section) -> str:
    """Render the test runs by seed; marks are superscripts, and a wide table spans both columns of a page."""
    rows = [
        [_format_cell(cell, (index, column) in section.bold) for column, cell in enumerate(row)]
        for index, row in enumerate(section.rows)
    ]
    columns, header = "l" * len(section.header), section.header
    kind = "table*" if section.is_wide else "table"
    return _render_float(
        section.legend, "seed-by-seed", columns, header, rows, escaped=True, break_header=True, kind=kind
    )


def _render_metric_table(section: sections.Section) -> str:
    """Render the systems by metric; the best mean of a column is bold, without its spread and marks."""
    rows = [
        [
            _format_bold(cell) if (index, column) in section.bold else escape_latex(_replace_dash(cell))
            for column, cell in enumerate(row)
        ]
        for index, row in enumerate(section.rows)
    ]
    columns, kind = "l" + "r" * (len(section.header) - 1), "table*" if section.is_wide else "table"
    return _render_float(section.legend, "by-metric", columns, section.header, rows, escaped=True, kind=kind)


def _format_bold(cell: str) -> str:
    value, blank, rest = cell.partition(" ")
    return rf"\textbf{{{escape_latex(value)}}}{blank}{escape_latex(rest)}"


def _render_strata(table: StrataTable, attribute: QueryAttribute, plan: Plan) -> str:
    header, rows = table.to_cells(attribute)
    caption = f"{plan.metric} on {plan.get_split(table.phase)}. {table.describe_strata(attribute)} "
    caption += table.format_legend(plan)
    return _render_float(caption, f"strata-{attribute.name}", "l" * len(header), header, rows, break_header=True)


def _format_cell(text: str, bold: bool) -> str:
    value, _, mark = text.partition(" ")
    shown = rf"\textbf{{{value}}}" if bold else escape_latex(_replace_dash(value))
    return shown + (f"$^{{{_MARKS[mark]}}}$" if mark else "")


def _break_header(name: str) -> str:
    """Break a name into lines, one for each of its parts."""
    parts = re.findall(r"[^-_ ]+[-_]?|[-_]", name)
    lines = r"\\".join(map(escape_latex, parts))
    return rf"\begin{{tabular}}[b]{{@{{}}l@{{}}}}{lines}\end{{tabular}}" if len(parts) > 1 else escape_latex(name)


def _replace_dash(cell: str) -> str:
    return "--" if cell == "-" else cell


def _render_float(
    caption: str,
    label: str,
    columns: str,
    header: list[str],
    rows: Sequence[Sequence[str]],
    escaped: bool = False,
    break_header: bool = False,
    kind: str = "table",
) -> str:
    """Render a table with its caption.

    Args:
        caption: text of the caption.
        label: label, after "tab:".
        columns: column types of the tabular.
        header: titles of the columns.
        rows: cells.
        escaped: True if the rows are LaTeX already.
        break_header: True to break the titles into several lines.
        kind: table, or table* for both columns of a page.
    """
    lines = rows if escaped else [[escape_latex(_replace_dash(cell)) for cell in row] for row in rows]
    titles = [_break_header(name) if break_header else escape_latex(name) for name in header]
    return "\n".join([
        rf"\begin{{{kind}}}[t]\centering\scriptsize\setlength{{\tabcolsep}}{{2pt}}",
        rf"\caption{{{escape_latex(caption)}}}\label{{tab:{_make_label(label)}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        " & ".join(titles) + r" \\",
        r"\midrule",
        *(" & ".join(cells) + r" \\" for cells in lines),
        r"\bottomrule",
        r"\end{tabular}",
        rf"\end{{{kind}}}",
        "",
    ])  # fmt: skip


def _make_label(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]+", "-", name)
