"""Settings that say where the runs of a study are shown, and those of the W&B client."""

import os
from pathlib import Path
from typing import Any

from study.config.schema import TrackingMode
from trainables.utils.base_settings import Settings

PRIVATE_SETTINGS: dict[str, Any] = {
    "console": "off",
    "disable_git": True,
    "host": "study",
    "save_code": False,
    "silent": True,
    "x_disable_machine_info": True,
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_save_requirements": False,
}
"""Settings of every session of the W&B client: nothing shows who runs the study, or where."""


def prepare_client_folder(folder: Path) -> None:
    """Make the W&B client write its files below a folder, print nothing and ask nothing."""
    folder.mkdir(exist_ok=True)
    variables = ("WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR")
    os.environ |= dict.fromkeys(variables, str(folder / ".data"))
    os.environ |= {"WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false"}


class Tracking(Settings):
    """Destination of the runs in W&B."""

    mode: TrackingMode
    project: str
    entity: str | None = None
    """User or team that owns the project. If None, the default of the API key."""
    group: str | None = None
    """Text before the id of the configuration in the group of a run. If None, the group is the id alone."""
    own: bool = True
    """True if the project is the one that the study itself names."""
    folder: Path
    """Folder of the study. W&B's files are in its subfolder wandb/."""
    plugins: tuple[str, ...] = ()
    """Plug-ins of the study, which the process that writes imports."""
