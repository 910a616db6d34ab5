"""Puts the files of a report into the folder that a user names."""

import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from trainables.utils.errors import UserError
from trainables.utils.files import check_outputs, make_temporary_path, read_head, remove_stale_files

PAGE = "report.html"
"""The page of a report, by which its folder is known as that of a report."""
_PLANS = ("plan.json", "suite.json")
"""Files by which the folder of a study or of a suite is known."""
_POLICY = 'http-equiv="Content-Security-Policy" content="default-src \'none\''


@contextmanager
def stage_report(folder: Path, optional: Collection[str] = ()) -> Iterator[Path]:
    """Create a folder for the files of a report, `PAGE` among them, and move them to their own folder at the end.

    Args:
        folder: folder of the report; it is created.
        optional: names of files that an earlier report may have left there; they are removed.

    Yields:
        The folder to write the files to.

    Raises:
        UserError: if a file is in the place of the folder, or the folder has no report, but a file of one of these
            names, and is not `report` in the folder of a study or suite.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise UserError(str(folder), error.strerror, "a folder to write to") from error
    remove_stale_files(folder)  # of a report that was killed
    staging = make_temporary_path(folder / "report")
    staging.mkdir()
    try:
        yield staging
        names = sorted((path.name for path in staging.iterdir()), key=lambda name: (name != PAGE, name))
        outdated = {*optional} - {*names}
        check_outputs(str(folder), [folder / name for name in (*names, *outdated)], _is_in_report)
        for name in names:  # the page first
            os.replace(staging / name, folder / name)
        for name in outdated:
            (folder / name).unlink(missing_ok=True)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _is_in_report(path: Path) -> bool:
    folder, page = path.absolute().parent, path.with_name(PAGE)
    if folder.name == "report" and any((folder.parent / plan).is_file() for plan in _PLANS):
        return True
    return page.is_file() and _POLICY in read_head(page)
