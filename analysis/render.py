"""The main table and the comparisons as terminal text, Markdown, LaTeX and HTML."""

import html
import io
from collections.abc import Sequence

from analysis.tables import Comparison, Row, Table, p_value

_LATEX_MARKS = {"▲": r"\blacktriangle", "▼": r"\blacktriangledown", "△": r"\vartriangle", "▽": r"\triangledown"}
_COMPARISON_HEADER = [
    "system", "baseline", "difference", "queries: 95 % interval", "p", "corrected p", "seeds: p", "both: p",
    "effect", "detectable", "verdict",
]  # fmt: skip


def table_cells(table: Table) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the main table as plain text."""
    dev, test = (f"{split} {table.metric}" for split in table.splits)
    header, rows = ["system", "ε", "switch", dev, test, ""], []
    for row in table.rows:
        rows.append([row.system, number(row.epsilon), number(row.switch), *_scores(row), row.marks])
    if any(row.settings for row in table.rows):
        header.insert(3, "further settings")
        for cells, row in zip(rows, table.rows, strict=True):
            cells.insert(3, row.settings or "-")
    return header, rows


def comparison_cells(
    compared: Sequence[Comparison], correction: str, alpha: float
) -> tuple[list[str], list[list[str]]]:
    """Header and rows of one family's comparisons as plain text."""
    header = [cell.replace("95 %", f"{100 * (1 - alpha):.3g} %") for cell in _COMPARISON_HEADER]
    rows = []
    for c in compared:
        queries, seeds, both = (c.targets[name] for name in ("queries", "seeds", "both"))
        rows.append(
            [
                c.system,
                c.baseline,
                f"{c.difference:+.4f}" if c.difference is not None else "incomplete",
                f"[{queries.low:+.4f}, {queries.high:+.4f}]" if queries else "-",
                p_value(queries.p if queries else None),
                p_value(c.adjusted[correction]),
                p_value(seeds.p if seeds else None),
                p_value(both.p if both else None),
                f"{c.effect:+.3f}" if c.effect is not None else "-",
                f"{c.detectable:.4f}" if c.detectable is not None else "-",
                c.verdict,
            ]
        )
    return header, rows


def legend(table: Table) -> str:
    """What the marks and numbers mean, and how scores were computed, in one line."""
    pairs = [f"{symbols} over {name}" for symbols, name in zip(("▲▼", "△▽"), table.baselines, strict=False)]
    return (
        f"Mean ± standard deviation over {_seeds(table)}. Significant gain or loss on the test queries: "
        f"{', '.join(pairs)} (paired t-test, corrected, {table.alpha:g})."
        + (f" Scores computed in {' and '.join(table.scored_in)}." if table.scored_in else "")
    )


def _seeds(table: Table) -> str:
    if not table.confirmed:
        return f"{table.seeds} seeds"
    dev, test = table.splits
    return f"seeds: {table.search_seeds} of the search on {dev}, {table.seeds} fresh ones on {test}"


def terminal(title: str, header: list[str], rows: list[list[str]], width: int = 160) -> str:
    """A table as plain text of at most `width` columns."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable

    grid = RichTable(title=title, box=box.SIMPLE, title_justify="left", title_style="")
    for name in header:
        grid.add_column(name, no_wrap=name != "configuration")  # the one that may be long is wrapped
    for row in rows:
        grid.add_row(*row)
    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None, force_terminal=False, markup=False).print(grid)
    return "\n".join(line.rstrip() for line in stream.getvalue().strip("\n").splitlines())


def markdown(table: Table) -> str:
    """The main table, its legend and what is incomplete, as Markdown."""
    lines = [markdown_table(*table_cells(table)), legend(table)]
    if table.notes:
        lines += ["", *(f"- {note}" for note in table.notes)]
    return "\n".join(lines) + "\n"


def markdown_table(header: list[str], rows: list[list[str]]) -> str:
    """Any table as Markdown."""
    return "\n".join([_line(header), _line(["---"] * len(header)), *map(_line, rows)]) + "\n"


def latex(table: Table) -> str:
    """The main table for a paper; needs the packages booktabs and amssymb."""
    dev, test = (f"{_escape(split)} {_escape(table.metric)}" for split in table.splits)
    further = any(row.settings for row in table.rows)
    lines = [
        r"% \usepackage{booktabs,amssymb}",
        rf"\begin{{tabular}}{{lrr{'l' if further else ''}ll}}",
        r"\toprule",
        rf"system & $\epsilon$ & switch & {'further settings & ' if further else ''}{dev} & {test} \\",
        r"\midrule",
    ]
    for row in table.rows:
        cells = [_dash(cell).replace("±", r"$\pm$") for cell in _scores(row)]
        marks = "".join(_LATEX_MARKS[mark] for mark in row.marks)
        cells[1] += f"$^{{{marks}}}$" if marks else ""
        numbers = [_dash(number(value)) for value in (row.epsilon, row.switch)]
        settings = [_escape(row.settings or "--")] if further else []
        lines.append(" & ".join([_escape(row.system), *numbers, *settings, *cells]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [f"% {_one_line(note)}" for note in (legend(table), *table.notes)]
    return "\n".join(lines) + "\n"


def html_table(header: list[str], rows: list[list[str]]) -> str:
    """A table as HTML, every cell escaped."""
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>\n"


def number(value: float | None) -> str:
    """A setting, or a dash."""
    return "-" if value is None else f"{value:.3g}"


def _scores(row: Row) -> list[str]:
    cells = []
    for value in (row.dev, row.test):
        if value is None:
            cells.append("incomplete" if row.note else "-")
        else:
            cells.append(f"{value[0]:.4f}" + (f" ± {value[1]:.4f}" if value[1] is not None else ""))
    return cells


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(_one_line(cell).replace("|", r"\|") for cell in cells) + " |"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _dash(cell: str) -> str:
    return "--" if cell == "-" else cell


def _escape(text: str) -> str:
    return "".join("\\" + character if character in "&%$#_{}" else character for character in text)
