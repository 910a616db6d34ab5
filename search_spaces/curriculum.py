"""Search space of a curriculum: pacing function, difficulty score, initial share and duration."""

from typing import Any

from search_spaces.space import Grid, Suggester, suggest_value
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


def suggest_curriculum(trial: Suggester, grid: Grid) -> tuple[tuple[str, Any], ...]:
    """Return the hyperparameters of a curriculum and their values, in the order of suggestion.

    The pacing function "step" has its own thirds, so delta is not suggested for it.

    Args:
        trial: suggests the values.
        grid: values of each key of `DEFAULTS`, or empty if there is no curriculum.
    """
    if not grid:
        return ()
    chosen = {name: suggest_value(trial, name, grid[name]) for name in ("pacing", "score")}
    if chosen["pacing"] != "step":
        chosen["delta"] = suggest_value(trial, "delta", grid["delta"])
    return (*chosen.items(), ("duration", suggest_value(trial, "duration", grid["duration"])))


def get_default_curriculum(grid: Grid) -> tuple[tuple[str, Any], ...]:
    """Return the default hyperparameters of a curriculum.

    Args:
        grid: values of each key of `DEFAULTS`, or empty if there is no curriculum.

    Returns:
        For each hyperparameter, the published value if the grid contains it, else the first value of the grid.
    """
    chosen = {name: DEFAULTS[name] if DEFAULTS[name] in values else values[0] for name, values in grid.items()}
    if chosen.get("pacing") == "step":
        del chosen["delta"]
    return tuple((name, chosen[name]) for name in PARAM_NAMES if name in chosen)
