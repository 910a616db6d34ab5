"""Systems of a study: its smoothing variants, their compared values, and the variants with a curriculum."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from search_spaces.smoothing import has_param
from search_spaces.space import Grid
from study.config.schema import Study
from trainables.curriculum.scores import DIFFICULTY_SCORES, DifficultyScoreName
from trainables.losses.variants import make_variant_name

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


def is_unsmoothed(study: Study, system: str) -> bool:
    """Return whether a system has neither smoothing nor a curriculum."""
    properties = get_systems(study)[system]
    return not properties.curriculum and study.study_type.variants[properties.variant].distribution == "none"


def get_baseline(study: Study) -> str:
    """Return the system with which a study compares the others.

    It is the baseline of the trainable if the study has it, else the first system without smoothing.

    Example:
        >>> from study.config.loader import load_study
        >>> get_baseline(load_study("quick")), get_baseline(load_study("quick", ['variants=["LCE", "LCE-LS"]']))
        ('BERT', 'LCE')
    """
    unsmoothed = [name for name in get_systems(study) if is_unsmoothed(study, name)]
    return study.study_type.baseline if study.study_type.baseline in unsmoothed else unsmoothed[0]


def get_own_baseline(study: Study, system: str) -> str:
    """Return the system that a system is compared with first: its loss without smoothing.

    A system without smoothing and the baseline itself have the baseline of the study.

    Example:
        >>> from study.config.loader import load_study
        >>> study = load_study("quick", ['variants=["BERT", "LCE", "LCE-LS"]'])
        >>> get_own_baseline(study, "LCE-LS"), get_own_baseline(study, "LCE")
        ('LCE', 'BERT')
    """
    systems, study_type = get_systems(study), study.study_type
    own, baseline = systems[system], get_baseline(study)
    if is_unsmoothed(study, system):
        return baseline
    form = study_type.find_baseline(own.variant)
    similar = (name for name, other in systems.items() if other.variant == form and not other.curriculum)
    agreeing = (name for name in similar if systems[name].fixed.items() <= own.fixed.items())
    return next(agreeing, baseline)


def _iter_systems(study: Study, variant: str) -> Iterator[System]:
    """Yield the systems of a variant without a curriculum: one, or one for each value that the study compares."""
    compared = study.search.compare
    names_loss = study.study_type.variants[variant].loss not in (None, study.study_type.default_loss)
    values = study.search.smoothing_grid[compared] if compared else ()
    if compared is None or not values or not has_compared_param(study, variant) or (compared == "loss" and names_loss):
        yield System(variant, variant, {}, {})
        return
    for value in values:
        if compared == "loss":
            if (name := make_variant_name(value, variant)) in study.study_type.variants:
                yield System(name, variant, {}, {compared: value})
            continue
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

    They are every system with its own baseline, those of `list_variant_comparisons`, and each curriculum with the
    random order and with the same system without its curriculum.

    Example:
        >>> from study.config.loader import load_study
        >>> list_default_comparisons(load_study("quick", ['variants=["BERT", "T-LS", "T-WSLS"]']))
        [('T-LS', 'BERT'), ('T-WSLS', 'BERT'), ('T-WSLS', 'T-LS')]
    """
    baseline = get_baseline(study)
    names = [name for name in get_systems(study) if name != baseline]
    others = [baseline, *names]
    pairs = [
        *((name, get_own_baseline(study, name)) for name in names),
        *list_variant_comparisons(study),
        *((name, other) for name in others if (other := find_random_order_system(study, name))),
        *((name, other) for name in others if (other := find_system_without_curriculum(study, name))),
    ]
    return list(dict.fromkeys(pairs))
