"""Environment variables in which `wandb agent` gives a command its place in a sweep."""

from collections.abc import Mapping
from typing import NamedTuple

_SWEEP_VARIABLES = (
    "WANDB_SWEEP_ID",  # if it is set, wandb.init ignores the id, project and entity that are passed
    "WANDB_SWEEP_PARAM_PATH",  # its values would be added to the run's config
    "WANDB_RUN_ID",
    "WANDB_RUN_GROUP",
    "WANDB_DIR",  # folder of the agent's own files
    "WANDB_SERVICE",  # the W&B service of the parent process, with the parent's settings
)


def remove_sweep_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return `environment` without the variables of a sweep, so that runs have their own ids.

    Example:
        >>> remove_sweep_variables({"WANDB_SWEEP_ID": "s1", "WANDB_PROJECT": "quick"})
        {'WANDB_PROJECT': 'quick'}
    """
    return {name: value for name, value in environment.items() if name not in _SWEEP_VARIABLES}


class SweepContext(NamedTuple):
    """Place of a command in a sweep: the sweep and the run that the agent assigned to it."""

    sweep_id: str
    run_id: str
    project: str | None
    entity: str | None
    folder: str | None
    """Folder of the agent's files. If None, its working directory."""


def read_sweep_context(environment: Mapping[str, str]) -> SweepContext | None:
    """Return the place that an agent gave this command, or None if no agent started it.

    Example:
        >>> read_sweep_context({"WANDB_SWEEP_ID": "s1", "WANDB_RUN_ID": "r1", "WANDB_PROJECT": "quick"})
        SweepContext(sweep_id='s1', run_id='r1', project='quick', entity=None, folder=None)
        >>> read_sweep_context({}) is None
        True
    """
    sweep_id, run_id = environment.get("WANDB_SWEEP_ID"), environment.get("WANDB_RUN_ID")
    if not sweep_id or not run_id:
        return None
    return SweepContext(sweep_id, run_id, *(environment.get(f"WANDB_{name}") for name in ("PROJECT", "ENTITY", "DIR")))
