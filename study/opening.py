"""How every start on a study's folder begins, whether all of the study runs or one configuration of it."""

from pathlib import Path
from typing import Any, NamedTuple

from study import changes, plan, record
from study.archive import Archive
from study.config import Study
from study.configuration import Resolved
from study.housekeeping import check_writable, clean
from study.places import ready
from study.progress import say
from study.resolution import resolve
from trainables.claims import Claims
from trainables.errors import UserError
from trainables.limits import check as check_limits
from trainables.storage import storage
from trainables.trainable import Prepared


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
    with Claims(storage(str(folder))).held(f".{plan.NAME}"):
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
