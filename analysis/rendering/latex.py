"""The tables for a paper, as LaTeX with booktabs: the main one, the comparisons, and what the search gave."""

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
    "system", "baseline", "metric", "difference", "interval", "corrected p", "effect", "won/tied/lost", "bootstrap: p",
    "verdict",
]  # fmt: skip
"""Those that the comparisons have."""

_WRAPPED_COLUMN = r">{\raggedright\arraybackslash}p"
_CONFIRMED_COLUMNS = rf"l{_WRAPPED_COLUMN}{{.19\textwidth}}*{{6}}{{{_WRAPPED_COLUMN}{{.1\textwidth}}}}"
"""A column that is as wide as it needs, and seven whose cells are broken."""


def render_latex(analysis: ReportData) -> str:
    r"""Floats to be read with \input; they need the packages array, amssymb and booktabs."""
    plan = analysis.results.plan
    parts = [r"% \usepackage{array,amssymb,booktabs}", _render_main_table(analysis.table)]
    parts += [_render_metric_table(section) for section in sections.build_metric_sections(analysis)]
    for family in plan.families:
        own = [c for c in analysis.comparisons if c.family == family.name]
        header, cells = render.format_comparisons(own, family.correction, plan.unit)
        shown = [name for name in _HEADER if name in header]
        rows = [[row[header.index(name)] for name in shown] for row in cells]
        caption = (
            f"Comparisons {family.name} of {', '.join(plan.get_family_metrics(family))}: difference of the means, "
            "simultaneous "
            f"{100 * (1 - plan.alpha):g} % interval, p corrected for {len(own)} ({family.correction})."
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
        parts.append(_render_float(analysis.defaults.format_legend(plan), "untuned", "llll", header, rows))
    parts += [_render_seed_table(section) for section in sections.build_seed_sections(analysis)]
    if analysis.strata:
        parts += [_render_strata(analysis.strata, attribute, plan) for attribute in analysis.strata.attributes]
    return "\n".join(parts)


def escape_latex(text: str) -> str:
    """Text on one line in which nothing is a command."""
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
    """Marks are raised, and a broad table takes both columns of a page that has two."""
    rows = [
        [_format_cell(cell, (at, column) in section.bold) for column, cell in enumerate(row)]
        for at, row in enumerate(section.rows)
    ]
    columns, header = "l" * len(section.header), section.header
    kind = "table*" if section.is_wide else "table"
    return _render_float(
        section.legend, "seed-by-seed", columns, header, rows, escaped=True, break_header=True, kind=kind
    )


def _render_metric_table(section: sections.Section) -> str:
    """The best of a column is bold; its spread and marks are not."""
    rows = [
        [
            _format_bold(cell) if (at, column) in section.bold else escape_latex(_replace_dash(cell))
            for column, cell in enumerate(row)
        ]
        for at, row in enumerate(section.rows)
    ]
    columns, kind = "l" + "r" * (len(section.header) - 1), "table*" if section.is_wide else "table"
    return _render_float(section.legend, "by-metric", columns, section.header, rows, escaped=True, kind=kind)


def _format_bold(cell: str) -> str:
    value, blank, rest = cell.partition(" ")
    return rf"\textbf{{{escape_latex(value)}}}{blank}{escape_latex(rest)}"


def _render_strata(found: StrataTable, attribute: QueryAttribute, plan: Plan) -> str:
    header, rows = found.to_cells(attribute)
    caption = f"{plan.metric} on {plan.get_split(found.phase)}. {found.describe_strata(attribute)} "
    caption += found.format_legend(plan)
    return _render_float(caption, f"strata-{attribute.name}", "l" * len(header), header, rows, break_header=True)


def _format_cell(text: str, bold: bool) -> str:
    value, _, mark = text.partition(" ")
    shown = rf"\textbf{{{value}}}" if bold else escape_latex(_replace_dash(value))
    return shown + (f"$^{{{_MARKS[mark]}}}$" if mark else "")


def _break_header(name: str) -> str:
    """In lines, a part of a name in each."""
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
    """A table with its caption; `escaped`: the rows are LaTeX already; `broken`: the header is, into several lines."""
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
