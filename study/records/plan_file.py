"""Reads the plan of a study or of a suite from its folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.data.results import SETUP_KEY
from trainables.utils.errors import UserError
from trainables.utils.files import read_json
from trainables.utils.hashing import hash_json

PLAN_FILE = "plan.json"
"""Name of the plan in the folder of a study."""
STUDY_FILE = "study.toml"
"""Name of the copy of the study as it was run, in the folder of a study."""
SUITE_FILE = "suite.json"
"""Name of the plan of a suite, in the folder of the suite and in that of each of its studies."""
RESTORE_HINT = "the plan as the study wrote it; restore it from the W&B run with job type plan or from a backup"
"""Expectation of the error for a damaged or missing plan."""


def read_plan(path: Path, where: str = "") -> dict[str, Any]:
    """Return the plan in a file, without its hash.

    Args:
        path: path of the file.
        where: name of the file in an error. If empty, it is the path.

    Raises:
        UserError: if the file is not a plan or does not match its hash.
        FileNotFoundError: if there is no such file.
    """
    return _read_document(path, ("study", "version", "families"), where or str(path))


def read_suite_plan(path: Path) -> dict[str, Any]:
    """Return the plan of a suite in a file. It raises what `read_plan` does."""
    return _read_document(path, ("suite", "version", "studies"), str(path))


def read_setup(path: Path) -> dict[str, Any] | None:
    """Return what `study.records.provenance.describe_setup` wrote next to a plan, or None for a plan without it."""
    setup: dict[str, Any] | None = read_json(path).get(SETUP_KEY)
    return setup


def _read_document(path: Path, keys: Sequence[str], where: str) -> dict[str, Any]:
    try:
        content = read_json(path)
        plan: dict[str, Any] = content["plan"]
        _ = [plan[key] for key in keys]
        actual_hash = hash_json(plan)
        if content.get("hash", actual_hash) != actual_hash:
            raise ValueError("its hash is not that of the plan")
    except (ValueError, KeyError, TypeError) as error:
        problem = str(error) if type(error) is ValueError else "not a plan"
        raise UserError(where, problem, RESTORE_HINT) from error
    return plan
