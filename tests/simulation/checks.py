"""Checks the laws of a study that no fault may break."""

import json
from pathlib import Path
from typing import Any

PLANS = ("plan.json", "suite.json")
"""Files that a study cannot compute again."""
_OWN = ("clock.json", "error.log")
"""Files that differ between two runs of a study."""


class ViolationError(AssertionError):
    """Something that must hold does not."""


def read_results(folder: Path) -> dict[str, bytes]:
    """Return the files of a study that must be the same in every run of it, by name."""
    files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    contents = {name: path.read_bytes() for name, path in files.items() if path.name not in _OWN}
    for name in (name for name, path in files.items() if path.name in PLANS):  # their setup has a date
        document = json.loads(contents[name])
        contents[name] = json.dumps([document["plan"], document["hash"]]).encode()
    return contents


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
    for path in sorted(folder.rglob("runs/*/*")):
        if path.suffix in (".json", ".parquet") and not path.name.startswith("mirrored"):
            copies = [*copy.rglob(f"{path.parent.name}/{path.name}")]
            if len(copies) != 1 or copies[0].read_bytes() != path.read_bytes():
                raise ViolationError(f"not in the copy: {path.relative_to(folder)}")


def check_results(folder: Path, expected: dict[str, bytes], was_damaged: bool) -> None:
    """Check that a study has ended with the results of an undisturbed one, and left nothing else behind.

    Raises:
        ViolationError: it has not.
    """
    found = read_results(folder)
    if was_damaged:
        found = {name: content for name, content in found.items() if not name.endswith(".damaged")}
    if missing := expected.keys() - found.keys():
        raise ViolationError(f"missing: {', '.join(sorted(missing))}")
    if more := found.keys() - expected.keys():
        raise ViolationError(f"left behind: {', '.join(sorted(more))}")
    if different := [name for name, content in expected.items() if found[name] != content]:
        raise ViolationError(f"other content: {', '.join(different)}")
