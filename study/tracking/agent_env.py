"""The variables by which `wandb agent` tells a command its place in a sweep."""

from collections.abc import Mapping
from typing import NamedTuple

_SWEEP_VARIABLES = (
    "WANDB_SWEEP_ID",  # with it, wandb.init discards the id, project and entity that it is given
    "WANDB_SWEEP_PARAM_PATH",  # whose values it puts into the run's config
    "WANDB_RUN_ID",
    "WANDB_RUN_GROUP",
    "WANDB_DIR",  # where the agent keeps its own files
    "WANDB_SERVICE",  # the client of whoever started this process, with the settings that it has
)


def remove_sweep_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` for runs of their own, under their own ids."""
    return {name: value for name, value in environment.items() if name not in _SWEEP_VARIABLES}


class SweepContext(NamedTuple):
    """A command's place in a sweep: which run of which sweep it is."""

    sweep_id: str
    run_id: str
    project: str | None
    entity: str | None
    folder: str | None
    """Where the agent keeps its files; none: its working folder."""


def read_sweep_context(environment: Mapping[str, str]) -> SweepContext | None:
    """The place that an agent gave this command; None where no agent started it."""
    sweep_id, run_id = environment.get("WANDB_SWEEP_ID"), environment.get("WANDB_RUN_ID")
    if not sweep_id or not run_id:
        return None
    return SweepContext(sweep_id, run_id, *(environment.get(f"WANDB_{name}") for name in ("PROJECT", "ENTITY", "DIR")))
