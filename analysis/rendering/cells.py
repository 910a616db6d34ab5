"""Cells of the comparisons, and tables as terminal text."""

import io
from collections.abc import Sequence

from analysis.stats.comparison import Comparison, Target
from analysis.tables.section import find_numeric_columns
from records.plan import adapt_to_unit
from trainables.utils.cli import escape_control_characters

QUERIES_BONFERRONI = "p (queries), Bonferroni"
"""Column with the test of Penha and Hauff (2021)."""


def format_comparisons(compared: Sequence[Comparison], correction: str) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of one family's comparisons as plain text; the metric is a column if there are several."""
    header = ["system", "baseline", "metric", "difference", "interval", "corrected p", "verdict"]
    rows = [
        [c.system, c.baseline, c.metric, f"{c.difference:+.4f}" if c.difference is not None else "incomplete",
         format_interval(c.interval), format_p_value(c.adjusted[correction]),
         c.scoped_verdict + (f", on {c.split}" if c.split and c.is_decided else "")]
        for c in compared
    ]  # fmt: skip
    return _drop_single_metric(header, rows)


def format_tests(compared: Sequence[Comparison], unit: str = "query") -> tuple[list[str], list[list[str]]]:
    """Return header and rows of every test of all families' comparisons, without their verdicts.

    Correlations have no column for wins, ties and losses.
    """
    header = ["family", "system", "baseline", "metric", "p", "p (queries)", QUERIES_BONFERRONI, "p (seeds)",
              "p (classical)", "MDE", "W/T/L"]  # fmt: skip
    rows = [
        [c.family, c.system, c.baseline, c.metric,
         *map(format_p_value, (c.p, _get_p(c, "queries"), c.adjusted_queries["bonferroni"], _get_p(c, "seeds"),
                               c.classical)),
         f"{c.detectable:.4f}" if c.detectable is not None else "-",
         "/".join(f"{count:,}" for count in c.wins_ties_losses) if c.wins_ties_losses else "-"]
        for c in compared
    ]  # fmt: skip
    if unit != "query":
        header, *rows = [row[:-1] for row in (header, *rows)]
    return _drop_single_metric([adapt_to_unit(name, unit) for name in header], rows)


def _get_p(c: Comparison, target: Target) -> float | None:
    test = c.targets[target]
    return test.p if test else None


def _drop_single_metric(header: list[str], rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Remove the column of the metric if it is the same in all rows."""
    place = header.index("metric")
    if len({row[place] for row in rows}) < 2:
        header, *rows = [row[:place] + row[place + 1 :] for row in (header, *rows)]
    return header, rows


def format_p_value(p: float | None) -> str:
    """Format with four decimals, or a dash if there is no test."""
    return "-" if p is None else "<.0001" if p < 0.0001 else f"{p:.4f}"


def format_interval(interval: tuple[float, float] | None, sign: str = "+") -> str:
    """Format with four decimals, or a dash if there is no interval.

    Args:
        interval: the bounds.
        sign: sign option of the number format: "+" for differences, "" for scores.
    """
    return f"[{interval[0]:{sign}.4f}, {interval[1]:{sign}.4f}]" if interval else "-"


def format_terminal_table(header: list[str], rows: list[list[str]], width: int = 174) -> str:
    """Format a table as plain text of at most `width` columns; cells that do not fit are wrapped.

    A title of a column with a comma is written in two lines. Columns of numbers are set to the right.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    grid, numeric = Table(box=box.SIMPLE, collapse_padding=True), find_numeric_columns(len(header), rows)
    for index, name in enumerate(header):
        title = escape_control_characters(name).replace(", ", ",\n")
        grid.add_column(title, overflow="fold", justify="right" if index in numeric else "left")
    for row in rows:
        grid.add_row(*map(escape_control_characters, row))
    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None, force_terminal=False, markup=False).print(grid)
    return "\n".join(line.rstrip() for line in stream.getvalue().strip("\n").splitlines())
