"""Final weights of chosen runs in the study's folder: `models/<id of the run>/`, in the format of a checkpoint."""

from pathlib import Path

from trainables.storage import open_storage
from trainables.storage.base import Storage

MODELS_FOLDER = "models"
"""Folder of the kept weights in the folder of a study."""


def open_kept_models(folder: Path) -> Storage:
    """Return the storage of a study's kept weights, which need not exist yet."""
    return open_storage(str(folder / MODELS_FOLDER))
