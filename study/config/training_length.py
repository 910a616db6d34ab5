"""Resolves the training length: converts epochs to instances once the data is known."""

import math
from collections.abc import Mapping

from study.config.schema import Study
from study.config.validation import find_training_errors
from trainables.specs.plugin import PreparedData
from trainables.specs.run_spec import BaseTrainingSettings
from trainables.utils.errors import UserError


def resolve_length(study: Study, prepared: PreparedData) -> Study:
    """Return the study with the lengths of its training, and of that of the scoring run, in instances.

    Args:
        study: the study as it was read.
        prepared: the prepared data, which has the numbers of training queries and relevant documents.

    Raises:
        UserError: if a training is then too short for its evaluations.
    """
    epochs, scorer_epochs = study.training.epochs, study.curriculum.scorer_epochs
    counts = read_training_counts(prepared)
    if epochs is not None:
        training = convert_to_instances(study.training, counts)
        for key, value, expected, _ in find_training_errors(study, training):
            raise UserError(key, value, f"{expected} of training.epochs = {epochs:g}")
        study = study.model_copy(update={"training": training})
    if scorer_epochs is not None:
        study = study.with_scorer_instances(convert_to_instances(study.scorer_training, counts).instances)
        training = study.scorer_training
        if training.evaluations > training.instances // training.batch_size:
            expected = f"at least {training.evaluations} batches, one for each of training.evaluations"
            raise UserError("curriculum.scorer_epochs", f"{scorer_epochs:g}", expected)
    return study


def convert_to_instances(training: BaseTrainingSettings, counts: Mapping[str, int]) -> BaseTrainingSettings:
    """Return the settings with `instances` in place of `epochs`.

    In one epoch, training sees each query once, with all its instances. The total is rounded to whole batches, with
    halves rounded up, and is at least one batch.

    Args:
        training: the settings of training; returned unchanged if `epochs` is None.
        counts: metadata of the training split, see `BaseTrainingSettings.count_epoch_instances`.

    Example:
        >>> from study.config.loader import load_study
        >>> training = load_study("quick", ["training.epochs=2", "training.batch_size=16"]).training
        >>> convert_to_instances(training, {"queries": 20}).instances
        80
    """
    if training.epochs is None:
        return training
    batches = math.floor(training.epochs * training.count_epoch_instances(counts) / training.batch_size + 0.5)
    return training.model_copy(update={"epochs": None, "instances": max(1, batches) * training.batch_size})


def read_training_counts(prepared: PreparedData) -> dict[str, int]:
    """Return the metadata of the training split, such as the number of queries."""
    counts: dict[str, int] = prepared.read_metadata()["splits"]["train"]
    return counts


def describe_length(study: Study, prepared: PreparedData) -> str:
    """Describe the length of the study's epochs in one line."""
    training, counts = study.training, read_training_counts(prepared)
    instances = convert_to_instances(training, counts).instances
    return f"training.epochs = {training.epochs:g}: {counts['queries']} training queries, {instances} instances per run"
