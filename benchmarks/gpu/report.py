"""Results of the benchmark: rows of one table, and the same as JSON."""

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Literal, NamedTuple

State = Literal["measured", "passed", "failed", "not measured"]


class Row(NamedTuple):
    """A line of the table.

    Attributes:
        name: thing that was measured or checked.
        state: its outcome.
        values: rates by round, or the one number that was checked.
        unit: unit of the values.
        note: what else a reader must know.
    """

    name: str
    state: State
    values: tuple[float, ...] = ()
    unit: str = ""
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The row for JSON; values have four digits, and one that is no number is None."""
        kept = {key: value for key, value in self._asdict().items() if value not in ("", ())}
        if self.values:
            rounded = [float(f"{value:.4g}") if math.isfinite(value) else None for value in self.values]
            kept |= {"values": rounded, "median": float(f"{median(self.values):.4g}") if None not in rounded else None}
        return kept

    def format_value(self) -> str:
        """The median with the range of the rounds, or the state."""
        if not self.values:
            return self.state
        text = f"{median(self.values):.4g}"
        if len(self.values) > 1:
            text += f" ({min(self.values):.4g}-{max(self.values):.4g})"
        text += f" {self.unit}" if self.unit else ""
        return text if self.state == "measured" else f"{text}, {self.state}"


def measured(name: str, values: Sequence[float], unit: str, note: str = "") -> Row:
    """Rates of all rounds."""
    return Row(name, "measured", tuple(values), unit, note)


def not_measured(name: str, note: str) -> Row:
    """A speed that is not known, and why."""
    return Row(name, "not measured", note=note)


def checked(name: str, value: float, limit: float, note: str = "") -> Row:
    """A number that may be at most `limit`; one that is no number has failed."""
    return Row(name, "passed" if value <= limit else "failed", (value,), "", note or f"at most {limit:g}")


def confirmed(name: str, is_right: bool, note: str = "") -> Row:
    """Something that is so or not."""
    return Row(name, "passed" if is_right else "failed", note=note)


def list_failed(rows: Mapping[str, Sequence[Row]]) -> list[str]:
    """Names of the parts with a failed row."""
    return [name for name, own in rows.items() if any(row.state == "failed" for row in own)]


def format_table(rows: Mapping[str, Sequence[Row]]) -> str:
    """Return one table of all parts; checks that passed are counted in one line for each part."""
    lines = [("part", "what", "result", "note")]
    for part, own in rows.items():
        passed = [row for row in own if row.state == "passed"]
        lines += [(part, f"{len(passed)} checks", "passed", "")] * bool(passed)
        lines += [(part, row.name, row.format_value(), row.note) for row in own if row.state != "passed"]
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    cells = [[*(text.ljust(width) for text, width in zip(line, widths, strict=False)), line[3]] for line in lines]
    return "\n".join(
        f"| {' | '.join(line)} |" for line in [cells[0], [*("-" * width for width in widths), "---"], *cells[1:]]
    )
