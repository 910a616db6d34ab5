"""Systems of a study: its smoothing variants, their compared values, and the variants with a curriculum."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from search_spaces.space import Grid, has_param
from study.config.schema import Study
from trainables.curriculum.difficulty_scores import DIFFICULTY_SCORES, DifficultyScoreName

CURRICULUM_PATTERN = re.compile(r"(?:[\w-]+-)?CL(?:-\w+)?")
"""Pattern of the names of systems with a curriculum."""


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


def get_baseline(study: Study) -> str:
    """Return the system with which a study compares the others.

    It is the baseline of the trainable if the study has it, else the first system without smoothing.

    Example:
        >>> from study.config.loader import load_study
        >>> get_baseline(load_study("quick")), get_baseline(load_study("quick", ['variants=["LCE", "LCE-LS"]']))
        ('BERT', 'LCE')
    """
    return _find_baseline(study, get_systems(study))


def _find_baseline(study: Study, systems: Mapping[str, System]) -> str:
    unsmoothed = [name for name, system in systems.items() if _is_unsmoothed(study, system)]
    return study.study_type.baseline if study.study_type.baseline in unsmoothed else unsmoothed[0]


def _is_unsmoothed(study: Study, system: System) -> bool:
    """Return whether a system has neither smoothing nor a curriculum."""
    return not system.curriculum and study.study_type.variants[system.variant].distribution == "none"


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


def list_trained_scores(study: Study) -> list[DifficultyScoreName]:
    """Return the difficulty scores of the study's curricula that need a trained model."""
    names = study.curriculum.score if study.curriculum.variants else ()
    return [name for name in names if DIFFICULTY_SCORES[name].needs == "scorer"]


def list_default_comparisons(study: Study) -> list[tuple[str, str]]:
    """Return the pairs of systems that a study compares unless it names more: system, then its baseline.

    They are every system with its own baseline, the pairs of variants that the trainable names, and each curriculum
    with the random order, which shows the effect of the order itself, and with the same system without its curriculum.
    `list_switch_comparisons` has more, in a family of their own.

    Example:
        >>> from study.config.loader import load_study
        >>> list_default_comparisons(load_study("quick", ['variants=["BERT", "T-LS", "T-WSLS"]']))
        [('T-LS', 'BERT'), ('T-WSLS', 'BERT'), ('T-WSLS', 'T-LS')]
    """
    systems, study_type = get_systems(study), study.study_type
    baseline = _find_baseline(study, systems)
    others = [system for name, system in systems.items() if name != baseline]
    ordered = [systems[baseline], *others]
    pairs = [
        *((system.name, _find_own_baseline(study, systems, system)) for system in others),
        *_pair_variants(systems, study.study_type.comparisons),
        *((system.name, other) for system in ordered if (other := _find_random_order(study, systems, system))),
        *(
            (system.name, system.variant)
            for system in ordered
            if system.curriculum and system.variant != study_type.baseline and system.variant in study.variants
        ),
    ]
    return list(dict.fromkeys(pairs))


def list_sanity_comparisons(study: Study) -> list[tuple[str, str]]:
    """Return the pairs that show whether training helps at all: the study's baseline, then each reference.

    Example:
        >>> from study.config.loader import load_study
        >>> list_sanity_comparisons(load_study("quick"))
        [('BERT', 'BM25'), ('BERT', 'cosine')]
    """
    baseline = get_baseline(study)
    return [(baseline, name) for name in study.references]


def list_switch_comparisons(study: Study) -> list[tuple[str, str]]:
    """Return the pairs that show what it does to end a smoothing: a system, then the one that keeps the smoothing.

    A pair that the trainable or `analysis.comparisons` names is absent, since it is compared with the others.

    Example:
        >>> from study.config.loader import load_study
        >>> list_switch_comparisons(load_study("quick", ['variants=["BERT", "LS", "T-LS", "T-WSLS"]']))
        [('T-LS', 'LS')]
    """
    rows = study.study_type.variants
    pairs = [
        (name, other)
        for name in study.variants
        for other in study.variants
        if rows[name].schedule != "constant" == rows[other].schedule
        and (rows[name].distribution, rows[name].loss) == (rows[other].distribution, rows[other].loss)
    ]
    named = {frozenset(pair) for pair in (*list_default_comparisons(study), *study.analysis.comparisons)}
    return [pair for pair in _pair_variants(get_systems(study), pairs) if frozenset(pair) not in named]


def _find_own_baseline(study: Study, systems: Mapping[str, System], system: System) -> str:
    """Return the system without smoothing of the same loss; for a system without smoothing, the study's baseline."""
    baseline = _find_baseline(study, systems)
    if _is_unsmoothed(study, system):
        return baseline
    form = study.study_type.find_baseline(system.variant)
    similar = (other for other in systems.values() if other.variant == form and not other.curriculum)
    return next((other.name for other in similar if other.fixed.items() <= system.fixed.items()), baseline)


def _pair_variants(systems: Mapping[str, System], pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the systems of pairs of variants, those of compared values at the same value.

    A system without the compared hyperparameter is paired with every value.
    """
    plain = [system for system in systems.values() if not system.curriculum]
    return [
        (first.name, second.name)
        for pair in pairs
        for first in plain
        for second in plain
        if (first.variant, second.variant) == pair
        and all(second.fixed.get(name, value) == value for name, value in first.fixed.items())
    ]


def _find_random_order(study: Study, systems: Mapping[str, System], system: System) -> str | None:
    """Return the system with the same variant and pacing and a random order, or None if there is none."""
    if study.curriculum.compare != "score" or not system.curriculum or system.curriculum["score"] == ("random",):
        return None
    similar = (other for other in systems.values() if other.variant == system.variant and other.curriculum)
    return next((other.name for other in similar if other.curriculum["score"] == ("random",)), None)
