"""What may vary in a curriculum: its pace, what makes a query difficult, where it starts, and when all data is in."""

from typing import Any

from search_spaces.space import Grid, Suggester, suggest_value
from trainables.curriculum.pacing import canonicalize_pacing
from trainables.curriculum.settings import CurriculumSettings

PARAM_NAMES = ("pacing", "score", "delta", "duration")
DEFAULTS: dict[str, Any] = CurriculumSettings().model_dump(include={*PARAM_NAMES})
"""Untuned values: those of Penha and Hauff (2020), section 4, and what was best there for MSDialog."""


def parse_pacing(name: str) -> str:
    """The name that identifies a pacing function; ValueError for others, and for the one that is no curriculum."""
    if canonicalize_pacing(name) == "standard":
        raise ValueError("no pacing function of a curriculum, but the baseline, which every study has")
    return canonicalize_pacing(name)


def suggest_curriculum(trial: Suggester, grid: Grid) -> tuple[tuple[str, Any], ...]:
    """The hyperparameters of a curriculum and their values, in the order of asking; none where there is no grid.

    The pacing function step has thirds of its own, whatever delta.

    Args:
        trial: who answers.
        grid: values of each of DEFAULTS, or nothing.
    """
    if not grid:
        return ()
    found = {name: suggest_value(trial, name, grid[name]) for name in ("pacing", "score")}
    if found["pacing"] != "step":
        found["delta"] = suggest_value(trial, "delta", grid["delta"])
    return (*found.items(), ("duration", suggest_value(trial, "duration", grid["duration"])))


def get_default_curriculum(grid: Grid) -> tuple[tuple[str, Any], ...]:
    """The untuned hyperparameters: the published value of each where the grid has it, else the grid's first."""
    found = {name: DEFAULTS[name] if DEFAULTS[name] in values else values[0] for name, values in grid.items()}
    if found.get("pacing") == "step":
        del found["delta"]
    return tuple((name, found[name]) for name in PARAM_NAMES if name in found)
