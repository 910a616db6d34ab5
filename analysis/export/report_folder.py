"""Puts the files of a report into the folder that a user names."""

import os
from collections.abc import Collection
from pathlib import Path

from trainables.utils.files import check_outputs, read_head

PAGE = "report.html"
"""The page of a report, by which its folder is known as that of a report."""
_PLANS = ("plan.json", "suite.json")
"""Files by which the folder of a study or of a suite is known."""
_POLICY = 'http-equiv="Content-Security-Policy" content="default-src \'none\''


def move_report(staging: Path, folder: Path, outdated: Collection[str] = ()) -> None:
    """Move the files of a report into a folder, the page first, and remove what an earlier report left there.

    Args:
        staging: folder with the files, `PAGE` among them.
        folder: folder of the report.
        outdated: names of files that only an earlier report may have.

    Raises:
        UserError: if the folder has no report, but a file of one of these names, and is not `report` in the folder of
            a study or suite.
    """
    names = sorted((path.name for path in staging.iterdir()), key=lambda name: (name != PAGE, name))
    check_outputs(str(folder), [folder / name for name in (*names, *outdated)], _is_in_report)
    for name in names:
        os.replace(staging / name, folder / name)
    for name in outdated:
        (folder / name).unlink(missing_ok=True)


def _is_in_report(path: Path) -> bool:
    folder, page = path.absolute().parent, path.with_name(PAGE)
    if folder.name == "report" and any((folder.parent / plan).is_file() for plan in _PLANS):
        return True
    return page.is_file() and _POLICY in read_head(page)
