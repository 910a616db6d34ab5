"""Search space of smoothing: its own hyperparameters, the schedule, and the schedule's settings."""

from collections.abc import Iterable, Mapping
from typing import Any

from search_spaces.space import Grid, Suggester, suggest_value
from trainables.smoothing.schedules import SCHEDULE_SETTINGS, Variant

SCHEDULE_DEFAULTS: dict[str, float] = {
    name: value for settings in SCHEDULE_SETTINGS.values() for name, value in settings.items()
}
"""Name of a schedule's setting -> its published value."""


def has_param(variant: Variant, name: str, smoothing_params: Iterable[str]) -> bool:
    """Return whether a variant has a hyperparameter of smoothing, with any schedule.

    Args:
        variant: the variant.
        name: name of the hyperparameter, such as epsilon or switch.
        smoothing_params: names of the hyperparameters of the smoothing itself; the others are those of schedules.
    """
    return variant.distribution != "none" and (name in smoothing_params or variant.schedule != "constant")


def suggest_smoothing(
    trial: Suggester, variant: Variant, smoothing_params: Iterable[str], grid: Grid
) -> tuple[tuple[str, Any], ...]:
    """Return the hyperparameters of a variant and their values, in the order of suggestion.

    Every variant that smooths has `smoothing_params`. A variant whose strength is not constant also has the schedule,
    and the settings of that schedule.

    Args:
        trial: suggests the values.
        variant: the variant.
        smoothing_params: names of the hyperparameters of the smoothing itself, such as epsilon.
        grid: values of these hyperparameters, of the schedule, and of each setting of the schedules.
    """
    if variant.distribution == "none":
        return ()
    chosen: dict[str, Any] = {name: suggest_value(trial, name, grid[name]) for name in smoothing_params}
    if variant.schedule != "constant":
        chosen["schedule"] = suggest_value(trial, "schedule", grid["schedule"])
        chosen |= {name: suggest_value(trial, name, grid[name]) for name in SCHEDULE_SETTINGS[chosen["schedule"]]}
    return tuple(chosen.items())


def list_default_smoothings(
    variant: Variant, smoothing_defaults: Mapping[str, Any], grid: Grid
) -> list[dict[str, Any]]:
    """Return the default hyperparameters of a variant, one set per schedule of the grid.

    The variant's own schedule comes first.

    Args:
        variant: the variant.
        smoothing_defaults: published values of the hyperparameters of the smoothing itself.
        grid: values of the schedule.
    """
    if variant.distribution == "none":
        return [{}]
    if variant.schedule == "constant":
        return [dict(smoothing_defaults)]
    names = sorted(grid["schedule"], key=lambda name: name != variant.schedule)
    return [dict(smoothing_defaults) | {"schedule": name} | SCHEDULE_SETTINGS[name] for name in names]
