"""What a run is called in the lines that a study prints."""

from collections.abc import Mapping
from typing import Any

from search_spaces.smoothing import DEFAULTS


def run_name(labels: Mapping[str, Any]) -> str:
    """A run's variant, its schedule if smoothing ends little by little, settings and seed.

    For example `T-LS epsilon 0.2 switch 0.5 seed 1`.

    Args:
        labels: the run's W&B config; settings that are absent, null or 0 are left out.
    """
    gradual = labels.get("schedule") not in (None, "constant", "two_stage")
    settings = [f"{name} {labels[name]:g}" for name in DEFAULTS if labels.get(name)]
    seed = [] if labels["seed"] is None else [f"seed {labels['seed']}"]
    return " ".join([labels["variant"], *([labels["schedule"]] if gradual else []), *settings, *seed])
