"""Overlap of splits: the texts that two splits both contain.

A test query that the model was trained on makes its evaluation look too good.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from trainables.text.words import fold_text
from trainables.utils.errors import UserError

_PAIRS = (("train", "dev"), ("train", "test"), ("dev", "test"))
_SPLIT_ADJECTIVES = {"train": "training", "dev": "development", "test": "test"}

Overlap = dict[str, Any]
"""Overlap of an evaluated split with another split, as a row with these keys.

`split` and `other` name the splits. `unit` names the texts in the plural, such as "queries". `of` is the number of
texts in the split; `texts` is how many of them have the same normalised text as one in the other split. `ids`, the
number of shared ids, is present only if both splits have ids.
"""


class SplitTexts(NamedTuple):
    """Distinct queries or sentences of a split."""

    texts: Sequence[str]
    ids: Sequence[str] | None = None
    """Ids of the texts, in the same order; None if the texts have no ids."""


def normalize_text(text: str) -> str:
    r"""Return the text case-folded and composed, with single spaces between words.

    Example:
        >>> normalize_text("  How do I\tsort? ")
        'how do i sort?'
    """
    return " ".join(fold_text(text).split())


def count_overlaps(splits: Mapping[str, SplitTexts], unit: str) -> list[Overlap]:
    """Count the texts that the dev and test splits share with each other and with the training split, if any.

    Example:
        >>> splits = {"train": SplitTexts(["a"]), "dev": SplitTexts(["A", "b"]), "test": SplitTexts(["c"])}
        >>> for row in count_overlaps(splits, "queries"):
        ...     print(describe_overlap(row))
        1 of 2 development queries (50 %) are training queries too
    """
    texts = {name: [normalize_text(text) for text in split.texts] for name, split in splits.items()}
    rows = []
    for other, split in _PAIRS:
        other_texts, ids, other_ids = set(texts[other]), splits[split].ids, splits[other].ids
        row = {"split": split, "other": other, "unit": unit, "of": len(texts[split])}
        row["texts"] = sum(text in other_texts for text in texts[split])
        if ids is not None and other_ids is not None:
            row["ids"] = len({*ids} & {*other_ids})
        if get_overlap_size(row):
            rows.append(row)
    return rows


def describe_overlap(row: Mapping[str, Any]) -> str:
    """Return a one-line description of an overlap."""
    number, unit = get_overlap_size(row), row["unit"]
    split, other = _SPLIT_ADJECTIVES[row["split"]], _SPLIT_ADJECTIVES[row["other"]]
    counts = f" ({row['ids']} by id, {row['texts']} by text)" if "ids" in row else ""
    return f"{number} of {row['of']} {split} {unit} ({100 * number / row['of']:.2g} %) are {other} {unit} too{counts}"


def get_overlap_size(row: Mapping[str, Any]) -> int:
    """Return the number of shared texts: the larger of the counts by text and by id."""
    texts, ids = int(row["texts"]), int(row.get("ids", 0))
    return max(texts, ids)


def check_overlaps(overlaps: Sequence[Mapping[str, Any]], allowed: float) -> None:
    """Refuse data with a development or test set that shares too much with another split.

    Raises:
        UserError: If an overlap is larger. The message contains the smallest value that allows the data.

    Example:
        >>> row = {"split": "test", "other": "train", "unit": "queries", "of": 200, "texts": 4}
        >>> check_overlaps([row], allowed=0.02)
        >>> check_overlaps([row], allowed=0.01)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        trainables.utils.errors.UserError: task.allowed_overlap: 0.01, but ...
    """
    excessive = [row for row in overlaps if get_overlap_size(row) / row["of"] > allowed]
    if excessive:
        enough = math.ceil(1000 * max(get_overlap_size(row) / row["of"] for row in excessive)) / 1000
        problem = f"{allowed:g}, but {'; '.join(map(describe_overlap, excessive))}"
        expected = f"splits that share no {excessive[0]['unit']}, or task.allowed_overlap={enough:g} to continue anyway"
        raise UserError("task.allowed_overlap", problem, expected)
