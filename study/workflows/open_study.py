"""How every start on a study's folder begins, whether all of the study runs or one configuration of it."""

from pathlib import Path
from typing import Any, NamedTuple

from study.config.loader import Study
from study.execution.resolve import resolve_study
from study.execution.slots import connect_or_check
from study.plan import analysis_plan as plan
from study.plan import diff as changes
from study.records import run_record as record
from study.records.plan_file import PLAN_FILE
from study.records.remote import RemoteRecords
from study.scheduling.trials import ResolvedInputs
from study.utils.console import print_line
from study.workflows.cleanup import check_writable, clean_up_study
from trainables.specs.plugin import PreparedData
from trainables.storage import open_storage
from trainables.storage.leases import Leases
from trainables.utils.errors import UserError
from trainables.worker.limits import check_memory_limit as check_limits


class OpenStudy(NamedTuple):
    """A study whose names are resolved, and whose plan stands in its folder."""

    study: Study
    """From here on without paths of the task."""
    resolved: ResolvedInputs
    plan_hash: str
    remote_records: RemoteRecords | None
    """Where its records are kept beside the folder, if there is such a place."""
    prepared: PreparedData


def open_study(study: Study, is_exclusive: bool = True) -> OpenStudy:
    """Checks folder, machine and data, takes up what is recorded elsewhere, and settles the plan.

    Args:
        study: what was asked for.
        alone: whether no other process may be running parts of the study.

    Raises:
        UserError: the model, the task or the folder is not what the study says.
    """
    folder = study.folder
    plan.check_folder(study, folder)
    check_limits(study.trial.memory)
    connect_or_check(study)
    check_writable(study)
    clean_up_study(study, is_exclusive)
    record.set_aside_damaged_records(folder, print_line)
    remote_records = RemoteRecords(study.records_url) if study.records_url else None
    if remote_records:
        print_line(f"{len(remote_records.download_study(folder, study.name))} runs taken from {study.records_url}")
    study, resolved, prepared = resolve_study(study, print_line)
    _check_recorded_inputs(folder, resolved)
    data = study.study_type.trainable.data_backend
    data.check_data(study, prepared)
    study = study.model_copy(update={"task": prepared.settings})
    with Leases(open_storage(str(folder))).acquire(f".{PLAN_FILE}"):
        plan_document, plan_hash = _update_plan(study, resolved.model_digest, folder, data.describe_data(prepared))
    print_line(f"study {study.name}, plan {plan_hash} version {plan_document['version']}, results in {folder}")
    return OpenStudy(study, resolved, plan_hash, remote_records, prepared)


def _update_plan(study: Study, digest: str, folder: Path, data: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The plan in force; says what is new about it, or why it cannot be new."""
    differences = changes.list_changed_settings(folder, plan.build_plan(study, digest, data))
    try:
        plan_document, plan_hash = plan.register_plan(study, digest, folder, data)
    except UserError as error:
        found = f"test scores of this study as it was before: {'; '.join(differences)}"
        raise UserError(
            str(folder), found, "the earlier values, or another output.folder for the changed study"
        ) from error
    if differences:
        print_line(f"plan version {plan_document['version']}: {'; '.join(differences)}; finished runs are kept")
    return plan_document, plan_hash


def _check_recorded_inputs(folder: Path, resolved: ResolvedInputs) -> None:
    """Refuses to add to test scores that came from other data, another model or another environment."""
    for path in folder.glob("runs/*/test.json"):
        entry = record.read_run_record(folder, path.parent.name, "test")
        specification = entry["config"]["specification"] if entry else {}
        if specification.get("model"):
            found = (specification["data"], specification["model"]["name"], specification["environment"])
            here = (resolved.fingerprint, resolved.model_digest, resolved.environment.model_dump(mode="json"))
            if found != here:
                what = "test scores from other data, another model, other libraries or another processor"
                raise UserError(str(folder), what, "another output.folder, or what they were made with")
