"""Cells of the main table and of the comparisons, and tables as terminal text."""

import io
from collections.abc import Sequence

from analysis.data.configurations import format_score
from analysis.data.plan import adapt_to_unit
from analysis.stats.comparison import Comparison
from analysis.tables import marks
from analysis.tables.main import MainTable, SystemRow, format_p_value
from trainables.utils.cli import escape_control_characters

QUERIES_BONFERRONI = "p (queries), Bonferroni"
"""Column with the test of Penha and Hauff (2021)."""
_COMPARISON_HEADER = [
    "system", "baseline", "difference", "interval", "p", "corrected p", "p (queries)", QUERIES_BONFERRONI, "p (seeds)",
    "W/T/L", "MDE", "verdict",
]  # fmt: skip
_TESTS = {
    "both": "on new queries and new seeds, two-way random effects",
    "queries": "on new queries, paired t-test",
    "seeds": "with new seeds, paired t-test",
}


def format_main_table(table: MainTable) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of the main table as plain text."""
    dev, test = (f"{split} {table.metric}" for split in table.splits)
    header, rows = ["system", table.symbol, "switch", dev, test, "sig."], []
    for row in table.rows:
        rows.append(
            [row.system, format_number(row.strength), format_number(row.switch), *format_scores(row), row.marks]
        )
    if any(row.settings for row in table.rows):
        header.insert(3, "further settings")
        for cells, row in zip(rows, table.rows, strict=True):
            cells.insert(3, row.settings or "-")
    if not any(row.strength for row in table.rows):
        for cells in (header, *rows):
            del cells[1]
    return header, rows


def format_comparisons(
    compared: Sequence[Comparison], correction: str, unit: str = "query"
) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of one family's comparisons as plain text.

    p and the interval are those of the headline test. If there are several metrics, a column names them. Correlations
    have no column for wins, ties and losses.

    Args:
        compared: comparisons of one family.
        correction: correction of the family.
        unit: unit of the statistics: query or pair.
    """
    rows = [dict(zip(_COMPARISON_HEADER, _format_comparison(c, correction), strict=True)) for c in compared]
    header = list(_COMPARISON_HEADER)
    if len({c.metric for c in compared}) > 1:
        header.insert(2, "metric")
    if unit != "query":
        header.remove("W/T/L")
    for c, row in zip(compared, rows, strict=True):
        row["metric"] = c.metric
    return [adapt_to_unit(name, unit) for name in header], [[row[name] for name in header] for row in rows]


def _format_comparison(c: Comparison, correction: str) -> list[str]:
    queries, seeds = (format_p_value(test.p if (test := c.targets[name]) else None) for name in ("queries", "seeds"))
    return [
        c.system,
        c.baseline,
        f"{c.difference:+.4f}" if c.difference is not None else "incomplete",
        f"[{c.interval[0]:+.4f}, {c.interval[1]:+.4f}]" if c.interval else "-",
        format_p_value(c.p),
        format_p_value(c.adjusted[correction]),
        queries,
        format_p_value(c.adjusted_queries["bonferroni"]),
        seeds,
        "/".join(map(str, c.record)) if c.record else "-",
        f"{c.detectable:.4f}" if c.detectable is not None else "-",
        format_verdict(c),
    ]


def format_verdict(c: Comparison) -> str:
    """Return the verdict with what it is limited to, and the verdict without the worst seeds if that differs.

    It is limited if its test does not generalise to new queries and new seeds.

    Example:
        >>> import numpy as np
        >>> from analysis.stats.comparison import ComparisonFamily, ComparisonSettings, compare_family
        >>> family = ComparisonFamily("f", "toy", "MAP", [("LS", "BERT", np.array([[0.2, 0.1, 0.3, 0.2]]))])
        >>> format_verdict(compare_family(family, ComparisonSettings())[0])
        'better (these runs)'
    """
    return c.scoped_verdict + _format_other_verdict(c)


def _format_other_verdict(c: Comparison) -> str:
    check = c.without_worst_seeds
    if check is None or check.verdict == c.verdict:
        return ""
    return f"; {check.verdict} without seed{'s' * (len(check.removed) > 1)} {' and '.join(map(str, check.removed))}"


def format_legend(table: MainTable) -> str:
    """Describe the marks and numbers of the main table, and the precision of the scores, in one line."""
    test = adapt_to_unit(_TESTS[table.target or "both"], table.unit) + (", seeds pooled" if table.pooled else "")
    return (
        f"Mean ± standard deviation over {_describe_seeds(table)}. Significant gain or loss on {table.splits[1]}: "
        f"{marks.format_marks_legend(table.baselines)} ({test}; {table.correction}, {table.alpha:g})."
        + (f" Candidates: {table.candidates}." if table.candidates else "")
        + (f" Scores computed in {' and '.join(table.scored_in)}." if table.scored_in else "")
    )


def _describe_seeds(table: MainTable) -> str:
    if not table.confirmed:
        return f"{table.seeds} seed{'s' * (table.seeds != 1)}"
    dev, test = table.splits
    kind = f", {table.serving_seeds} of them those of the search," if table.serving_seeds else " fresh ones"
    return f"seeds: {table.search_seeds} of the search on {dev}, {table.seeds}{kind} on {test}"


def format_terminal_table(title: str, header: list[str], rows: list[list[str]], width: int = 174) -> str:
    """Format a table as plain text of at most `width` columns; cells that do not fit are wrapped.

    A title with a comma is written in two lines.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable

    grid = RichTable(title=title, box=box.SIMPLE, title_justify="left", title_style="", collapse_padding=True)
    for name in header:
        grid.add_column(escape_control_characters(name).replace(", ", ",\n"), overflow="fold")
    for row in rows:
        grid.add_row(*map(escape_control_characters, row))
    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None, force_terminal=False, markup=False).print(grid)
    return "\n".join(line.rstrip() for line in stream.getvalue().strip("\n").splitlines())


def format_number(value: float | None) -> str:
    """Format a setting, or a dash."""
    return "-" if value is None else f"{value:.3g}"


def format_scores(row: SystemRow) -> list[str]:
    """Format the scores on the development split and on the test split."""
    return ["incomplete" if value is None and row.note else format_score(value) for value in (row.dev, row.test)]
