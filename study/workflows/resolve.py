"""Resolves what a study refers to: data, model files, the environment of its trials, training length."""

import os
from collections.abc import Callable
from pathlib import Path

from study.config.schema import Study
from study.config.training_length import describe_length, resolve_length
from study.plan.collections import prepare_collections
from study.plan.study_file import get_model_label
from study.scheduling.trials import ResolvedInputs
from trainables.difficulty.word_vectors import hash_vectors_file, load_vectors_from_file
from trainables.exchange.head_form import check_model
from trainables.models.pretrained import (
    hash_model,
    hash_module_files,
    read_architecture,
    resolve_model_path,
)
from trainables.specs.environment import DeviceType, detect_environment, resolve_precision
from trainables.specs.plugin import PreparedData
from trainables.specs.run_spec import BaseTrainingSettings, Environment
from trainables.utils.errors import UserError


def resolve_study(
    study: Study, cluster: str | None, log: Callable[[str], None]
) -> tuple[Study, ResolvedInputs, PreparedData]:
    """Resolve the settings of a study and prepare its data if necessary.

    Returns:
        The study with resolved training settings, its resolved inputs, and its prepared data.

    Raises:
        UserError: the task, the model or the word vectors are not what the study says, its training is too short, no
            machine can run a trial, or the nodes of a cluster differ.
    """
    path = resolve_model_path(study.model.name)
    check_model(path, study.model)
    digest = hash_model(path, study.model)
    environment, training = _resolve_environment(study, cluster, path, log)
    if environment.device_type == "cuda" and (study.training.precision, training.precision) == ("auto", "fp32"):
        gpu = environment.device.removeprefix("cuda:")
        log(f"training.precision is fp32: the GPU ({gpu}) has no bf16, which needs compute capability 8.0")
    if training.cuda_graphs and read_architecture(path).padding_mask is not None:
        raise UserError("training.cuda_graphs", "true", f"false: the layers of {study.model.name} run padded")
    study = study.model_copy(update={"training": training})
    prepared = study.study_type.trainable.data_backend.prepare_data(study.task, study.cache_folder, log)
    study, collections = prepare_collections(study, log)
    if study.training.epochs is not None:
        log(describe_length(study, prepared))
    vectors = _find_word_vectors(study)
    curriculum = study.curriculum.model_copy(update={"vectors": vectors and hash_vectors_file(vectors)})
    study = resolve_length(study.model_copy(update={"curriculum": curriculum}), prepared)
    inputs = ResolvedInputs(
        prepared.fingerprint,
        digest,
        path,
        environment,
        prepared.domains,
        curriculum.vectors,
        vectors,
        get_model_label(study.model.name),
        study.task.describe_source(),
        collections,
        hash_module_files(path),
    )
    return study, inputs, prepared


def _resolve_environment(
    study: Study, cluster: str | None, model: Path, log: Callable[[str], None]
) -> tuple[Environment, BaseTrainingSettings]:
    """Return the environment and the training settings of trials on the machines where they will run."""
    device: DeviceType = "cuda" if study.resources.gpu else "cpu"
    if cluster is None:
        return detect_environment(device), resolve_precision(study.training, device)
    from study.execution.nodes import probe_nodes  # imports ray

    node_info = probe_nodes(study, model, device, log)
    return node_info.environment, node_info.training


def _find_word_vectors(study: Study) -> Path | None:
    """Return the file of word vectors if a difficulty score of the study needs one, else None.

    The file is read once here, so that errors show up before any work is done.
    """
    name, scores = study.curriculum.vectors, study.curriculum.score if study.curriculum.variants else ()
    if not name or "sigma_SM" not in scores:
        return None
    path = Path(os.path.expanduser(name)).absolute()
    load_vectors_from_file(path)(["the"])
    return path
