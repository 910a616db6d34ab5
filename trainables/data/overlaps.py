"""Keeps the counts of what two splits both contain beside the prepared data, and refuses data with too much of it.

The counts are made from prepared tables, so that data prepared at any time has them.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from trainables.utils.checksums import DamagedError, checked_file, verified
from trainables.utils.errors import UserError
from trainables.utils.text_overlap import Overlap, describe_overlap, largest_count

_FORMAT = 1
"""Part of what is kept: raised when the same tables would give other counts."""
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


def refuse_overlaps(overlaps: Sequence[Mapping[str, Any]], allowed: float) -> None:
    """Refuse data whose development or test set shares too much with another split.

    Args:
        overlaps: of the data.
        allowed: largest share of a split that another split may contain.

    Raises:
        UserError: an overlap is larger.
    """
    beyond = [row for row in overlaps if largest_count(row) / row["of"] > allowed]
    if beyond:
        enough = math.ceil(1000 * max(largest_count(row) / row["of"] for row in beyond)) / 1000
        found = f"{allowed:g}, but {'; '.join(map(describe_overlap, beyond))}"
        expected = f"splits that share no {beyond[0]['unit']}, or task.allowed_overlap={enough:g} to go on all the same"
        raise UserError("task.allowed_overlap", found, expected)
