"""How every start on a study's folder begins, whether all of the study runs or one configuration of it."""

from pathlib import Path
from typing import Any, NamedTuple

from study.config.loader import Study
from study.execution.resolve import resolve
from study.execution.slots import ready
from study.plan import analysis_plan as plan
from study.plan import diff as changes
from study.records import run_record as record
from study.records.plan_file import NAME
from study.records.remote import Archive
from study.scheduling.trials import Resolved
from study.utils.console import say
from study.workflows.cleanup import check_writable, clean
from trainables.specs.plugin import Prepared
from trainables.storage import open_storage
from trainables.storage.locks import Claims
from trainables.utils.errors import UserError
from trainables.worker.limits import check as check_limits


class Opened(NamedTuple):
    """A study whose names are resolved, and whose plan stands in its folder."""

    study: Study
    """From here on without paths of the task."""
    resolved: Resolved
    plan_hash: str
    archive: Archive | None
    """Where its records are kept beside the folder, if there is such a place."""
    prepared: Prepared


def opened(study: Study, alone: bool = True) -> Opened:
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
    ready(study)
    check_writable(study)
    clean(study, alone)
    record.set_aside_damaged(folder, say)
    archive = Archive(study.records) if study.records else None
    if archive:
        say(f"{len(archive.join(folder, study.name))} runs taken from {study.records}")
    study, resolved, prepared = resolve(study, say)
    _check_recorded(folder, resolved)
    data = study.kind.trainable.data
    data.check(study, prepared)
    study = study.model_copy(update={"task": prepared.settings})
    with Claims(open_storage(str(folder))).held(f".{NAME}"):
        declared, plan_hash = _settled(study, resolved.model_digest, folder, data.described(prepared))
    say(f"study {study.name}, plan {plan_hash} version {declared['version']}, results in {folder}")
    return Opened(study, resolved, plan_hash, archive, prepared)


def _settled(study: Study, digest: str, folder: Path, data: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The plan in force; says what is new about it, or why it cannot be new."""
    differences = changes.since(folder, plan.declared(study, digest, data))
    try:
        declared, plan_hash = plan.settle(study, digest, folder, data)
    except UserError as error:
        found = f"test scores of this study as it was before: {'; '.join(differences)}"
        raise UserError(
            str(folder), found, "the earlier values, or another output.folder for the changed study"
        ) from error
    if differences:
        say(f"plan version {declared['version']}: {'; '.join(differences)}; finished runs are kept")
    return declared, plan_hash


def _check_recorded(folder: Path, resolved: Resolved) -> None:
    """Refuses to add to test scores that came from other data, another model or another environment."""
    for path in folder.glob("runs/*/test.json"):
        entry = record.read(folder, path.parent.name, "test")
        specification = entry["config"]["specification"] if entry else {}
        if specification.get("model"):
            found = (specification["data"], specification["model"]["name"], specification["environment"])
            here = (resolved.fingerprint, resolved.model_digest, resolved.environment.model_dump(mode="json"))
            if found != here:
                what = "test scores from other data, another model, other libraries or another processor"
                raise UserError(str(folder), what, "another output.folder, or what they were made with")
