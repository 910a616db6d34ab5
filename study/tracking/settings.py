"""Where a study's runs are shown."""

from pathlib import Path
from typing import Literal

from trainables.specification import Settings

TrackingMode = Literal["offline", "online", "disabled"]


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
