"""The variables by which `wandb agent` tells a run its place in a sweep."""

from collections.abc import Mapping

_OF_A_SWEEP = ("WANDB_SWEEP_ID", "WANDB_SWEEP_PARAM_PATH", "WANDB_RUN_ID", "WANDB_RUN_GROUP", "WANDB_SERVICE")


def without_sweep(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` for a run of its own: under a sweep's variables the client discards the id that a run is given."""
    return {name: value for name, value in environment.items() if name not in _OF_A_SWEEP}
