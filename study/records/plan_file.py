"""Reads the plan of a study from its folder."""

from pathlib import Path
from typing import Any

from trainables.utils.errors import UserError
from trainables.utils.files import read_json
from trainables.utils.hashing import hash_json

PLAN_FILE = "plan.json"
"""In the study's folder."""
RESTORE_HINT = "the plan as the study wrote it; W&B's run of job type plan has a copy, as has any backup"
"""What an error tells a user to bring back where a plan is damaged or missing."""


def read_plan(path: Path, where: str = "") -> dict[str, Any]:
    """A plan that was written down.

    Args:
        path: of the file.
        where: what an error calls it; none: its path.

    Raises:
        UserError: it is none.
    """
    try:
        stored = read_json(path)
        plan: dict[str, Any] = stored["plan"]
        _ = plan["study"], plan["version"], plan["families"]
        known = hash_json(plan)
        if stored.get("hash", known) != known:
            raise ValueError("its hash is not the plan's")
    except (ValueError, KeyError, TypeError) as error:
        found = str(error) if type(error) is ValueError else "not a plan"
        raise UserError(where or str(path), found, RESTORE_HINT) from error
    return plan
