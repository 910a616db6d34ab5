"""Hyperparameters of a curriculum: pacing function, difficulty score, initial share and duration."""

from typing import Any

from trainables.curriculum.pacing import canonicalize_pacing
from trainables.curriculum.settings import CurriculumSettings

PARAM_NAMES = ("pacing", "score", "delta", "duration")
DEFAULTS: dict[str, Any] = CurriculumSettings().model_dump(include={*PARAM_NAMES})
"""Default values: those of Penha and Hauff (2020), section 4, and their best values for MSDialog."""


def parse_pacing(name: str) -> str:
    """Return the canonical name of a pacing function.

    Raises:
        ValueError: if the name is unknown, or if it is the baseline "standard", which is no curriculum.
    """
    if canonicalize_pacing(name) == "standard":
        raise ValueError('a pacing function of a curriculum; "standard" is the baseline, which every study has')
    return canonicalize_pacing(name)
