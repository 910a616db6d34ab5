"""What may vary in smoothing: how it smooths, how it ends, and the settings of that ending."""

from collections.abc import Iterable, Mapping
from typing import Any

from search_spaces.space import Grid, Suggester, suggest_value
from trainables.smoothing.schedules import SCHEDULE_SETTINGS, Variant

SCHEDULE_DEFAULTS: dict[str, float] = {name: value for own in SCHEDULE_SETTINGS.values() for name, value in own.items()}
"""Settings of schedules and their published values."""


def suggest_smoothing(
    trial: Suggester, variant: Variant, smoothing_params: Iterable[str], grid: Grid
) -> tuple[tuple[str, Any], ...]:
    """The hyperparameters of a variant and their values, in the order of asking.

    A variant of constant strength has those that say how it smooths; one whose smoothing ends has also the schedule by
    which it does, and the settings that this schedule takes.

    Args:
        trial: who answers.
        cell: the variant.
        strengths: names of the hyperparameters that say how it smooths.
        grid: values of these, of the schedule, and of each setting of those schedules.
    """
    if variant.distribution == "none":
        return ()
    found: dict[str, Any] = {name: suggest_value(trial, name, grid[name]) for name in smoothing_params}
    if variant.schedule != "constant":
        found["schedule"] = suggest_value(trial, "schedule", grid["schedule"])
        found |= {name: suggest_value(trial, name, grid[name]) for name in SCHEDULE_SETTINGS[found["schedule"]]}
    return tuple(found.items())


def list_default_smoothings(
    variant: Variant, smoothing_defaults: Mapping[str, Any], grid: Grid
) -> list[dict[str, Any]]:
    """The untuned hyperparameters of a variant, one set a schedule of the grid, its own before others.

    Args:
        cell: the variant.
        untuned: published values of the hyperparameters that say how it smooths.
        grid: values of the schedule.
    """
    if variant.distribution == "none":
        return [{}]
    if variant.schedule == "constant":
        return [dict(smoothing_defaults)]
    names = sorted(grid["schedule"], key=lambda name: name != variant.schedule)
    return [dict(smoothing_defaults) | {"schedule": name} | SCHEDULE_SETTINGS[name] for name in names]
