"""Where a study's runs are shown."""

from pathlib import Path
from typing import Any, Literal

from trainables.utils.settings import Settings

TrackingMode = Literal["offline", "online", "disabled"]
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
"""Settings of every session of W&B's client: nothing that says who runs the study, or where."""


class Tracking(Settings):
    """Where runs are mirrored to."""

    mode: TrackingMode
    project: str
    entity: str | None = None
    """User or team that owns the project; none: the key's own."""
    own: bool = True
    """Whether the project is the one that the study itself names."""
    folder: Path
    """The study's folder; W&B's files go to its wandb/."""
    records: str | None = None
    """URL where trials put their records, since not every node sees the folder."""
