"""Keeps the final weights of a study's chosen systems in its folder."""

import os
from collections.abc import Callable

from study.folder.kept_models import MODELS_FOLDER, keep_model, open_kept_models
from study.scheduling.study_scheduler import StudyScheduler
from trainables.storage import open_storage


def keep_models(scheduler: StudyScheduler, log: Callable[[str], None]) -> None:
    """Copy the weights that `output.models` asks for from the cache to the study's folder, unless they are there.

    No result depends on them, so the study goes on if they are not in the cache any more or the disk is full.

    Args:
        scheduler: knows the chosen systems.
        log: called with one line for what was kept, and one for what could not be kept.
    """
    study, kept, missing = scheduler.study, list[str](), list[str]()
    storage = open_storage(study.checkpoints_url)
    for name, run in scheduler.list_models_to_keep():
        try:
            is_kept = keep_model(study.folder, run.id, storage, scheduler.list_checkpoint_keys(run)[-1])
        except OSError as error:
            log(f"final weights are not kept: {os.strerror(error.errno or 0).lower()}; rerun the study to keep them")
            return
        (kept if is_kept else missing).append(f"{name} (seed {run.seed})")
    if kept:
        size = sum(file.size for file in open_kept_models(study.folder).list_files())
        log(f"kept the final weights of {', '.join(kept)} in {study.folder / MODELS_FOLDER} ({size / 1e6:.0f} MB)")
    if missing:
        log(f"final weights that the cache has no more: {', '.join(missing)}; study.export trains them again")
