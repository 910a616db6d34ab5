"""Counts of what several splits contain: a query that training has seen makes its evaluation look too good.

The counts are made from prepared tables, so that data prepared at any time has them, and are kept beside those tables.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from trainables.checksums import DamagedError, checked_file, verified
from trainables.errors import UserError

_FORMAT = 1
"""Part of what is kept: raised when the same tables would give other counts."""
_PAIRS = (("train", "dev"), ("train", "test"), ("dev", "test"))
_ADJECTIVES = {"train": "training", "dev": "development", "test": "test"}

Overlap = dict[str, Any]
"""What an evaluated split shares with another: `split`, `other`, `unit` (what is counted, in the plural), `of` (how
many the split has), `texts` (how many of them have the normalised text of one of the other split), and `ids`."""


class Texts(NamedTuple):
    """Queries or sentences of a split, each once."""

    texts: Sequence[str]
    ids: Sequence[str] | None = None
    """In the same order; None: they have none."""


def normalise(text: str) -> str:
    """Return the text without differences of case and of white space."""
    return " ".join(text.casefold().split())


def count_overlaps(splits: Mapping[str, Texts], unit: str) -> list[Overlap]:
    """Count what the development and test sets share with each other and with training; a row where there is any."""
    texts = {split: [normalise(text) for text in own.texts] for split, own in splits.items()}
    rows = []
    for other, split in _PAIRS:
        known, mine, theirs = set(texts[other]), splits[split].ids, splits[other].ids
        row = {"split": split, "other": other, "unit": unit, "of": len(texts[split])}
        row["texts"] = sum(text in known for text in texts[split])
        if mine is not None and theirs is not None:
            row["ids"] = len({*mine} & {*theirs})
        if _largest(row):
            rows.append(row)
    return rows


def load_overlaps(folder: Path, count: Callable[[], list[Overlap]]) -> list[Overlap]:
    """Return the counts kept in the folder of some data; where they are missing or damaged, count and keep them.

    A folder that cannot be written keeps nothing: the counts are then made every time.
    """
    path = folder / "overlaps.json"
    with suppress(OSError, DamagedError):
        stored = json.loads(verified(path).read_bytes())
        if stored["format"] == _FORMAT:
            found: list[Overlap] = stored["overlaps"]
            return found
    made = count()
    with suppress(OSError), checked_file(path) as draft:
        draft.write_text(json.dumps({"format": _FORMAT, "overlaps": made}), encoding="utf-8")
    return made


def describe_overlap(row: Mapping[str, Any]) -> str:
    """Return a line about an overlap, for people."""
    number, unit = _largest(row), row["unit"]
    split, other = _ADJECTIVES[row["split"]], _ADJECTIVES[row["other"]]
    how = f" ({row['ids']} by id, {row['texts']} by text)" if "ids" in row else ""
    return f"{number} of {row['of']} {split} {unit} ({100 * number / row['of']:.2g} %) are {other} {unit} too{how}"


def refuse_overlaps(overlaps: Sequence[Mapping[str, Any]], allowed: float) -> None:
    """Refuse data whose development or test set shares too much with another split.

    Args:
        overlaps: of the data.
        allowed: largest share of a split that another split may contain.

    Raises:
        UserError: an overlap is larger.
    """
    beyond = [row for row in overlaps if _largest(row) / row["of"] > allowed]
    if beyond:
        enough = math.ceil(1000 * max(_largest(row) / row["of"] for row in beyond)) / 1000
        found = f"{allowed:g}, but {'; '.join(map(describe_overlap, beyond))}"
        expected = f"splits that share no {beyond[0]['unit']}, or task.allowed_overlap={enough:g} to go on all the same"
        raise UserError("task.allowed_overlap", found, expected)


def _largest(row: Mapping[str, Any]) -> int:
    texts, ids = int(row["texts"]), int(row.get("ids", 0))
    return max(texts, ids)
