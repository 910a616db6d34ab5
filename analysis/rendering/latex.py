"""The tables for a paper, as LaTeX with booktabs: the main one, the comparisons, and what the search gave."""

import re
from collections.abc import Sequence

from analysis.data.plan import Plan
from analysis.rendering import cells as render
from analysis.rendering import sections
from analysis.tables import confirmation
from analysis.tables.attributes import Attribute
from analysis.tables.main import Analysis, Table
from analysis.tables.strata import Strata

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

_BROKEN = r">{\raggedright\arraybackslash}p"
_NARROW = rf"l{_BROKEN}{{.19\textwidth}}*{{6}}{{{_BROKEN}{{.1\textwidth}}}}"
"""A column that is as wide as it needs, and seven whose cells are broken."""


def latex(analysis: Analysis) -> str:
    r"""Floats to be read with \input; they need the packages array, amssymb and booktabs."""
    plan = analysis.results.plan
    parts = [r"% \usepackage{array,amssymb,booktabs}", _main(analysis.table)]
    parts += [_by_metric(section) for section in sections.by_metric(analysis)]
    for family in plan.families:
        own = [c for c in analysis.comparisons if c.family == family.name]
        header, cells = render.comparison_cells(own, family.correction, plan.unit)
        shown = [name for name in _HEADER if name in header]
        rows = [[row[header.index(name)] for name in shown] for row in cells]
        caption = (
            f"Comparisons {family.name} of {', '.join(plan.metrics_of(family))}: difference of the means, simultaneous "
            f"{100 * (1 - plan.alpha):g} % interval, p corrected for {len(own)} ({family.correction})."
        )
        parts.append(_float(caption, f"comparisons-{family.name}", "l" * (len(shown) - 6) + "rrrrrl", shown, rows))
    if analysis.confirmed:
        rows = confirmation.cells(analysis.confirmed)
        parts.append(_float(confirmation.legend(plan), "confirmed", _NARROW, confirmation.HEADER, rows))
    if analysis.untuned:
        header, rows = analysis.untuned.cells()
        parts.append(_float(analysis.untuned.legend(plan), "untuned", "llll", header, rows))
    parts += [_seed_by_seed(section) for section in sections.seed_by_seed(analysis)]
    if analysis.strata:
        parts += [_stratum(analysis.strata, attribute, plan) for attribute in analysis.strata.attributes]
    return "\n".join(parts)


def escape(text: str) -> str:
    """Text on one line in which nothing is a command."""
    shown = re.sub(r"(?<!\w)-(?=\d)", "\N{MINUS SIGN}", " ".join(text.split()))
    return "".join(_SPECIAL.get(character, character) for character in shown)


def _main(table: Table) -> str:
    header, rows = render.table_cells(table)
    for cells in rows:
        raised = "".join(_MARKS[mark] for mark in cells.pop())
        cells[-1] = escape(cells[-1]) + (f"$^{{{raised}}}$" if raised else "")
        cells[:-1] = [escape(_dash(cell)) for cell in cells[:-1]]
    columns = "l" + "".join("r" if name in (table.symbol, "switch") else "l" for name in header[1:-1])
    notes = "".join(f"% {' '.join(note.split())}\n" for note in table.notes)
    return _float(render.legend(table), "main", columns, header[:-1], rows, escaped=True) + notes


def _seed_by_seed(section: sections.Section) -> str:
    """Marks are raised, and a broad table takes both columns of a page that has two."""
    rows = [
        [_cell(cell, (at, column) in section.bold) for column, cell in enumerate(row)]
        for at, row in enumerate(section.rows)
    ]
    columns, header = "l" * len(section.header), section.header
    kind = "table*" if section.broad else "table"
    return _float(section.legend, "seed-by-seed", columns, header, rows, escaped=True, broken=True, kind=kind)


def _by_metric(section: sections.Section) -> str:
    """The best of a column is bold; its spread and marks are not."""
    rows = [
        [_bold(cell) if (at, column) in section.bold else escape(_dash(cell)) for column, cell in enumerate(row)]
        for at, row in enumerate(section.rows)
    ]
    columns, kind = "l" + "r" * (len(section.header) - 1), "table*" if section.broad else "table"
    return _float(section.legend, "by-metric", columns, section.header, rows, escaped=True, kind=kind)


def _bold(cell: str) -> str:
    value, blank, rest = cell.partition(" ")
    return rf"\textbf{{{escape(value)}}}{blank}{escape(rest)}"


def _stratum(found: Strata, attribute: Attribute, plan: Plan) -> str:
    header, rows = found.cells(attribute)
    caption = f"{plan.metric} on {plan.split_of(found.phase)}. {found.making(attribute)} {found.legend(plan)}"
    return _float(caption, f"strata-{attribute.name}", "l" * len(header), header, rows, broken=True)


def _cell(text: str, bold: bool) -> str:
    value, _, mark = text.partition(" ")
    shown = rf"\textbf{{{value}}}" if bold else escape(_dash(value))
    return shown + (f"$^{{{_MARKS[mark]}}}$" if mark else "")


def _broken(name: str) -> str:
    """In lines, a part of a name in each."""
    parts = re.findall(r"[^-_ ]+[-_]?|[-_]", name)
    lines = r"\\".join(map(escape, parts))
    return rf"\begin{{tabular}}[b]{{@{{}}l@{{}}}}{lines}\end{{tabular}}" if len(parts) > 1 else escape(name)


def _dash(cell: str) -> str:
    return "--" if cell == "-" else cell


def _float(
    caption: str,
    label: str,
    columns: str,
    header: list[str],
    rows: Sequence[Sequence[str]],
    escaped: bool = False,
    broken: bool = False,
    kind: str = "table",
) -> str:
    """A table with its caption; `escaped`: the rows are LaTeX already; `broken`: the header is, into several lines."""
    lines = rows if escaped else [[escape(_dash(cell)) for cell in row] for row in rows]
    titles = [_broken(name) if broken else escape(name) for name in header]
    return "\n".join([
        rf"\begin{{{kind}}}[t]\centering\scriptsize\setlength{{\tabcolsep}}{{2pt}}",
        rf"\caption{{{escape(caption)}}}\label{{tab:{_label(label)}}}",
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


def _label(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]+", "-", name)
