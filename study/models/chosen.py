"""The runs with models that a study can export: those of the chosen configuration of a system."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from analysis.readers.study_reader import read_records
from analysis.tables.main import ReportData, build_report_data
from records.plan_file import PLAN_FILE
from study.config.schema import Study
from study.folder.run_store import RunStore
from study.scheduling.choice import select_best_run
from study.scheduling.trials import build_trial
from trainables.models.pretrained import hash_model, resolve_model_path
from trainables.specs.run_spec import RunSpec
from trainables.specs.trial import TrialSpec
from trainables.utils.errors import UserError


class ChosenRun(NamedTuple):
    """A tested run of a chosen configuration."""

    system: str
    specification: RunSpec
    summary: dict[str, Any]

    @property
    def label(self) -> str:
        """System and seed, for messages."""
        return f"{self.system} (seed {self.specification.seed})"


def read_finished_study(study: Study) -> ReportData:
    """Return the results of a study from its folder.

    Raises:
        UserError: the study has not been run, or a record is damaged.
    """
    if not (study.folder / PLAN_FILE).is_file():
        raise UserError(str(study.folder), "no results", "a study that has been run, with the same overrides")
    return build_report_data(read_records(study.folder))


def list_chosen_runs(study: Study, report_data: ReportData, system: str) -> list[ChosenRun]:
    """Return the tested runs of a system's chosen configuration, in the order of the seeds of the test.

    Raises:
        UserError: there is no such system, it has no model, or it was not tested.
    """
    plan = report_data.results.plan
    trained = [name for name in report_data.chosen if name not in study.references]
    if system not in trained:
        found = f"{system}, which has no model of its own" if system in report_data.chosen else repr(system)
        raise UserError("SYSTEM", found, f"one of {', '.join(trained)}")
    configuration = report_data.chosen[system]
    if study.study_type.trainable.export_module is None:
        raise UserError("SYSTEM", f"{system} of the trainable {study.trainable}", "a trainable with an export module")
    if configuration is None:
        raise UserError(str(study.folder), f"no test scores of {system}", "a study that has ended; rerun it to resume")
    seeds = configuration.expected_seeds(plan, "test")
    runs = [run for seed in seeds if (run := configuration.runs.get(seed)) and plan.test_split in run.files]
    parse = study.study_type.specification.model_validate
    return [ChosenRun(system, parse(run.config["specification"]), run.summary) for run in runs]


def select_run(study: Study, runs: Sequence[ChosenRun], seed: int | None) -> ChosenRun:
    """Return the run of a seed, or the one with the best dev score.

    Args:
        study: the study.
        runs: tested runs of a system, at least one.
        seed: a seed. If None, the dev score decides, and the first seed on a tie.

    Raises:
        UserError: the system was not tested with this seed.
    """
    by_seed = {run.specification.seed: run for run in runs}
    if seed is None:
        store, metric = RunStore(study.folder), study.analysis.metric
        return by_seed[select_best_run([run.specification for run in runs], store, metric).seed]
    if seed not in by_seed:
        raise UserError("--seed", seed, f"a seed that {runs[0].system} was tested with: {', '.join(map(str, by_seed))}")
    return by_seed[seed]


def make_trial(study: Study, specification: RunSpec, is_scorer: bool = False) -> TrialSpec:
    """Return the trial that trains a run, on this machine.

    Raises:
        UserError: the study names another model than the run had.
    """
    assert specification.model is not None
    path = resolve_model_path(study.model.name)
    digest = hash_model(path, study.model)
    if digest != specification.model.name:
        found = f"{study.model.name} with the digest {digest}"
        raise UserError("model.name", found, f"the model that was trained, with the digest {specification.model.name}")
    vectors = Path(study.curriculum.vectors).expanduser().absolute() if study.curriculum.vectors else None
    return build_trial(study, specification, vectors, model_path=path, saves_difficulty=is_scorer)
