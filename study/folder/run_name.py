"""Names of runs in the output of a study."""

from collections.abc import Mapping
from typing import Any

from search_spaces import curriculum_params
from search_spaces.search_settings import LORA
from search_spaces.study_type import DEFAULT_STUDY_TYPE, get_study_type
from trainables.smoothing.schedules import SETTINGS

_PUBLISHED_VALUES = {name: curriculum_params.DEFAULTS[name] for name in ("delta", "duration")}
"""Values of the curriculum settings that Penha and Hauff (2020) do not vary."""


def format_run_name(labels: Mapping[str, Any]) -> str:
    """Return the name of a run: variant, schedule of decaying smoothing, settings, curriculum and seed.

    Args:
        labels: W&B config of the run. The name omits settings that are absent, null or 0. It also omits settings of the
            curriculum that the name of the variant contains or that have the published value.

    Example:
        >>> format_run_name({"variant": "T-LS", "epsilon": 0.2, "switch": 0.5, "seed": 1})
        'T-LS epsilon 0.2 switch 0.5 seed 1'
        >>> format_run_name({"variant": "CL-turns", "score": "turns", "pacing": "root_2", "seed": 1})
        'CL-turns root_2 seed 1'
        >>> format_run_name({"variant": "BERT", "lora_rank": 4, "seed": 1})
        'BERT lora rank 4 seed 1'
    """
    gradual = labels.get("schedule") not in (None, "constant", "two_stage")
    names = (*get_study_type(labels.get("trainable", DEFAULT_STUDY_TYPE)).defaults, *SETTINGS)
    smoothed = labels.get("distribution") != "none"
    settings = [f"{name} {labels[name]:g}" for name in names if smoothed and labels.get(name)]
    settings += [f"temperature {labels['temperature']:g}"] if labels.get("temperature") else []
    adapters = {name: value for name, value in labels.items() if name.startswith(LORA)}  # if they are searched
    settings += [f"{name.replace('_', ' ')} {value:g}" for name, value in adapters.items() if value]
    seed = [] if labels["seed"] is None else [f"seed {labels['seed']}"]
    schedule = [labels["schedule"]] if gradual else []
    return " ".join([labels["variant"], *schedule, *settings, *_format_curriculum(labels), *seed])


def _format_curriculum(labels: Mapping[str, Any]) -> list[str]:
    named = [labels[name] for name in ("pacing", "score") if labels.get(name) is not None]
    numbers = {name: labels[name] for name in _PUBLISHED_VALUES if labels.get(name) is not None}
    return [
        *(name for name in named if not labels["variant"].endswith(f"CL-{name}")),
        *(f"{name} {value:g}" for name, value in numbers.items() if value != _PUBLISHED_VALUES[name]),
    ]
