"""Search space of smoothing: its own hyperparameters, the schedule with its settings, and the loss."""

from collections.abc import Iterable, Mapping
from typing import Any

from search_spaces.space import Grid, Suggester, suggest_value
from trainables.losses import DEFAULT_TEMPERATURE, TEMPERATURES, list_temperatures
from trainables.smoothing.schedules import Variant, get_defaults


def suggest_loss(trial: Suggester, variant: Variant, grid: Grid) -> tuple[tuple[str, Any], ...]:
    """Return the loss of a variant, if there are several to choose from, and the temperatures that it needs.

    Args:
        trial: suggests the values.
        variant: the variant; nothing is suggested if its trainable has one loss.
        grid: values of loss and of each temperature. If those of loss are empty, it is that of the variant.
    """
    if variant.loss is None:
        return ()
    chosen: dict[str, Any] = {"loss": suggest_value(trial, "loss", grid["loss"])} if grid["loss"] else {}
    used = list_temperatures(chosen.get("loss", variant.loss), variant.distribution)
    return (*chosen.items(), *((name, suggest_value(trial, name, grid[name])) for name in used))


def get_default_loss(variant: Variant, grid: Grid) -> dict[str, Any]:
    """Return the default of what `suggest_loss` suggests: the variant's own loss, else the first value of the grid."""
    if variant.loss is None:
        return {}
    losses = grid["loss"]
    chosen = {"loss": variant.loss if variant.loss in losses else losses[0]} if losses else {}
    used = list_temperatures(chosen.get("loss", variant.loss), variant.distribution)
    first = {name: grid[name][0] for name in used}
    return chosen | {name: DEFAULT_TEMPERATURE if DEFAULT_TEMPERATURE in grid[name] else first[name] for name in used}


def has_param(variant: Variant, name: str, smoothing_params: Iterable[str]) -> bool:
    """Return whether a variant has a hyperparameter of smoothing, with any schedule.

    Args:
        variant: the variant.
        name: name of the hyperparameter, such as epsilon, switch or loss.
        smoothing_params: names of the hyperparameters of the smoothing itself; the others are those of losses and
            schedules.
    """
    if name == "loss":
        return variant.loss is not None
    if name in TEMPERATURES:
        return variant.loss is not None and name in list_temperatures(variant.loss, variant.distribution)
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
        chosen |= {name: suggest_value(trial, name, grid[name]) for name in get_defaults(chosen["schedule"])}
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
    return [dict(smoothing_defaults) | {"schedule": name} | get_defaults(name) for name in names]
