"""Checks the laws of a study that no fault may break."""

import json
import os
import re
from pathlib import Path
from typing import Any

from records.run_record import SPLITS, list_record_files

PLANS = ("plan.json", "suite.json")
"""Files that a study cannot compute again."""
_OWN = ("clock.json", "error.log")
"""Files that differ between two runs of a study."""
_HISTORY = ("version", "replaces", "exploratory")
"""Entries of a plan that depend on those before it."""
_DOCUMENT = re.compile(r"/\.?(?:plan|search|queries|report)-([0-9a-f]{16})")
"""Names of the documents of a study, each with the hash of a plan."""


class ViolationError(AssertionError):
    """Something that must hold does not."""


def list_files(folder: Path) -> dict[str, Path]:
    """Return the files below a folder by their names in it, in the order of these."""
    paths = (Path(parent, name) for parent, _, names in os.walk(folder) for name in names)
    return dict(sorted((path.relative_to(folder).as_posix(), path) for path in paths))


def read_results(folder: Path) -> dict[str, bytes]:
    """Return the files of a study that must be the same in every run of it, by name."""
    files = list_files(folder)
    contents = {name: path.read_bytes() for name, path in files.items() if path.name not in _OWN}
    for name in (name for name, path in files.items() if path.name in PLANS):  # their setup has a date
        document = json.loads(contents[name])
        contents[name] = json.dumps([document["plan"], document["hash"]]).encode()
    return contents


def get_plan_hash(results: dict[str, bytes]) -> str:
    """Return the hash of the plan in force."""
    return str(json.loads(results["plan.json"])[1])


def forget_plan(results: dict[str, Any], plan: str) -> dict[str, Any]:
    """Return files or runs of W&B, by name, without the documents of other plans and what tells when a plan was made.

    Args:
        results: the files or the runs.
        plan: hash of the plan in force.
    """
    documents = {name: match[1] for name in results if (match := _DOCUMENT.search(name))}
    kept = {name: content for name, content in results.items() if documents.get(name, plan) == plan}
    return {name.replace(plan, "PLAN"): _forget_plan(name, content) for name, content in kept.items()}


def _forget_plan(name: str, content: Any) -> Any:
    if not isinstance(content, bytes):
        return content
    if name == "plan.json":
        plan, _ = json.loads(content)
        return json.dumps({key: value for key, value in plan.items() if key not in _HISTORY}).encode()
    if re.fullmatch(r"(runs/.*(record|test)|wandb/.*)\.json", name):
        try:
            document = json.loads(content)
        except ValueError:  # damaged, of another plan
            return content
        document.pop("sha256")
        document.pop("/tiny", None)  # the hash of what the project `tiny` of W&B has
        document.get("config", {}).pop("plan_hash", None)
        return json.dumps(document).encode()
    return content


def check_stopped_search(results: dict[str, bytes], unlimited: dict[str, bytes]) -> None:
    """Check that a search which a budget has stopped is the beginning of one without a budget.

    Raises:
        ViolationError: it is not.
    """
    for name, search in json.loads(results["search.json"])["systems"].items():
        whole = json.loads(unlimited["search.json"])["systems"][name]
        ids, others = ([row["configuration_id"] for row in it["proposals"]] for it in (search, whole))
        if ids != others[: len(ids)]:
            raise ViolationError(f"{name}: other proposals than without a budget")
        if (search["stopped"] is None) != (len(ids) == search["wanted"]):
            raise ViolationError(f"{name}: {len(ids)} of {search['wanted']} proposals, stopped: {search['stopped']}")
        if unfinished := [row["configuration_id"] for row in search["proposals"] if row["state"] == "unknown"]:
            raise ViolationError(f"{name}: without results: {', '.join(unfinished)}")
    found, expected = (forget_plan(each, get_plan_hash(each)) for each in (results, unlimited))
    if different := [
        name for name in found.keys() & expected.keys() if name.startswith("runs/") and found[name] != expected[name]
    ]:
        raise ViolationError(f"other content: {', '.join(sorted(different))}")


def check_runs(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Check that W&B has each run once, with what an undisturbed study has.

    Raises:
        ViolationError: it has not.
    """
    if missing := expected.keys() ^ found.keys():
        raise ViolationError(f"runs of W&B that are missing or too many: {', '.join(sorted(missing))}")
    if different := [name for name, content in expected.items() if found[name] != content]:
        raise ViolationError(f"runs of W&B with other content: {', '.join(different)}")


def check_copy(copy: Path, folder: Path) -> None:
    """Check that the copy of a study has its evaluations.

    Raises:
        ViolationError: it has not.
    """
    for run in sorted(folder.rglob("runs/*")):
        for names in (list_record_files(split) for split in SPLITS):
            for path in (run / name for name in names if (run / names[-1]).is_file() and (run / name).is_file()):
                copies = [*copy.rglob(f"{run.name}/{path.name}")]
                if len(copies) != 1 or copies[0].read_bytes() != path.read_bytes():
                    raise ViolationError(f"not in the copy: {path.relative_to(folder)}")


def check_results(found: dict[str, bytes], expected: dict[str, bytes], was_damaged: bool) -> None:
    """Check that a study has ended with the results of an undisturbed one, and left nothing else behind.

    Raises:
        ViolationError: it has not.
    """
    if was_damaged:
        found = {name: content for name, content in found.items() if not name.endswith(".damaged")}
    if missing := expected.keys() - found.keys():
        raise ViolationError(f"missing: {', '.join(sorted(missing))}")
    if more := found.keys() - expected.keys():
        raise ViolationError(f"left behind: {', '.join(sorted(more))}")
    if different := [name for name, content in expected.items() if found[name] != content]:
        raise ViolationError(f"other content: {', '.join(different)}")
