"""Hyperparameters of a curriculum: pacing function, difficulty score, initial share and duration."""

from typing import Any

from trainables.curriculum.curriculum_settings import CurriculumSettings
from trainables.curriculum.pacing import PACING

PARAM_NAMES = ("pacing", "score", "delta", "duration")
DEFAULTS: dict[str, Any] = CurriculumSettings().model_dump(include={*PARAM_NAMES})
"""Default values: those of Penha and Hauff (2020), section 4, and their best values for MSDialog."""


def check_pacing(name: str) -> str:
    """Return the name of a pacing function.

    Raises:
        ValueError: if there is none of this name, or it is the baseline "standard", which is no curriculum.
    """
    if name == "standard":
        raise ValueError('a pacing function of a curriculum; "standard" is the baseline, which every study has')
    return str(PACING.check_name(name))
