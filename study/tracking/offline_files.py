"""W&B's offline files below the study's folder, which is the working folder.

A run is one folder of files, and its test evaluation another, without the curve: `wandb sync` appends to a server's run
the rows of every folder that it has not seen.
"""

import os
import shutil
import time
from pathlib import Path

from analysis.readers.wandb_offline import is_complete

WANDB_FOLDER = Path("wandb")
_SCORES_FOLDER = WANDB_FOLDER / "scores"
_FINISH_TIMEOUT_S = 90.0
"""Seconds for the last record of a run to reach the disk."""


def link_artifact_file(path: Path, name: str) -> Path:
    """A file under a name of its own below W&B's folder, which can then be moved or uploaded without the records."""
    _SCORES_FOLDER.mkdir(parents=True, exist_ok=True)
    target = _SCORES_FOLDER / name
    target.unlink(missing_ok=True)
    try:
        os.link(path, target)
    except OSError:  # a file system without links
        shutil.copyfile(path, target)
    return target


def remove_run_files(run_id: str) -> None:
    """Removes half a mirror, that of a failed attempt, or an earlier version of a document."""
    for run_folder in _list_run_folders(run_id):
        shutil.rmtree(run_folder)


def make_links_relative(folder: Path) -> None:
    """The client links its log by an absolute path, which says who works where and breaks when the study is moved."""
    for link in folder.rglob("*"):
        if link.is_symlink() and os.path.isabs(target := os.readlink(link)):
            draft = link.with_name(f".{link.name}.link")
            draft.symlink_to(os.path.relpath(target, link.parent.absolute()))
            draft.replace(link)


def touch_synced_files(run_id: str) -> None:
    """Tells `wandb sync` that a server has what the files of a run hold, as it does itself."""
    for run_folder in _list_run_folders(run_id):
        (run_folder / f"run-{run_id}.wandb.synced").touch()


def wait_until_written(file: Path) -> None:
    """The client's `finish` returns before its service has written the last records.

    Raises:
        TimeoutError: it does not write them.
    """
    deadline = time.monotonic() + _FINISH_TIMEOUT_S
    while not (file.is_file() and is_complete(file)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{file}: wandb did not write the end of the run within {_FINISH_TIMEOUT_S:.0f} s")
        time.sleep(0.01)


def _list_run_folders(run_id: str) -> list[Path]:
    return sorted(WANDB_FOLDER.glob(f"offline-run-*-{run_id}*"))
