"""What must hold between the parts of a study."""

from collections.abc import Iterator
from math import prod

from search_spaces.registry import ConfigError
from study.config.schema import Study
from study.config.spaces import count_configurations
from study.config.systems import get_systems, list_trained_scores
from trainables.specs.base import BaseTrainingSettings
from trainables.utils.settings import MAX_COUNT

_MAX_CONFIGURATIONS = 100_000
"""Configurations of a variant: all of them are enumerated."""


def find_config_errors(study: Study) -> list[ConfigError]:
    """Key, value, what was expected, and the other keys that a user may have meant to change: of several that involve
    the same key the first, since one value may be the cause of all."""
    found, involved = list[ConfigError](), set[str]()
    for error in _iter_config_errors(study):
        keys = {error[0], *error[3]}
        if not keys & involved:
            found.append(error)
        involved |= keys
    return found


def _iter_config_errors(study: Study) -> Iterator[ConfigError]:
    yield from find_training_errors(study, study.training)
    layers, frozen = study.model.layers, study.model.frozen_layers
    if layers is not None and frozen >= layers:
        yield "model.frozen_layers", frozen, f"fewer than model.layers = {layers}", ("model.layers",)
    if amiss := list(_find_curriculum_errors(study)):
        yield from amiss
        return  # the systems are then not known
    yield from _find_search_errors(study)
    yield from study.study_type.check_study(study)
    yield from _find_optimisation_errors(study)


def find_training_errors(study: Study, training: BaseTrainingSettings) -> Iterator[ConfigError]:
    """What must hold between settings of training, and between them and the study's task."""
    yield from study.study_type.check_training(training, study.task)
    if training.checkpoint != "last" and training.evaluations < 2:
        expected = f'2 or more, among which {training.checkpoint} is best, or training.checkpoint = "last"'
        yield "training.evaluations", training.evaluations, expected, ("training.checkpoint",)
    yield from _find_length_errors(training)


def _find_length_errors(training: BaseTrainingSettings) -> Iterator[ConfigError]:
    if training.epochs is not None:  # what they come to is known once the data is: `study.config.training_length`
        if "instances" in training.model_fields_set:
            expected = f"none beside training.instances = {training.instances}: one of them says how long training is"
            yield "training.epochs", training.epochs, expected, ("training.instances",)
        return
    if training.instances > MAX_COUNT:
        yield "training.instances", training.instances, f"at most {MAX_COUNT}", ("training.epochs",)
    batches, rest = divmod(training.instances, training.batch_size)
    if rest or not batches:
        works = _round_to_multiple(training.instances, training.batch_size)
        expected = f"a positive multiple of training.batch_size = {training.batch_size}; {works} works"
        yield "training.instances", training.instances, expected, ("training.batch_size",)
    if training.evaluations > batches:
        expected = f"at most one for each of the {batches} batches"
        yield "training.evaluations", training.evaluations, expected, ("training.instances", "training.batch_size")


def _round_to_multiple(value: int, step: int) -> int:
    return max(1, (value + step // 2) // step) * step


def _find_curriculum_errors(study: Study) -> Iterator[ConfigError]:
    settings = study.curriculum
    if not settings.variants:
        return
    if not study.study_type.has_curricula:
        yield "curriculum.variants", list(settings.variants), f"[]: data of {study.trainable} has no order", ()
    if missing := [name for name in settings.variants if name not in study.variants]:
        expected = (
            f"names out of variants, {', '.join(study.variants)}: {missing[0]} with a curriculum is compared with it"
        )
        yield "curriculum.variants", list(settings.variants), expected, ("variants",)
    used = {*study.seeds, *study.confirm.seeds}
    if list_trained_scores(study) and settings.seed in used:
        expected = "one that is not among seeds and confirm.seeds: no run should be ordered by itself"
        yield "curriculum.seed", settings.seed, expected, ("seeds", "confirm.seeds")


def _find_search_errors(study: Study) -> Iterator[ConfigError]:
    search, metric = study.search, study.analysis.metric
    if search.objectives and (search.objectives[0] != metric or len(set(search.objectives)) < len(search.objectives)):
        expected = f"distinct metrics, the first of them analysis.metric = {metric}"
        yield "search.objectives", list(search.objectives), expected, ("analysis.metric",)
    if search.pruning == "race" and len(search.objectives) > 1:
        yield "search.pruning", "race", "none for a search of several objectives", ("search.objectives",)
    if search.pruning == "race" and len(study.seeds) < 4:
        yield "search.pruning", "race", "at least 4 seeds: the first round takes three", ("seeds",)
    if search.gpu_hours and not study.resources.gpu:
        yield "search.gpu_hours", search.gpu_hours, "none where resources.gpu = 0", ("resources.gpu",)
    if twice := sorted(set(study.confirm.seeds) & set(study.seeds)):
        yield "confirm.seeds", list(study.confirm.seeds), f"fresh seeds; {twice} are among seeds", ("seeds",)
    grid = {**search.smoothing_grid, **search.optimisation_grid, **study.curriculum.grid}
    if prod(len(values) for values in grid.values()) > _MAX_CONFIGURATIONS:
        yield (
            "search",
            f"{prod(len(values) for values in grid.values())} configurations",
            f"at most {_MAX_CONFIGURATIONS}",
            (),
        )
        return
    named = get_systems(study)
    for variant, trials in search.trials.items():
        if variant not in named and variant not in study.study_type.variants:
            yield f"search.trials.{variant}", trials, f"a system of the study: {', '.join(named)}", ("curriculum",)
        elif variant == study.study_type.baseline and not search.optimisation_grid:
            expected = "nothing: the baseline has no setting to search, unless search.learning_rate or its like is set"
            yield f"search.trials.{variant}", trials, expected, ()
        elif variant in named:
            whole = count_configurations(study, variant)
            others = tuple(f"search.{name}" for name in (*search.smoothing_params, "switch", "sampler"))
            if search.sampler == "grid" and trials != whole:
                yield f"search.trials.{variant}", trials, f"{whole} or nothing: the sampler grid runs them all", others
            if trials > whole:
                expected = f"at most {whole}, the distinct configurations of its grid"
                yield f"search.trials.{variant}", trials, expected, others


def _find_optimisation_errors(study: Study) -> Iterator[ConfigError]:
    """Searched settings of training hold the study's own value, and every combination of them is one that can run."""
    search, training = study.search, study.training
    for name, values in search.optimisation_grid.items():
        own = getattr(training, name)
        if own not in values:
            yield f"search.{name}", list(values), f"training.{name} = {own} among them", (f"training.{name}",)
        if name in training.epoch_size_fields and training.epochs is not None:
            expected = f"none beside training.epochs: all runs train for as many instances, which depend on {name}"
            yield f"search.{name}", list(values), expected, ("training.epochs",)
    for size_ in search.batch_size:
        if training.epochs is None and training.instances % size_:
            expected = f"divisors of training.instances = {training.instances}, {size_} is none"
            yield "search.batch_size", list(search.batch_size), expected, ("training.instances",)
