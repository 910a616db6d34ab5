"""Reads the plan of a study or of a suite from its folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from trainables.utils.errors import UserError
from trainables.utils.files import read_json
from trainables.utils.hashing import hash_json

PLAN_FILE = "plan.json"
"""Name of the plan in the folder of a study."""
STUDY_FILE = "study.toml"
"""Name of the copy of the study as it was run, in the folder of a study."""
SUITE_FILE = "suite.json"
"""Name of the plan of a suite, in the folder of the suite and in that of each of its studies."""
CLOCK_FILE = "clock.json"
"""Name of the file in the folder of a study with the seconds of its starts."""
SETUP_KEY = "setup"
"""Key of the setup next to the plan: in plan.json, and in the configuration of the W&B run that holds the plan."""
RESTORE_HINT = "the plan as the study wrote it; restore it from the W&B run with job type plan or from a backup"
"""Expectation of the error for a damaged or missing plan."""


class Setup(BaseModel, frozen=True):
    """Names, date and code of a study's start, for people. No part of the plan, and no result depends on them."""

    model: str
    """Name of the model: a hub id, a folder of an installed package, or the last name of a folder."""
    data: str
    """Task, and the last names of the files and folders that it is read from."""
    date: str
    """Day in UTC on which this version of the plan was written, such as 2026-07-31."""
    commit: str | None = None
    """Commit of the code, with a plus sign if tracked files differed. If None, the code was no repository."""


class StoredPlan(NamedTuple):
    """Content of a file with a plan.

    Attributes:
        document: the plan: `records.plan.Plan`, or `records.suite_plan.SuitePlan` of a suite.
        hash: hash of the document.
        setup: what the plan was made with (see `Setup`); None for a plan without it.
    """

    document: dict[str, Any]
    hash: str
    setup: dict[str, Any] | None = None


def read_plan(path: Path, where: str = "") -> StoredPlan:
    """Return the plan of a study.

    Args:
        path: path of the file.
        where: name of the file in an error. If empty, it is the path.

    Raises:
        UserError: if there is no such file, it is not a plan, or it does not match its hash.
    """
    return _read_document(path, ("study", "families"), where or str(path))


def read_suite_plan(path: Path) -> StoredPlan:
    """Return the plan of a suite. It raises what `read_plan` does."""
    return _read_document(path, ("suite", "studies"), str(path))


def _read_document(path: Path, keys: Sequence[str], where: str) -> StoredPlan:
    try:
        content = read_json(path)
        plan: dict[str, Any] = content["plan"]
        _ = [plan[key] for key in keys]
        plan_hash = hash_json(plan)
        if content.get("hash", plan_hash) != plan_hash:
            raise ValueError("its hash is not that of the plan")
        return StoredPlan(plan, plan_hash, content.get(SETUP_KEY))
    except FileNotFoundError as error:
        raise UserError(where, "no such file", RESTORE_HINT) from error
    except (ValueError, KeyError, TypeError) as error:
        problem = str(error) if type(error) is ValueError else "not a plan"
        raise UserError(where, problem, RESTORE_HINT) from error
