"""Writes a system's model as a folder for other programs, with a model card."""

import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from analysis.data.scores import read_scores
from analysis.rendering.model_card import ModelFacts, render_model_card
from analysis.tables.main import ReportData
from study.config.schema import Study
from study.models.chosen import ChosenRun, make_trial
from study.models.weights import load_final_weights
from study.records.run_record import get_scores_path, read_run_record
from trainables.models.pretrained import read_licence
from trainables.reranking.models import ENSEMBLE_FILE
from trainables.specs.plugin import ExportedModel, get_trainable
from trainables.specs.trial import TrialSpec
from trainables.utils.errors import MachineError, UserError
from trainables.utils.files import write_folder_atomically, write_json

_CHECKED_PAIRS = 64
"""Pairs of the test split whose scores an export is checked by."""
_TOLERANCE = 1e-5
"""Largest difference of a score from the study's, if both were computed in fp32 on a processor."""


class Export(NamedTuple):
    """A written model.

    Attributes:
        folders: folder of each model, in the order of the runs.
        check: how far its scores are from those of the study.
    """

    folders: list[Path]
    check: str


def export_models(
    study: Study,
    analysis: ReportData,
    runs: Sequence[ChosenRun],
    folder: Path,
    command: str,
    log: Callable[[str], None],
) -> Export:
    """Write the model of one run, or the models of several runs of a system as an ensemble.

    A model of an ensemble is in the folder `seed-<seed>`, and `ensemble.json` lists these folders. Each model is loaded
    as a user loads it, and must give the scores of the study. Nothing is written if it does not.

    Args:
        study: the study.
        analysis: its results.
        runs: runs of one system.
        folder: folder to write, which must not exist.
        command: command for the card.
        log: called with a line for each step that takes time.

    Raises:
        UserError: the folder exists, or the weights or the data of a run are gone.
        MachineError: a written model does not give the scores of the study.
    """
    if os.path.lexists(folder):
        raise UserError("--to", f"{folder} exists", "a folder that does not exist yet")
    _prepare_data(study, runs[0], log)
    trial = make_trial(study, runs[0].specification)
    names = [f"seed-{run.specification.seed}" for run in runs] if len(runs) > 1 else []
    with write_folder_atomically(folder) as draft:
        exported, differences = [], []
        for run, place in zip(runs, [draft / name for name in names] or [draft], strict=True):
            place.mkdir(exist_ok=True)
            own = trial.model_copy(update={"specification": run.specification})
            weights = load_final_weights(study, run, own, log)
            backend = get_trainable(run.specification).export_backend
            exported.append(backend.export_model(own, weights, place))
            differences.append(_measure_difference(study, run, own, place))
        check = _describe_check(runs, differences)
        facts = _collect_facts(study, trial, runs, names, exported[0], check, command)
        (draft / "README.md").write_text(render_model_card(analysis, facts), encoding="utf-8")
        if names:
            write_json(draft / ENSEMBLE_FILE, {"models": names})
    return Export([folder / name for name in names] or [folder], check)


def _prepare_data(study: Study, run: ChosenRun, log: Callable[[str], None]) -> None:
    prepared = study.study_type.trainable.data_backend.prepare_data(study.task, study.cache, log)
    if prepared.fingerprint != run.specification.data:
        found = f"data with the fingerprint {prepared.fingerprint}"
        raise UserError("task", found, f"the data that the study was run on, {run.specification.data}")


def _measure_difference(study: Study, run: ChosenRun, trial: TrialSpec, folder: Path) -> float:
    """Return the largest difference of a score from the one that the study recorded, relative to 1 or to its size."""
    plugin = get_trainable(run.specification)
    positions, scores = plugin.export_backend.score_with_export(trial, folder, "test", _CHECKED_PAIRS)
    path = get_scores_path(study.folder, run.specification.id, "test")
    recorded = read_scores(path, "test")["score"].to_numpy()[positions]
    difference = float(np.max(np.abs(scores - recorded) / np.maximum(1, np.abs(recorded)), initial=0))
    if _is_exact(run) and difference > _TOLERANCE:
        raise MachineError(
            f"the exported model of {run.label} gives other scores than the study: they differ by {difference:.2g}"
        )
    return difference


def _is_exact(run: ChosenRun) -> bool:
    """Return whether the study computed its scores in fp32 on a processor, as the check does."""
    training, environment = run.specification.training, run.specification.environment
    assert training is not None
    assert environment is not None
    return training.evaluation_precision == "fp32" and environment.device_type == "cpu"


def _describe_check(runs: Sequence[ChosenRun], differences: Sequence[float]) -> str:
    training = runs[0].specification.training
    assert training is not None
    return (
        f"on up to {_CHECKED_PAIRS} pairs of the test split, its scores in fp32 differ from the study's, computed in "
        f"{training.evaluation_precision}, by at most {max(differences):.1g}"
    )


def _collect_facts(
    study: Study,
    trial: TrialSpec,
    runs: Sequence[ChosenRun],
    names: list[str],
    exported: ExportedModel,
    check: str,
    command: str,
) -> ModelFacts:
    specification = trial.specification
    path, record = trial.model_path, read_run_record(study.folder, specification.id)
    assert path is not None
    assert record is not None
    is_id = re.fullmatch(r"[\w.-]+/[\w.-]+", study.model.name) is not None
    return ModelFacts(
        system=runs[0].system,
        seeds=[run.specification.seed for run in runs if run.specification.seed is not None],
        folders=names,
        **exported._asdict(),
        check=check,
        fingerprint=specification.data,
        base=study.model.name if is_id or study.model.name.startswith("package:") else path.name,
        base_id=study.model.name if is_id else None,
        licence=read_licence(path),
        settings=dict(_list_settings(specification.model_dump(mode="json"))),
        versions=record.get("versions", {}),
        command=command,
    )


def _list_settings(values: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return the settings of a specification by dotted name, without those that are unset."""
    rows = list[tuple[str, str]]()
    for name, value in values.items():
        if isinstance(value, dict):
            rows += _list_settings(value, f"{prefix}{name}.")
        elif value not in (None, [], ""):
            rows.append((prefix + name, value if isinstance(value, str) else json.dumps(value)))
    return rows
