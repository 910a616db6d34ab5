"""How long training is: passes over the training queries become instances once the data is known."""

import math

from study.config.schema import Study
from study.config.validation import of_training
from trainables.specs.base import CommonTraining
from trainables.specs.plugin import Prepared
from trainables.utils.errors import UserError


def settled(study: Study, prepared: Prepared) -> Study:
    """The study with its training in instances.

    Raises:
        UserError: training is then too short for its evaluations.
    """
    if study.training.epochs is None:
        return study
    training = in_instances(study.training, training_queries(prepared))
    for key, value, expected, _ in of_training(study, training):
        raise UserError(key, value, f"{expected} of training.epochs = {study.training.epochs:g}")
    return study.model_copy(update={"training": training})


def in_instances(training: CommonTraining, queries: int) -> CommonTraining:
    """The settings with `instances` for `epochs`.

    An epoch is each of the `queries` once, with whatever instances it has; the whole is rounded to the nearest batch,
    a half one up, and is at least one.
    """
    if training.epochs is None:
        return training
    batches = math.floor(training.epochs * queries * training.per_unit() / training.batch_size + 0.5)
    return training.model_copy(update={"epochs": None, "instances": max(1, batches) * training.batch_size})


def training_queries(prepared: Prepared) -> int:
    """Queries of the training split."""
    return int(prepared.meta()["splits"]["train"]["queries"])


def told(study: Study, prepared: Prepared) -> str:
    """What the study's epochs come to, in one line."""
    training, queries = study.training, training_queries(prepared)
    found = in_instances(training, queries).instances
    return f"training.epochs = {training.epochs:g} of {queries} in the training split: {found} instances a run"
