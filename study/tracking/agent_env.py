"""The variables by which `wandb agent` tells a command its place in a sweep."""

from collections.abc import Mapping
from typing import NamedTuple

_OF_A_SWEEP = (
    "WANDB_SWEEP_ID",  # with it, wandb.init discards the id, project and entity that it is given
    "WANDB_SWEEP_PARAM_PATH",  # whose values it puts into the run's config
    "WANDB_RUN_ID",
    "WANDB_RUN_GROUP",
    "WANDB_DIR",  # where the agent keeps its own files
    "WANDB_SERVICE",  # the client of whoever started this process, with the settings that it has
)


def without_sweep(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` for runs of their own, under their own ids."""
    return {name: value for name, value in environment.items() if name not in _OF_A_SWEEP}


class Place(NamedTuple):
    """A command's place in a sweep: which run of which sweep it is."""

    sweep: str
    run: str
    project: str | None
    entity: str | None
    folder: str | None
    """Where the agent keeps its files; none: its working folder."""


def place(environment: Mapping[str, str]) -> Place | None:
    """The place that an agent gave this command; None where no agent started it."""
    sweep, run = environment.get("WANDB_SWEEP_ID"), environment.get("WANDB_RUN_ID")
    if not sweep or not run:
        return None
    return Place(sweep, run, *(environment.get(f"WANDB_{name}") for name in ("PROJECT", "ENTITY", "DIR")))
