"""Removes files of killed processes, and checks that files can be written."""

import shutil
import time
from contextlib import suppress
from pathlib import Path

from study.config.loader import Study
from trainables.utils.files import make_temporary_path, remove_stale_files, sync_folders
from trainables.utils.hashing import is_hash

_STALE_AFTER_S = 7 * 24 * 3600.0
"""Seconds without a change after which an unfinished preparation of data is removed."""


def clean_up_study(study: Study) -> None:
    """Remove what killed processes left behind in the study's folder and in the cache.

    These are temporary files of dead processes, among them crash reports of trials that were killed with their driver.
    Preparations of data that were stopped and not continued for a week are also removed. What a killed process has
    created and not synced is synced, since nobody would do it later.
    """
    runs = study.folder / "runs"
    sync_folders([study.folder.parent, study.folder, runs, *runs.glob("*")])
    for folder in {study.folder, study.cache_folder}:
        remove_stale_files(folder, recursive=True)
    for preparation in (study.cache_folder / "preparing").glob("*"):
        with suppress(FileNotFoundError):  # another process has just finished it
            if is_hash(preparation.name) and time.time() - preparation.stat().st_mtime > _STALE_AFTER_S:
                shutil.rmtree(preparation, ignore_errors=True)


def clean_up_suite(folder: Path) -> None:
    """Do for the folder of a suite what `clean_up_study` does for those of its studies."""
    sync_folders([folder.parent, folder])
    remove_stale_files(folder)


def check_writable(study: Study) -> None:
    """Check that files can be created in the study's folder and in the cache, before any work is done.

    Raises:
        OSError: a file cannot be created.
    """
    for folder in (study.folder, study.cache_folder):
        nearest = next(path for path in (folder, *folder.parents) if path.is_dir())
        remove_stale_files(nearest)  # what an earlier start has left, if it was killed here
        path = make_temporary_path(nearest / "check")
        try:
            path.touch()
        finally:
            path.unlink(missing_ok=True)
