"""Reads the plan of a study from its folder."""

from pathlib import Path
from typing import Any

from trainables.utils.errors import UserError
from trainables.utils.files import read_json
from trainables.utils.hashing import hash_json

PLAN_FILE = "plan.json"
"""Name of the plan in the folder of a study."""
RESTORE_HINT = "the plan as the study wrote it; restore it from the W&B run with job type plan or from a backup"
"""Expectation of the error for a damaged or missing plan."""


def read_plan(path: Path, where: str = "") -> dict[str, Any]:
    """Read a plan from its file.

    Args:
        path: path of the file.
        where: name of the file in an error. If empty, it is the path.

    Returns:
        The plan, without its hash.

    Raises:
        UserError: if the file is not a plan or does not match its hash.
        FileNotFoundError: if there is no such file.
    """
    try:
        content = read_json(path)
        plan: dict[str, Any] = content["plan"]
        _ = plan["study"], plan["version"], plan["families"]
        actual_hash = hash_json(plan)
        if content.get("hash", actual_hash) != actual_hash:
            raise ValueError("its hash is not that of the plan")
    except (ValueError, KeyError, TypeError) as error:
        problem = str(error) if type(error) is ValueError else "not a plan"
        raise UserError(where or str(path), problem, RESTORE_HINT) from error
    return plan
