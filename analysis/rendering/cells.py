"""Cells of the comparisons, and tables as terminal text."""

import io
from collections.abc import Sequence

from analysis.stats.comparison import Comparison
from records.plan import adapt_to_unit
from trainables.utils.cli import escape_control_characters

QUERIES_BONFERRONI = "p (queries), Bonferroni"
"""Column with the test of Penha and Hauff (2021)."""
_COMPARISON_HEADER = [
    "system", "baseline", "metric", "difference", "interval", "p", "corrected p", "p (queries)", QUERIES_BONFERRONI,
    "p (seeds)", "W/T/L", "MDE", "verdict",
]  # fmt: skip


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
    left_out = {*([] if len({c.metric for c in compared}) > 1 else ["metric"]), *([] if unit == "query" else ["W/T/L"])}
    shown = [index for index, name in enumerate(_COMPARISON_HEADER) if name not in left_out]
    rows = [_format_comparison(c, correction) for c in compared]
    header = [adapt_to_unit(_COMPARISON_HEADER[index], unit) for index in shown]
    return header, [[row[index] for index in shown] for row in rows]


def _format_comparison(c: Comparison, correction: str) -> list[str]:
    queries, seeds = (format_p_value(test.p if (test := c.targets[name]) else None) for name in ("queries", "seeds"))
    return [
        c.system,
        c.baseline,
        c.metric,
        f"{c.difference:+.4f}" if c.difference is not None else "incomplete",
        format_interval(c.interval),
        format_p_value(c.p),
        format_p_value(c.adjusted[correction]),
        queries,
        format_p_value(c.adjusted_queries["bonferroni"]),
        seeds,
        "/".join(map(str, c.wins_ties_losses)) if c.wins_ties_losses else "-",
        f"{c.detectable:.4f}" if c.detectable is not None else "-",
        c.scoped_verdict,
    ]


def format_p_value(p: float | None) -> str:
    """Format with four decimals, or a dash if there is no test."""
    return "-" if p is None else "<.0001" if p < 0.0001 else f"{p:.4f}"


def format_interval(interval: tuple[float, float] | None) -> str:
    """Format with four decimals, or a dash if there is no interval."""
    return f"[{interval[0]:+.4f}, {interval[1]:+.4f}]" if interval else "-"


def format_terminal_table(header: list[str], rows: list[list[str]], width: int = 174) -> str:
    """Format a table as plain text of at most `width` columns; cells that do not fit are wrapped.

    A title of a column with a comma is written in two lines.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    grid = Table(box=box.SIMPLE, collapse_padding=True)
    for name in header:
        grid.add_column(escape_control_characters(name).replace(", ", ",\n"), overflow="fold")
    for row in rows:
        grid.add_row(*map(escape_control_characters, row))
    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None, force_terminal=False, markup=False).print(grid)
    return "\n".join(line.rstrip() for line in stream.getvalue().strip("\n").splitlines())
