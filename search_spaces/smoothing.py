"""What may vary in label smoothing: its strength, how it ends, and the settings of that ending."""

from typing import Any, cast, get_args

from search_spaces.space import Grid, Trial, choose
from trainables.schedules import SCHEDULE_SETTINGS, VARIANTS
from trainables.specification import DistributionName, ScheduleName, VariantSettings

DEFAULTS: dict[str, float] = {"epsilon": 0.2} | {
    name: value for settings in SCHEDULE_SETTINGS.values() for name, value in settings.items()
}
"""Untuned values: the papers' epsilon and switch point, and the published settings of the other schedules."""


def smoothing(trial: Trial, variant: str, grid: Grid) -> tuple[tuple[str, Any], ...]:
    """The hyperparameters of a variant and their values, in the order of asking.

    A variant of constant strength has its epsilon; one whose smoothing ends has also the schedule by which it does, and
    the settings that this schedule takes.

    Args:
        trial: who answers.
        variant: a key of `trainables.smoothing.VARIANTS`.
        grid: values of epsilon, schedule, and each setting of those schedules.
    """
    distribution, schedule = VARIANTS[variant]
    if distribution == "none":
        return ()
    found: dict[str, Any] = {"epsilon": choose(trial, "epsilon", grid["epsilon"])}
    if schedule != "constant":
        found["schedule"] = choose(trial, "schedule", grid["schedule"])
        found |= {name: choose(trial, name, grid[name]) for name in SCHEDULE_SETTINGS[found["schedule"]]}
    return tuple(found.items())


def defaults(variant: str, grid: Grid) -> list[dict[str, Any]]:
    """The untuned hyperparameters of a variant, one set a schedule of the grid, two_stage before others."""
    distribution, schedule = VARIANTS[variant]
    if distribution == "none":
        return [{}]
    start = {"epsilon": DEFAULTS["epsilon"]}
    if schedule == "constant":
        return [start]
    names = sorted(grid["schedule"], key=lambda name: name != schedule)
    return [start | {"schedule": name} | SCHEDULE_SETTINGS[name] for name in names]


def settings(variant: str, values: dict[str, Any]) -> VariantSettings:
    """The settings of a variant at these values of its hyperparameters.

    Args:
        variant: a key of `trainables.smoothing.VARIANTS`.
        values: as `smoothing` finds them; the baseline takes none.
    """
    distribution, schedule = VARIANTS[variant]
    assert distribution in get_args(DistributionName)
    own: dict[str, Any] = {"distribution": distribution, "schedule": cast(ScheduleName, schedule), **values}
    return VariantSettings(**own)
