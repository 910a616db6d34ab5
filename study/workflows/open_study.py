"""Common start of a study and of `--sweep`: checks the folder, resolves names, updates the plan."""

from pathlib import Path
from typing import Any, NamedTuple

from records.data_statistics import write_data_statistics
from records.plan_file import PLAN_FILE
from records.run_record import read_run_record, set_aside_damaged_records
from study.config.loader import Study
from study.execution.slots import connect_or_check
from study.folder.provenance import describe_setup
from study.folder.remote_records import RemoteRecords
from study.plan.analysis_plan import check_folder, register_plan
from study.plan.study_file import write_study_file
from study.scheduling.trials import ResolvedInputs
from study.utils.console import print_line
from study.workflows.cleanup import check_writable, clean_up_study
from study.workflows.resolve import resolve_study
from trainables.specs.plugin import PreparedData
from trainables.storage import open_storage
from trainables.storage.leases import Leases
from trainables.utils.errors import UserError
from trainables.utils.plugins import find_changed_plugins
from trainables.worker.limits import check_memory_limit


class OpenStudy(NamedTuple):
    """A study with resolved names and an analysis plan in its folder."""

    study: Study
    """The study, from here on without paths of the task."""
    resolved: ResolvedInputs
    plan_hash: str
    remote_records: RemoteRecords | None
    """Copy of the records outside the study's folder. None if the study has no such place."""
    cluster: str | None
    """Address of the cluster that this process is connected to. None if trials run on this machine."""
    prepared: PreparedData


def open_study(study: Study) -> OpenStudy:
    """Check folder, machine and data, download remote records, and write the analysis plan.

    Raises:
        UserError: the model, the task or the folder is not what the study says.
    """
    folder = study.folder
    check_folder(study, folder)
    check_memory_limit(study.trial.memory)
    cluster = connect_or_check(study)
    check_writable(study)
    clean_up_study(study)
    set_aside_damaged_records(folder, print_line)
    remote_records = RemoteRecords(study.records_url, folder, print_line) if study.records_url else None
    if remote_records:
        run_ids = remote_records.download(study.name)
        print_line(f"downloaded {len(run_ids)} run{'s' * (len(run_ids) != 1)} from {study.records_url}")
    given = study
    study, resolved, prepared = resolve_study(study, cluster, print_line)
    _check_recorded_inputs(folder, resolved)
    data = study.study_type.trainable.data_backend
    data.check_data(study, prepared)
    study = study.model_copy(update={"task": prepared.settings})
    with Leases(open_storage(str(folder))).acquire(f".{PLAN_FILE}"):
        setup = describe_setup(resolved.model_label, resolved.data_label)
        plan = register_plan(study, resolved.model_digest, folder, data.describe_data(prepared), setup)
        write_study_file(given, folder)
        write_data_statistics(folder, study.study_type.trainable.load_statistics(prepared))
    version = plan.document["version"]
    if plan.changes:
        print_line(f"plan version {version}: {'; '.join(plan.changes)}; finished runs are kept")
    print_line(f"study {study.name}, plan {plan.hash} version {version}, results in {folder}")
    return OpenStudy(study, resolved, plan.hash, remote_records, cluster, prepared)


def _check_recorded_inputs(folder: Path, resolved: ResolvedInputs) -> None:
    """Refuse to add to test scores that came from other data, another model or another environment."""
    for path in folder.glob("runs/*/test.json"):
        entry = read_run_record(folder, path.parent.name, "test")
        specification = entry["config"].get("specification", {}) if entry else {}
        if specification.get("model"):
            digest, known = specification["model"]["name"], (resolved.model_digest, resolved.folder_digest)
            recorded = (specification["data"], digest, specification["environment"])
            current = (
                resolved.fingerprint, digest if digest in known else known[0],
                resolved.environment.model_dump(mode="json"),
            )  # fmt: skip
            plugins = find_changed_plugins(specification.get("plugins", ()))
            if recorded != current or plugins:
                found = f"test scores from {' and '.join(_describe_differences(recorded, current, plugins))}"
                raise UserError(
                    str(folder), found, "another output.folder, or the same inputs and environment as before"
                )


def _describe_differences(recorded: tuple[Any, ...], current: tuple[Any, ...], plugins: list[str]) -> list[str]:
    """Describe what differs between two triples of data, model and environment, and the plug-ins that do."""
    (data, model, environment), (data_now, model_now, environment_now) = recorded, current
    names = [name for name in environment_now if environment.get(name) != environment_now[name]]
    changes = [f"{name} {environment.get(name)}, now {environment_now[name]}" for name in names]
    return [
        *([f"other data ({data}, now {data_now})"] if data != data_now else []),
        *(["another model"] if model != model_now else []),
        *([f"another environment ({'; '.join(changes)})"] if environment != environment_now else []),
        *([f"other code of plug-ins ({', '.join(plugins)})"] if plugins else []),
    ]
