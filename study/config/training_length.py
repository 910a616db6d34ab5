"""How long training is: passes over the training queries become instances once the data is known."""

import math

from study.config.schema import Study
from study.config.validation import find_training_errors
from trainables.specs.base import BaseTrainingSettings
from trainables.specs.plugin import PreparedData
from trainables.utils.errors import UserError


def resolve_length(study: Study, prepared: PreparedData) -> Study:
    """The study with its training in instances.

    Raises:
        UserError: training is then too short for its evaluations.
    """
    if study.training.epochs is None:
        return study
    training = convert_to_instances(study.training, count_training_queries(prepared))
    for key, value, expected, _ in find_training_errors(study, training):
        raise UserError(key, value, f"{expected} of training.epochs = {study.training.epochs:g}")
    return study.model_copy(update={"training": training})


def convert_to_instances(training: BaseTrainingSettings, queries: int) -> BaseTrainingSettings:
    """The settings with `instances` for `epochs`.

    An epoch is each of the `queries` once, with whatever instances it has; the whole is rounded to the nearest batch,
    a half one up, and is at least one.
    """
    if training.epochs is None:
        return training
    batches = math.floor(training.epochs * queries * training.instances_per_query() / training.batch_size + 0.5)
    return training.model_copy(update={"epochs": None, "instances": max(1, batches) * training.batch_size})


def count_training_queries(prepared: PreparedData) -> int:
    """Queries of the training split."""
    return int(prepared.read_metadata()["splits"]["train"]["queries"])


def describe_length(study: Study, prepared: PreparedData) -> str:
    """What the study's epochs come to, in one line."""
    training, queries = study.training, count_training_queries(prepared)
    found = convert_to_instances(training, queries).instances
    return f"training.epochs = {training.epochs:g} of {queries} in the training split: {found} instances a run"
