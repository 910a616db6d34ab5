"""Stores the counts of texts that splits share, and refuses data whose splits share too many.

The counts are computed from the prepared tables and stored in the same folder, so data prepared by an earlier version
has them too.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainables.data.store import load_or_compute
from trainables.text.text_overlap import Overlap, describe_overlap, get_overlap_size
from trainables.utils.errors import UserError

_FORMAT = 2
"""Part of the stored counts. Increase it when the same tables give different counts."""


def load_overlaps(folder: Path, compute: Callable[[], list[Overlap]]) -> list[Overlap]:
    """Return the counts that are stored with prepared data. Compute and store them if missing or damaged.

    If the folder is not writable, the counts are computed every time.

    Args:
        folder: Folder of the prepared data.
        compute: Computes the counts.
    """
    overlaps: list[Overlap] = load_or_compute(folder / "overlaps.json", _FORMAT, compute)
    return overlaps


def check_overlaps(overlaps: Sequence[Mapping[str, Any]], allowed: float) -> None:
    """Refuse data whose development or test set shares too much with another split.

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
