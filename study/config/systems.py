"""The systems of a study: its variants of smoothing, and those of them that are trained with a curriculum."""

import re
from typing import NamedTuple

from search_spaces.space import Grid
from study.config.schema import Study
from trainables.curriculum.scores import DIFFICULTY_SCORES, DifficultyScoreName

CURRICULUM_PATTERN = re.compile(r"(?:[\w-]+-)?CL(?:-\w+)?")
"""Names of systems with a curriculum."""
UNTRAINED = "untrained"
"""Name of the model before any training, which every study tests."""


class System(NamedTuple):
    """What a row of the main table is."""

    name: str
    variant: str
    """Of smoothing: a key of the kind's `variants`."""
    curriculum: Grid
    """Values of its hyperparameters, by name; empty: no curriculum."""


def get_systems(study: Study) -> dict[str, System]:
    """By name, in the order of the study: variants first, then curricula."""
    found: dict[str, System] = {name: System(name, name, {}) for name in study.variants}
    settings = study.curriculum
    for variant in settings.variants:
        head = "CL" if variant == study.study_type.baseline else f"{variant}-CL"
        if settings.compare is None:
            found[head] = System(head, variant, settings.grid)
        else:
            for value in settings.grid[settings.compare]:
                name = f"{head}-{value}"
                found[name] = System(name, variant, {**settings.grid, settings.compare: (value,)})
    return found


def list_trained_scores(study: Study) -> list[DifficultyScoreName]:
    """The scores of the study's curricula that a trained model makes."""
    asked = study.curriculum.score if study.curriculum.variants else ()
    return [name for name in asked if DIFFICULTY_SCORES[name].needs == "scorer"]


def find_random_order_system(study: Study, system: str) -> str | None:
    """The system that is paced alike in an order that means nothing, if there is one: beside it shows what the order
    itself is worth."""
    found = get_systems(study)
    own = found[system]
    if study.curriculum.compare != "score" or not own.curriculum or own.curriculum["score"] == ("random",):
        return None
    like = (name for name, other in found.items() if other.variant == own.variant and other.curriculum)
    return next((name for name in like if found[name].curriculum["score"] == ("random",)), None)


def find_system_without_curriculum(study: Study, system: str) -> str | None:
    """The system of the study that is the same without its curriculum, if there is one beside the baseline."""
    found = get_systems(study)[system]
    apart = found.curriculum and found.variant != study.study_type.baseline and found.variant in study.variants
    return found.variant if apart else None
