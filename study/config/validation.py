"""Checks that the settings of a study are consistent with each other."""

from collections.abc import Iterator
from math import prod

from search_spaces.search_settings import LORA
from search_spaces.study_type import ConfigError
from study.config.schema import Study
from study.config.spaces import chooses_by_scores, count_configurations, count_proposals, get_own_value
from study.config.systems import (
    get_baseline,
    get_systems,
    has_compared_param,
    list_default_comparisons,
    list_sanity_comparisons,
)
from trainables.smoothing.schedules import get_defaults
from trainables.specs.run_spec import BaseTrainingSettings
from trainables.utils.base_settings import MAX_COUNT

_MAX_CONFIGURATIONS = 100_000
"""Maximum number of configurations of a variant, because all of them are enumerated."""


def find_config_errors(study: Study) -> list[ConfigError]:
    """Return the inconsistent settings of a study.

    Returns:
        Errors, each with the key, the value, the expectation and the related keys that may have to change instead. If
        several errors involve the same key, only the first is returned, because one value may cause all of them.
    """
    errors, involved = list[ConfigError](), set[str]()
    for error in _iter_config_errors(study):
        keys = {error[0], *error[3]}
        if not keys & involved:
            errors.append(error)
        involved |= keys
    return errors


def _iter_config_errors(study: Study) -> Iterator[ConfigError]:
    yield from find_training_errors(study, study.training)
    layers, frozen = study.model.num_layers, study.model.frozen_layers
    if layers is not None and frozen >= layers:
        yield "model.frozen_layers", frozen, f"fewer than model.num_layers = {layers}", ("model.num_layers",)
    lora, n_fresh = study.model.lora, getattr(study.model, "reinit_layers", 0)
    if lora.rank is None and (unused := sorted(lora.model_fields_set - {"rank"})):
        yield f"model.lora.{unused[0]}", getattr(lora, unused[0]), "none without model.lora.rank", ("model.lora.rank",)
    if lora.rank is None and study.search.lora:
        yield "search.lora", dict(study.search.lora), "none without model.lora.rank", ("model.lora.rank",)
    if lora.rank is not None and n_fresh:
        expected = "0 with model.lora.rank, because adapters do not train the fresh weights"
        yield "model.reinit_layers", n_fresh, expected, ("model.lora.rank",)
    if curriculum_errors := list(_find_curriculum_errors(study)):
        yield from curriculum_errors
        return  # the other checks need valid systems
    yield from _find_compare_errors(study)
    yield from _find_search_errors(study)
    yield from _find_comparison_errors(study)
    yield from _find_collection_errors(study)
    yield from study.study_type.check_study(study)
    yield from _find_optimisation_errors(study)


def find_training_errors(study: Study, training: BaseTrainingSettings) -> Iterator[ConfigError]:
    """Yield conflicts among the settings of training, and between them and the task of the study."""
    yield from study.study_type.check_training(training, study.task)
    yield from _find_evaluation_errors(training)
    yield from _find_memory_errors(training)
    yield from _find_length_errors(training)


def _find_evaluation_errors(training: BaseTrainingSettings) -> Iterator[ConfigError]:
    steps, has_instances = training.evaluation_steps, training.epochs is None
    if steps is not None and "evaluations" in training.model_fields_set:
        expected = f"none while training.evaluations = {training.evaluations}; set only one of them"
        yield "training.evaluation_steps", steps, expected, ("training.evaluations",)
    elif training.checkpoint != "last" and (steps is None or has_instances):
        key, value = ("evaluations", training.evaluations) if steps is None else ("evaluation_steps", steps)
        if len(training.list_evaluation_points()) < 2:
            few = "2 or more" if steps is None else "fewer batches than training has, for 2 or more evaluations,"
            expected = f'{few} for training.checkpoint = "{training.checkpoint}", or training.checkpoint = "last"'
            yield f"training.{key}", value, expected, ("training.checkpoint",)


def _find_memory_errors(training: BaseTrainingSettings) -> Iterator[ConfigError]:
    if training.cuda_graphs and training.gradient_checkpointing:
        expected = "false while training.cuda_graphs = true, since a graph cannot draw masks again"
        yield "training.gradient_checkpointing", True, expected, ("training.cuda_graphs",)


