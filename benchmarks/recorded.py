"""Ratios that were measured before, by the kind of processor, and what fell since.

`recorded_ratios.json` has the last three recorded measurements of each kind of processor; git keeps the earlier ones.
Several are needed, since the same code differs more from one process to the next than from round to round.
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
_LARGEST_FALL, _KEPT = 0.1, 3
_PACKAGES = ("torch", "transformers", "sentence-transformers")


def summarize(ratios: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """Median, lowest and highest of the rounds, by name."""
    return {
        name: {"median": round(median(own), 3), "lowest": round(min(own), 3), "highest": round(max(own), 3)}
        for name, own in ratios.items()
    }


def make_entry(ratios: Mapping[str, Sequence[float]], shares: Mapping[str, float], threads: int) -> dict[str, Any]:
    """Return what is recorded: the ratios, the shares of the matmul peak, and what they belong to."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _read_commit(),
        "threads": threads,
        "versions": {name: version(name) for name in _PACKAGES},
        "ratios": summarize(ratios),
        "shares_of_peak": {name: round(share, 3) for name, share in shares.items()},
    }


def read_entries(file: Path = FILE) -> dict[str, list[Any]]:
    """Entries by kind of processor, the newest last; none if nothing was recorded."""
    entries: dict[str, list[Any]] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    return entries


def record(processor: str, entry: dict[str, Any], file: Path = FILE) -> None:
    """Adds an entry to those of a kind of processor, in the place of the oldest if there are three."""
    entries = read_entries(file)
    entries[processor] = [*entries.get(processor, []), entry][-_KEPT:]
    with write_atomically(file) as temporary:
        temporary.write_text(json.dumps(entries, indent=1, sort_keys=True) + "\n", "utf-8")


def compare(entry: dict[str, Any], before: Sequence[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Lines on the ratios next to the median of those recorded, and the names of those that fell by more than a tenth.

    A ratio with a round as high as a recorded one has not fallen; its line says that the rounds overlap.
    """
    lines, fallen = list[str](), list[str]()
    for name, found in entry["ratios"].items():
        line = f"{name:52} {found['median']:6.2f} ({found['lowest']:.2f}-{found['highest']:.2f})"
        if known := [own["ratios"][name] for own in before if name in own["ratios"]]:
            recorded = median(own["median"] for own in known)
            change = found["median"] / recorded
            line += f"   recorded {recorded:6.2f}   {change - 1:+.0%}"
            if change < 1 - _LARGEST_FALL:
                if found["highest"] < min(own["lowest"] for own in known):
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
