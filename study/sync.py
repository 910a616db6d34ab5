"""Command line that uploads the records of a study, or of all studies of a suite, to a W&B server.

    python -m study.sync FOLDER [--project NAME] [--entity NAME]

The uploads are made from the run records. It does not matter whether W&B's files were written offline, W&B was
unavailable, or tracking was disabled. The command asks the server which runs it has, and sends only what it lacks.
"""

from trainables.utils import interruption

if __name__ == "__main__":
    interruption.start_command("study.sync", "train")

import os
from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from itertools import product
from pathlib import Path

from analysis.readers.wandb_server import ProjectAddress, ServerError, connect
from records.plan_file import PLAN_FILE, SUITE_FILE, read_plan, read_suite_plan
from records.run_record import SPLITS
from study.folder.run_store import RunStore
from study.tracking import Tracking, WandbLogger
from study.tracking.payload import DOCUMENTS, make_document_payload, read_project
from study.tracking.sync_state import clear_synced, get_document_path, get_evaluation_path
from study.utils.console import print_line
from trainables.utils.cli import Parser, print_error, report_errors
from trainables.utils.errors import MachineError, UserError
from trainables.utils.plugins import load_plugins


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0 done, 2 bad input, 1 any other failure."""
    parser = Parser(
        "study.sync",
        "Upload the records of a study or suite to a W&B server. Rerun it to resume.",
    )
    parser.add_argument("folder", type=Path, help="the folder of the study or suite, e.g. results/quick")
    parser.add_argument("--project", help="W&B project (default: the study's own)")
    parser.add_argument(
        "--entity", help="user or team of the project (default: the study's own, else that of the API key)"
    )
    arguments = parser.parse_args(argv)
    folder = arguments.folder.absolute()
    return report_errors("study.sync", lambda: _sync_folder(folder, arguments.project, arguments.entity))


def _sync_folder(folder: Path, project: str | None, entity: str | None) -> int:
    """Upload the study in a folder, or each study of the suite, and return the exit status."""
    if (folder / PLAN_FILE).is_file() or not (folder / SUITE_FILE).is_file():
        return sync_study(folder, project, entity)
    studies = read_suite_plan(folder / SUITE_FILE).document["studies"]
    if project is not None and len({study["project"] for study in studies}) > 1:
        raise UserError("--project", project, "none, since the studies of this suite need projects of their own")
    places = [folder / study["key"] for study in studies]
    return max((sync_study(place, project, entity) for place in places if (place / PLAN_FILE).is_file()), default=0)


def sync_study(folder: Path, project: str | None, entity: str | None) -> int:
    """Upload everything that the server does not have yet and return the exit status.

    Args:
        folder: absolute folder of the study.
        project: W&B project. If None, the study's own.
        entity: user or team that owns the project. If None, the study's own or WANDB_ENTITY.

    Raises:
        UserError: the folder contains no study, a plug-in of it is absent, or the server refuses the API key.
        MachineError: the server does not answer.
    """
    if not (folder / PLAN_FILE).is_file():
        raise UserError(str(folder), "no plan.json in it", "the folder of a study that has been run")
    run_store, own = RunStore(folder), read_project(folder)
    tracking = Tracking(
        mode="online",
        project=project or own.name,
        entity=entity or own.entity or os.environ.get("WANDB_ENTITY"),
        group=own.group,
        folder=folder,
        own=project is None and entity is None,
        plugins=read_plan(folder / PLAN_FILE).document.get("settings", {}).get("plugins", ()),
    )
    load_plugins(tracking.plugins, f"{folder / PLAN_FILE}: plugins")
    run_ids = run_store.list_run_ids()
    _forget_absent_runs(tracking, run_ids, _list_server_runs(ProjectAddress(tracking.entity, tracking.project)))
    with closing(WandbLogger(tracking, print_line)) as wandb_logger:
        for document in DOCUMENTS:
            wandb_logger.log_document(document)
        wandb_logger.log_missing_evaluations(run_store, run_ids)
        is_complete = wandb_logger.flush()
    if not is_complete:
        print_error(
            "study.sync", f"{wandb_logger.pending_text} not yet uploaded to W&B; rerun the same command to resume"
        )
        return 1
    print_line(
        f"project {tracking.project} has {len(run_ids)} runs of {folder}; "
        f"{wandb_logger.n_written} evaluations uploaded now"
    )
    return 0


def _forget_absent_runs(tracking: Tracking, run_ids: Iterable[str], server_ids: Collection[str]) -> None:
    """Delete the sync states of runs that were uploaded once, and that the server does not have."""
    for run_id, split in product(set(run_ids) - set(server_ids), SPLITS):
        clear_synced(get_evaluation_path(tracking.folder, run_id, split), tracking)
    for document in DOCUMENTS:
        payload = make_document_payload(tracking.folder, document)
        if payload and payload.id not in server_ids:
            clear_synced(get_document_path(tracking.folder, payload.id), tracking)


def _list_server_runs(address: ProjectAddress) -> set[str]:
    """Return the ids of the runs of a project, none if the server does not have it.

    Raises:
        UserError: the server refuses the API key.
        MachineError: the server does not answer.
    """
    try:
        with connect() as connection, connection.translate_errors(str(address)):
            runs = connection.api.runs(address.path, per_page=1000)
            try:
                return {run.id for run in runs}
            except ValueError:  # the client raises it if there is no such project
                return set()
    except ServerError as error:
        raise MachineError(str(error)) from error


if __name__ == "__main__":
    interruption.run_command(main)
