"""Writes a system's model as a folder for other programs, with a model card."""

import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from analysis.rendering.model_card import ModelFacts, render_model_card
from analysis.tables.main import ReportData
from records.run_record import get_scores_path, read_run_record
from records.scores import read_scores
from study.config.schema import Study
from study.config.sources import flatten_settings
from study.models.chosen import ChosenRun, list_chosen_runs, make_trial, read_finished_study, select_run
from study.models.weights import load_final_weights
from study.plan.study_file import get_model_label
from trainables.models.pretrained import read_licence
from trainables.reranking.resolved_models import ENSEMBLE_FILE
from trainables.specs.plugin import ExportedModel, ExportForm, get_trainable
from trainables.specs.trial import TrialSpec
from trainables.utils.arrays import Floats
from trainables.utils.errors import MachineError, UserError
from trainables.utils.files import remove_stale_files, write_folder_atomically, write_json

_CHECKED_PAIRS = 64
"""Number of test pairs that an export is checked with."""
_TOLERANCE = 1e-4
"""Largest difference of a score from the study's, in standard deviations of the study's scores, if both were computed
in fp32 on a processor."""
_ROUNDING = 1e-5
"""Difference of scores of size 1, or of that of the largest score, that is rounding of fp32 even if all are equal."""


class Export(NamedTuple):
    """A written model.

    Attributes:
        runs: the run of each model.
        folders: folder of each model, in the order of the runs.
        check: how far its scores are from those of the study.
    """

    runs: list[ChosenRun]
    folders: list[Path]
    check: str


def export_system(
    study: Study,
    system: str,
    folder: Path,
    command: str,
    log: Callable[[str], None],
    seed: int | None = None,
    average: bool = False,
    form: ExportForm | None = None,
) -> Export:
    """Write the model of a system of a study that has been run, or the models of all its seeds as an ensemble.

    A model of an ensemble is in the folder `seed-<seed>`, and `ensemble.json` lists these folders. Each model is loaded
    as a user loads it, and must give the scores of the study. Nothing is written if it does not.

    Raises:
        UserError: the study has no such results, the folder exists, the weights or the data of a run are gone, or a
            model cannot be written in this form.
        MachineError: a written model does not give the scores of the study.
    """
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    report_data = read_finished_study(study)
    runs = list_chosen_runs(study, report_data, system)
    if not average:
        runs = [select_run(study, runs, seed)]
    return _export_runs(study, report_data, runs, folder, command, log, form)


def _export_runs(
    study: Study,
    report_data: ReportData,
    runs: Sequence[ChosenRun],
    folder: Path,
    command: str,
    log: Callable[[str], None],
    form: ExportForm | None = None,
) -> Export:
    if os.path.lexists(folder):
        raise UserError("--to", f"{folder} exists", "a folder that does not exist yet")
    _prepare_data(study, runs[0], log)
    trial = make_trial(study, runs[0].specification)
    names = [f"seed-{run.specification.seed}" for run in runs] if len(runs) > 1 else []
    remove_stale_files(folder.parent)  # of an export that was killed
    with write_folder_atomically(folder) as draft:
        exported, checks = [], list[ScoreCheck]()
        for run, place in zip(runs, [draft / name for name in names] or [draft], strict=True):
            place.mkdir(exist_ok=True)
            own = trial.model_copy(update={"specification": run.specification})
            weights = load_final_weights(study, run, own, log)
            backend = get_trainable(run.specification).export_backend
            exported.append(backend.export_model(own, weights, place, form))
            checks.append(_check_scores(study, run, own, place))
        check = _describe_check(runs, checks)
        facts = _collect_facts(study, trial, runs, names, exported[0], check, command)
        (draft / "README.md").write_text(render_model_card(report_data, facts), encoding="utf-8")
        if names:
            write_json(draft / ENSEMBLE_FILE, {"models": names})
    return Export([*runs], [folder / name for name in names] or [folder], check)


def _prepare_data(study: Study, run: ChosenRun, log: Callable[[str], None]) -> None:
    prepared = study.study_type.trainable.data_backend.prepare_data(study.task, study.cache_folder, log)
    if prepared.fingerprint != run.specification.data:
        found = f"data with the fingerprint {prepared.fingerprint}"
        raise UserError("task", found, f"the data that the study was run on, {run.specification.data}")


