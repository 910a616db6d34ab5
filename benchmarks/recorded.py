"""Ratios that were measured before, by the kind of processor, and what fell since.

`recorded_ratios.json` has the last recorded measurement of each kind of processor; git keeps the earlier ones.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from trainables.utils.files import write_atomically

FILE = Path(__file__).with_name("recorded_ratios.json")
_LARGEST_FALL = 0.1
_PACKAGES = ("torch", "transformers", "sentence-transformers")


def summarize(ratios: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """Median, lowest and highest of the rounds, by name."""
    return {
        name: {"median": round(median(own), 3), "lowest": round(min(own), 3), "highest": round(max(own), 3)}
        for name, own in ratios.items()
    }


def make_entry(ratios: Mapping[str, Sequence[float]], shares: Mapping[str, float], threads: int) -> dict[str, Any]:
    """What is recorded: the ratios, the shares of the matmul peak, and what they belong to."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _read_commit(),
        "threads": threads,
        "versions": {name: version(name) for name in _PACKAGES},
        "ratios": summarize(ratios),
        "shares_of_peak": {name: round(share, 3) for name, share in shares.items()},
    }


def read_entries(file: Path = FILE) -> dict[str, Any]:
    """Entries by kind of processor; none if nothing was recorded."""
    entries: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    return entries


def record(processor: str, entry: dict[str, Any], file: Path = FILE) -> None:
    """Replaces the entry of a kind of processor."""
    entries = read_entries(file) | {processor: entry}
    with write_atomically(file) as temporary:
        temporary.write_text(json.dumps(entries, indent=1, sort_keys=True) + "\n", "utf-8")


def compare(entry: dict[str, Any], before: dict[str, Any] | None) -> tuple[list[str], list[str]]:
    """Lines on the ratios beside those recorded before, and the names of the ones that fell by more than a tenth.

    A ratio whose rounds overlap with the recorded ones has not fallen: on a shared machine medians of the same code
    differ by a tenth. Its line says so.
    """
    known = before["ratios"] if before else {}
    lines, fallen = list[str](), list[str]()
    for name, found in entry["ratios"].items():
        line = f"{name:52} {found['median']:6.2f} ({found['lowest']:.2f}-{found['highest']:.2f})"
        if name in known:
            change = found["median"] / known[name]["median"]
            line += f"   recorded {known[name]['median']:6.2f}   {change - 1:+.0%}"
            if change < 1 - _LARGEST_FALL:
                if found["highest"] < known[name]["lowest"]:
                    fallen.append(name)
                else:
                    line += ", but the rounds overlap"
        lines.append(line)
    return lines, fallen


def _read_commit() -> str | None:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude", "*"], cwd=FILE.parent, capture_output=True, text=True
    )
    return done.stdout.strip() or None
