"""Offline files of W&B in the study's folder, which is the working directory.

A run is one folder of files. Its test evaluation is another one, without the learning curve: `wandb sync` appends to a
run on the server the rows of every folder that it has not seen.
"""

import os
import shutil
import time
from pathlib import Path

from analysis.readers.wandb_offline import is_complete

WANDB_FOLDER = Path("wandb")
_SCORES_FOLDER = WANDB_FOLDER / "scores"
_FINISH_TIMEOUT_S = 90.0
"""Seconds that the last record of a run has to reach the disk."""


def link_artifact_file(path: Path, name: str) -> Path:
    """Link a file into W&B's folder under a new name and return its path.

    W&B's folder can then be moved or uploaded without the run records.
    """
    _SCORES_FOLDER.mkdir(parents=True, exist_ok=True)
    target = _SCORES_FOLDER / name
    target.unlink(missing_ok=True)
    try:
        os.link(path, target)
    except OSError:  # the file system has no links
        shutil.copyfile(path, target)
    return target


def remove_run_files(run_id: str) -> None:
    """Remove the files of a run: of an incomplete or failed upload, or of an older version of a document."""
    for run_folder in _list_run_folders(run_id):
        shutil.rmtree(run_folder)


def make_links_relative(folder: Path) -> None:
    """Make the links of the W&B client relative.

    The client links its log by an absolute path. This path contains the user's name, and it breaks when the study is
    moved.
    """
    for link in folder.rglob("*"):
        if link.is_symlink() and os.path.isabs(target := os.readlink(link)):
            draft = link.with_name(f".{link.name}.link")
            draft.symlink_to(os.path.relpath(target, link.parent.absolute()))
            draft.replace(link)


def touch_synced_files(run_id: str) -> None:
    """Mark the files of a run as synced, as `wandb sync` itself does."""
    for run_folder in _list_run_folders(run_id):
        (run_folder / f"run-{run_id}.wandb.synced").touch()


def wait_until_written(file: Path) -> None:
    """Wait for the last records of a run: `finish` returns before the client's service writes them.

    Raises:
        TimeoutError: the records are not written in time.
    """
    deadline = time.monotonic() + _FINISH_TIMEOUT_S
    while not (file.is_file() and is_complete(file)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{file}: wandb did not write the end of the run within {_FINISH_TIMEOUT_S:.0f} s")
        time.sleep(0.01)


def _list_run_folders(run_id: str) -> list[Path]:
    return sorted(WANDB_FOLDER.glob(f"offline-run-*-{run_id}*"))
