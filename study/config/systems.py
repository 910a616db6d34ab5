"""Systems of a study: its smoothing variants, their compared values, and the variants with a curriculum."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from search_spaces.smoothing import has_param
from search_spaces.space import Grid
from study.config.schema import Study
from trainables.curriculum.scores import DIFFICULTY_SCORES, DifficultyScoreName

CURRICULUM_PATTERN = re.compile(r"(?:[\w-]+-)?CL(?:-\w+)?")
"""Pattern of the names of systems with a curriculum."""
UNTRAINED = "untrained"
"""Name of the untrained model, which every study tests."""


class System(NamedTuple):
    """A row of the main table: a variant, or one of its compared values, with or without a curriculum."""

    name: str
    variant: str
    """Smoothing variant: a key of `StudyType.variants`."""
    curriculum: Grid
    """Values of the hyperparameters of the curriculum, by name. If empty, there is no curriculum."""
    fixed: Mapping[str, Any]
    """Value of the hyperparameter that `search.compare` names, by that name. If empty, the variant does not have it."""

    @property
    def n_configurations_key(self) -> str:
        """Name of the system in `search.n_configurations`, where all compared values of a variant share a number."""
        return self.variant if self.fixed else self.name


def get_systems(study: Study) -> dict[str, System]:
    """Return the systems of a study by name, in its order: variants first, then curricula.

    Example:
        >>> from study.config.loader import load_study
        >>> curriculum = ['curriculum.variants=["BERT"]', "training.sampling=uniform"]
        >>> study = load_study("quick", ['variants=["BERT", "LS"]', *curriculum])
        >>> list(get_systems(study))
        ['BERT', 'LS', 'CL']
    """
    systems = {system.name: system for variant in study.variants for system in _iter_systems(study, variant)}
    settings = study.curriculum
    for variant in settings.variants:
        head = "CL" if variant == study.study_type.baseline else f"{variant}-CL"
        if settings.compare is None:
            systems[head] = System(head, variant, settings.grid, {})
        else:
            for value in settings.grid[settings.compare]:
                name = f"{head}-{value}"
                systems[name] = System(name, variant, {**settings.grid, settings.compare: (value,)}, {})
    return systems


def _iter_systems(study: Study, variant: str) -> Iterator[System]:
    """Yield the systems of a variant without a curriculum: one, or one for each value that the study compares."""
    compared = study.search.compare
    if compared is None or not has_compared_param(study, variant):
        yield System(variant, variant, {}, {})
        return
    for value in study.search.smoothing_grid[compared]:
        yield System(f"{variant}-{str(value).removesuffix('.0')}", variant, {}, {compared: value})


def has_compared_param(study: Study, variant: str) -> bool:
    """Return whether a variant of the study has the hyperparameter that `search.compare` names."""
    search, compared = study.search, study.search.compare
    return compared is not None and has_param(study.study_type.variants[variant], compared, search.smoothing_params)


def list_variant_comparisons(study: Study) -> list[tuple[str, str]]:
    """Return the pairs of systems that the trainable compares in addition to those with the baseline.

    Systems of compared values are paired at the same value: T-WSLS-0.2 with T-LS-0.2. A system without the compared
    hyperparameter is paired with every value.

    Example:
        >>> from study.config.loader import load_study
        >>> list_variant_comparisons(load_study("quick", ["search.compare=switch", "search.switch=[0.25, 0.5]"]))
        [('T-WSLS-0.25', 'T-LS-0.25'), ('T-WSLS-0.5', 'T-LS-0.5')]
    """
    plain = [system for system in get_systems(study).values() if not system.curriculum]
    return [
        (first.name, second.name)
        for pair in study.study_type.comparisons
        for first in plain
        for second in plain
        if (first.variant, second.variant) == pair
        and all(second.fixed.get(name, value) == value for name, value in first.fixed.items())
    ]


def list_trained_scores(study: Study) -> list[DifficultyScoreName]:
    """Return the difficulty scores of the study's curricula that need a trained model."""
    names = study.curriculum.score if study.curriculum.variants else ()
    return [name for name in names if DIFFICULTY_SCORES[name].needs == "scorer"]


def find_random_order_system(study: Study, system: str) -> str | None:
    """Return the system with the same variant and pacing and a random order, or None if there is none.

    The comparison with it shows the effect of the order itself.
    """
    systems = get_systems(study)
    variant, curriculum = systems[system].variant, systems[system].curriculum
    if study.curriculum.compare != "score" or not curriculum or curriculum["score"] == ("random",):
        return None
    similar = (name for name, other in systems.items() if other.variant == variant and other.curriculum)
    return next((name for name in similar if systems[name].curriculum["score"] == ("random",)), None)


def find_system_without_curriculum(study: Study, system: str) -> str | None:
    """Return the same system without its curriculum; None if there is none or if that is the baseline."""
    variant, curriculum = get_systems(study)[system].variant, get_systems(study)[system].curriculum
    has_counterpart = curriculum and variant != study.study_type.baseline and variant in study.variants
    return variant if has_counterpart else None


def list_default_comparisons(study: Study) -> list[tuple[str, str]]:
    """Return the pairs of systems that a study compares unless it names more: system, then its baseline.

    They are every system with the baseline, those of `list_variant_comparisons`, and each curriculum with the random
    order and with the same system without its curriculum.

    Example:
        >>> from study.config.loader import load_study
        >>> list_default_comparisons(load_study("quick", ['variants=["BERT", "T-LS", "T-WSLS"]']))
        [('T-LS', 'BERT'), ('T-WSLS', 'BERT'), ('T-WSLS', 'T-LS')]
    """
    study_type = study.study_type
    names = [name for name in get_systems(study) if name != study_type.baseline]
    others = [study_type.baseline, *names]
    return [
        *((name, study_type.baseline) for name in names),
        *list_variant_comparisons(study),
        *((name, other) for name in others if (other := find_random_order_system(study, name))),
        *((name, other) for name in others if (other := find_system_without_curriculum(study, name))),
    ]
