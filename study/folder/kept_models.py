"""Final weights of chosen runs in the study's folder: `models/<id of the run>/`, in the format of a checkpoint.

The module loads no torch.
"""

import shutil
from pathlib import Path

from trainables.storage import open_storage
from trainables.storage.base import Storage
from trainables.training.checkpoints import verify_checkpoint

MODELS_FOLDER = "models"
"""Folder of the kept weights in the folder of a study."""


def open_kept_models(folder: Path) -> Storage:
    """Return the storage of a study's kept weights, which need not exist yet."""
    return open_storage(str(folder / MODELS_FOLDER))


def is_model_kept(folder: Path, run_id: str) -> bool:
    """Return whether the study's folder has the final weights of a run."""
    return open_kept_models(folder).exists(run_id)


def keep_model(folder: Path, run_id: str, checkpoints: Storage, key: str) -> bool:
    """Copy the final checkpoint of a run into the study's folder, as a whole or not at all.

    Args:
        folder: folder of the study.
        run_id: id of the run.
        checkpoints: storage of the checkpoints.
        key: name of the run's final checkpoint.

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
