"""Counts the texts that two splits both contain: a query that training has seen makes its evaluation look too good."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

_PAIRS = (("train", "dev"), ("train", "test"), ("dev", "test"))
_SPLIT_ADJECTIVES = {"train": "training", "dev": "development", "test": "test"}

Overlap = dict[str, Any]
"""What an evaluated split shares with another: `split`, `other`, `unit` (what is counted, in the plural), `of` (how
many the split has), `texts` (how many of them have the normalised text of one of the other split), and `ids`."""


class SplitTexts(NamedTuple):
    """Queries or sentences of a split, each once."""

    texts: Sequence[str]
    ids: Sequence[str] | None = None
    """In the same order; None: they have none."""


def normalize_text(text: str) -> str:
    """Return the text without differences of case and of white space."""
    return " ".join(text.casefold().split())


def count_overlaps(splits: Mapping[str, SplitTexts], unit: str) -> list[Overlap]:
    """Count what the development and test sets share with each other and with training; a row where there is any."""
    texts = {split: [normalize_text(text) for text in own.texts] for split, own in splits.items()}
    rows = []
    for other, split in _PAIRS:
        known, mine, theirs = set(texts[other]), splits[split].ids, splits[other].ids
        row = {"split": split, "other": other, "unit": unit, "of": len(texts[split])}
        row["texts"] = sum(text in known for text in texts[split])
        if mine is not None and theirs is not None:
            row["ids"] = len({*mine} & {*theirs})
        if get_overlap_size(row):
            rows.append(row)
    return rows


def describe_overlap(row: Mapping[str, Any]) -> str:
    """Return a line about an overlap, for people."""
    number, unit = get_overlap_size(row), row["unit"]
    split, other = _SPLIT_ADJECTIVES[row["split"]], _SPLIT_ADJECTIVES[row["other"]]
    how = f" ({row['ids']} by id, {row['texts']} by text)" if "ids" in row else ""
    return f"{number} of {row['of']} {split} {unit} ({100 * number / row['of']:.2g} %) are {other} {unit} too{how}"


def get_overlap_size(row: Mapping[str, Any]) -> int:
    """Return how many texts of a split the other one contains, by text or by id, whichever are more."""
    texts, ids = int(row["texts"]), int(row.get("ids", 0))
    return max(texts, ids)
