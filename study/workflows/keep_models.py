"""Keeps the final weights of a study's chosen systems in its folder."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from study.folder.kept_models import MODELS_FOLDER, open_kept_models
from study.scheduling.study_scheduler import StudyScheduler
from trainables.storage import open_storage
from trainables.storage.base import Storage
from trainables.training.checkpoints import verify_checkpoint


def keep_models(scheduler: StudyScheduler, log: Callable[[str], None]) -> None:
    """Copy the weights that `output.models` asks for from the cache to the study's folder, unless they are there.

    No result depends on them, so the study goes on if they are not in the cache any more or the disk is full.
    """
    study, kept, missing = scheduler.study, list[str](), list[str]()
    storage = open_storage(study.checkpoints_url)
    for name, run in scheduler.list_models_to_keep():
        try:
            is_kept = _keep_model(study.folder, run.id, storage, scheduler.list_checkpoint_keys(run)[-1])
        except OSError as error:
            log(f"final weights are not kept: {os.strerror(error.errno or 0).lower()}; rerun the study to keep them")
            return
        (kept if is_kept else missing).append(f"{name} (seed {run.seed})")
    if kept:
        size = sum(file.size for file in open_kept_models(study.folder).list_files())
        log(f"kept the final weights of {', '.join(kept)} in {study.folder / MODELS_FOLDER} ({size / 1e6:.0f} MB)")
    if missing:
        log(f"final weights that the cache has no more: {', '.join(missing)}; study.export trains them again")


def _keep_model(folder: Path, run_id: str, checkpoints: Storage, key: str) -> bool:
    """Copy the final checkpoint of a run into the study's folder, as a whole or not at all.

    Returns:
        False if there is no such checkpoint, or if it is damaged.
    """
    if not checkpoints.exists(key):
        return False
    try:
        with checkpoints.read_folder(key) as source, open_kept_models(folder).write_folder(run_id) as draft:
            for file in source.iterdir():
                shutil.copyfile(file, draft / file.name)
            verify_checkpoint(draft)
    except (FileNotFoundError, ValueError, KeyError, TypeError):  # removed by another process meanwhile, or damaged
        return False
    return True
