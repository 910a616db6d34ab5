"""Keeps the counts of what two splits both contain beside the prepared data, and refuses data with too much of it.

The counts are made from prepared tables, so that data prepared at any time has them.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from trainables.utils.checksums import DamagedError, verify_file, write_with_checksum
from trainables.utils.errors import UserError
from trainables.utils.text_overlap import Overlap, describe_overlap, get_overlap_size

_FORMAT = 1
"""Part of what is kept: raised when the same tables would give other counts."""


def load_overlaps(folder: Path, compute: Callable[[], list[Overlap]]) -> list[Overlap]:
    """Return the counts kept in the folder of some data; where they are missing or damaged, count and keep them.

    A folder that cannot be written keeps nothing: the counts are then made every time.
    """
    path = folder / "overlaps.json"
    with suppress(OSError, DamagedError):
        stored = json.loads(verify_file(path).read_bytes())
        if stored["format"] == _FORMAT:
            found: list[Overlap] = stored["overlaps"]
            return found
    overlaps = compute()
    with suppress(OSError), write_with_checksum(path) as draft:
        draft.write_text(json.dumps({"format": _FORMAT, "overlaps": overlaps}), encoding="utf-8")
    return overlaps


def check_overlaps(overlaps: Sequence[Mapping[str, Any]], allowed: float) -> None:
    """Refuse data whose development or test set shares too much with another split.

    Args:
        overlaps: of the data.
        allowed: largest share of a split that another split may contain.

    Raises:
        UserError: an overlap is larger.
    """
    beyond = [row for row in overlaps if get_overlap_size(row) / row["of"] > allowed]
    if beyond:
        enough = math.ceil(1000 * max(get_overlap_size(row) / row["of"] for row in beyond)) / 1000
        found = f"{allowed:g}, but {'; '.join(map(describe_overlap, beyond))}"
        expected = f"splits that share no {beyond[0]['unit']}, or task.allowed_overlap={enough:g} to go on all the same"
        raise UserError("task.allowed_overlap", found, expected)