class ScoreCheck(NamedTuple):
    """Comparison of the scores of an exported model with those of the study.

    Attributes:
        spread: standard deviation of the study's scores.
        largest: size of the study's largest score.
        n_pairs: pairs of documents of one query that the study orders.
        n_swapped: those that the exported model orders the other way, or not at all.
    """

    difference: float
    spread: float
    largest: float
    n_pairs: int
    n_swapped: int

    @property
    def is_passed(self) -> bool:
        """True if the difference is rounding of fp32. Documents with larger differences of scores keep their order."""
        return self.difference <= max(_TOLERANCE * self.spread, _ROUNDING * max(1.0, self.largest))


def compare_scores(scores: Floats, recorded: Floats, queries: Sequence[str]) -> ScoreCheck:
    """Compare the scores of an exported model with those of the study.

    Args:
        scores: scores of the exported model, shape (pairs,).
        recorded: those of the study, shape (pairs,).
        queries: query of each pair, shape (pairs,).

    Example:
        >>> compare_scores(np.array([5.9, 6.0, 1.0]), np.array([5.9, 6.1, 1.0]), ["a", "a", "b"])[3:]
        (1, 0)
    """
    names = np.asarray(queries)
    first, second = np.triu_indices(len(names), 1)
    is_ordered = (names[first] == names[second]) & (recorded[first] != recorded[second])
    first, second = first[is_ordered], second[is_ordered]
    is_same = np.sign(scores[first] - scores[second]) == np.sign(recorded[first] - recorded[second])
    return ScoreCheck(
        difference=float(np.max(np.abs(scores - recorded), initial=0)),
        spread=float(np.std(recorded)) if len(recorded) else 0.0,
        largest=float(np.max(np.abs(recorded), initial=0)),
        n_pairs=len(first),
        n_swapped=int(np.count_nonzero(~is_same)),
    )


def _check_scores(study: Study, run: ChosenRun, trial: TrialSpec, folder: Path) -> ScoreCheck:
    plugin = get_trainable(run.specification)
    positions, scores = plugin.export_backend.score_with_export(trial, folder, "test", _CHECKED_PAIRS)
    recorded = read_scores(get_scores_path(study.folder, run.specification.id, "test"), "test").iloc[positions]
    check = compare_scores(scores, recorded["score"].to_numpy(dtype=float), recorded["query_id"].tolist())
    if _is_exact(run) and not check.is_passed:
        raise MachineError(
            f"the exported model of {run.label} gives other scores than the study: they differ "
            f"{_describe_difference([check])}",
            "use the library versions of the run's record.json; a rerun gives the same",
        )
    return check


def _describe_difference(checks: Sequence[ScoreCheck]) -> str:
    """Describe the largest difference of the scores, and how far the order of the documents is the study's."""
    worst = max(checks, key=lambda check: check.difference / (check.spread or 1.0))
    n_pairs, n_swapped = sum(check.n_pairs for check in checks), sum(check.n_swapped for check in checks)
    share = f", {worst.difference / worst.spread:.1g} of their standard deviation" if worst.spread else ""
    order = f"; {n_pairs - n_swapped} of {n_pairs} pairs of documents have the study's order" if n_pairs else ""
    return f"by at most {worst.difference:.1g}{share}{order}"


def _is_exact(run: ChosenRun) -> bool:
    """Return whether the study computed its scores in fp32 on a processor, as the check does."""
    training, environment = run.specification.training, run.specification.environment
    assert training is not None
    assert environment is not None
    return training.evaluation_precision == "fp32" and environment.device_type == "cpu"


def _describe_check(runs: Sequence[ChosenRun], checks: Sequence[ScoreCheck]) -> str:
    training = runs[0].specification.training
    assert training is not None
    return (
        f"on up to {_CHECKED_PAIRS} pairs of the test split, its scores in fp32 differ from the study's, computed in "
        f"{training.evaluation_precision}, {_describe_difference(checks)}"
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
    name = study.model.name
    is_id = re.fullmatch(r"[\w.-]+/[\w.-]+", name) is not None and not Path(name).is_dir()
    return ModelFacts(
        system=runs[0].system,
        seeds=[run.specification.seed for run in runs if run.specification.seed is not None],
        folders=names,
        **exported._asdict(),
        check=check,
        fingerprint=specification.data,
        base=get_model_label(name),
        base_id=name if is_id else None,
        licence=read_licence(path),
        settings={
            setting: value if isinstance(value, str) else json.dumps(value)
            for setting, value in flatten_settings(specification.model_dump(mode="json"))
            if value not in (None, [], {}, "")
        },
        versions=record.get("versions", {}),
        command=command,
    )