def _find_length_errors(training: BaseTrainingSettings) -> Iterator[ConfigError]:
    if training.epochs is not None:  # `study.config.training_length` converts them to instances later
        if "instances" in training.model_fields_set:
            expected = f"none while training.instances = {training.instances}; set only one of them"
            yield "training.epochs", training.epochs, expected, ("training.instances",)
        return
    if training.instances > MAX_COUNT:
        yield "training.instances", training.instances, f"at most {MAX_COUNT}", ("training.epochs",)
    batches, rest = divmod(training.instances, training.batch_size)
    if rest or not batches:
        works = max(1, (training.instances + training.batch_size // 2) // training.batch_size) * training.batch_size
        expected = f"a positive multiple of training.batch_size = {training.batch_size}; {works} works"
        yield "training.instances", training.instances, expected, ("training.batch_size",)
    if training.evaluations > batches:
        expected = f"at most one for each of the {batches} batches"
        yield "training.evaluations", training.evaluations, expected, ("training.instances", "training.batch_size")


def _find_curriculum_errors(study: Study) -> Iterator[ConfigError]:
    settings = study.curriculum
    if not settings.variants:
        return
    if not study.study_type.has_curricula:
        yield "curriculum.variants", list(settings.variants), f"[]: {study.trainable} does not support curricula", ()
    if not {*settings.variants} <= {*study.variants}:
        expected = f"names out of variants ({', '.join(study.variants)}), with which their curricula are compared"
        yield "curriculum.variants", list(settings.variants), expected, ("variants",)


def _find_compare_errors(study: Study) -> Iterator[ConfigError]:
    search, name = study.search, study.search.compare
    if name is None:
        return
    if not any(has_compared_param(study, variant) for variant in study.variants):
        expected = f"a hyperparameter that one of variants has ({', '.join(study.variants)})"
        yield "search.compare", name, expected, ("variants",)
    without = [schedule for schedule in search.schedule if name not in get_defaults(schedule)]
    if without and name not in (*search.smoothing_params, *search.loss_params, "schedule"):
        expected = f"a hyperparameter of every schedule in search.schedule; {without[0]} does not have it"
        yield "search.compare", name, expected, ("search.schedule",)
    if smoothed := [variant for variant in study.curriculum.variants if has_compared_param(study, variant)]:
        expected = f"variants without {name}, the hyperparameter that search.compare names; {smoothed[0]} has it"
        yield "curriculum.variants", list(study.curriculum.variants), expected, ("search.compare",)


def _find_search_errors(study: Study) -> Iterator[ConfigError]:
    search = study.search
    if search.pruning == "race" and len(study.seeds) < 4:
        yield "search.pruning", "race", "at least 4 seeds, because the first round uses 3", ("seeds",)
    if search.gpu_hours and not study.resources.gpu:
        yield "search.gpu_hours", search.gpu_hours, "none while resources.gpu = 0", ("resources.gpu",)
    yield from _find_confirm_errors(study)
    grid = {**search.smoothing_grid, **search.optimisation_grid, **study.curriculum.grid}
    if (size := prod(map(len, grid.values()))) > _MAX_CONFIGURATIONS:
        yield "search", f"{size} configurations", f"at most {_MAX_CONFIGURATIONS}", ()
        return
    named: dict[str, list[str]] = {}
    for name, system in get_systems(study).items():
        named.setdefault(system.n_configurations_key, []).append(name)
        if system.n_configurations_key != name:
            named.setdefault(name, []).append(name)
    for variant, number in search.n_configurations.items():
        key = f"search.n_configurations.{variant}"
        if variant not in named and variant not in study.study_type.variants:
            yield key, number, f"a system of the study: {', '.join(named)}", ("curriculum",)
        elif variant == get_baseline(study) and variant not in count_proposals(study):
            expected = (
                "no value: the baseline has nothing to search unless a setting such as search.learning_rate is set"
            )
            yield key, number, expected, ()
        elif variant in named:
            size = max(count_configurations(study, name) for name in named[variant])
            related = tuple(f"search.{name}" for name in (*search.smoothing_params, "schedule_settings", "sampler"))
            if search.sampler == "grid" and number != size:
                yield key, number, f"{size} or none: the sampler grid runs them all", related
            if number > size:
                each = f" at each {search.compare}" if named[variant] != [variant] else ""
                expected = f"at most {size}, the number of distinct configurations of its grid{each}"
                yield key, number, expected, related


def _find_confirm_errors(study: Study) -> Iterator[ConfigError]:
    confirm, seeds = study.confirm, list(study.confirm.seeds)
    twice = sorted({*confirm.seeds} & {*study.seeds})
    if twice and chooses_by_scores(study):
        yield "confirm.seeds", seeds, f"fresh seeds; seeds also contains {twice}", ("seeds",)
    if confirm.group_size is not None and confirm.group_size >= len(seeds):
        expected = "fewer than the number of confirm.seeds" + ("" if seeds else ", which is empty")
        yield "confirm.group_size", confirm.group_size, expected, ("confirm.seeds",)
    if confirm.group_size is not None and study.analysis.seeds == "pooled":
        expected = '"own" while confirm.group_size is set, because its looks have different numbers of seeds'
        yield "analysis.seeds", study.analysis.seeds, expected, ("confirm.group_size",)


def _find_comparison_errors(study: Study) -> Iterator[ConfigError]:
    """Yield errors of named comparisons; a pair in the other order is the same comparison."""
    key, related, systems_by_name = "analysis.comparisons", ("variants", "curriculum.variants"), get_systems(study)
    pairs = [*list_default_comparisons(study), *list_sanity_comparisons(study)]
    named, planned = [*systems_by_name, *study.references], {frozenset(pair): pair for pair in pairs}
    seen = set[frozenset[str]]()
    for pair in study.analysis.comparisons:
        value, systems = list(pair), frozenset(pair)
        if not systems <= {*named} or len(systems) < 2 or not systems & systems_by_name.keys():
            yield key, value, f"two different systems out of {', '.join(named)}, one of them trained", related
        elif systems in planned:
            system, baseline = planned[systems]
            yield key, value, f"no comparison that the plan has anyway: {system} with {baseline}", related
        elif systems in seen:
            yield key, value, "each comparison once", ()
        seen.add(systems)


def _find_collection_errors(study: Study) -> Iterator[ConfigError]:
    labels = [each.label for each in study.evaluate]
    if labels and study.study_type.collection is None:
        yield (
            "evaluate",
            labels,
            f"none, since studies of {study.trainable} have no further collections",
            ("trainable",),
        )
    if twice := [label for label in labels if labels.count(label) > 1]:
        yield "evaluate.label", twice[0], "labels that differ", ("evaluate",)


def _find_optimisation_errors(study: Study) -> Iterator[ConfigError]:
    """Yield errors of searched settings of the optimisation: lists without the study's value."""
    for name, values in study.search.optimisation_grid.items():
        key, default = get_own_value(study, name)
        if default not in values:
            expected = f"a list that contains {key} = {default}"
            yield f"search.{name.replace(LORA, 'lora.')}", list(values), expected, (key,)
