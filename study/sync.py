"""Brings what a study found to a W&B server: python -m study.sync FOLDER [--project NAME] [--entity NAME].

It is made from the records, whether W&B's files were written offline, W&B was away, or it was disabled. A server that
has a part of it gets the rest; once more, and nothing is sent.
"""

from trainables.utils import interruption

if __name__ == "__main__":
    interruption.handle_signals("study.sync")

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from study.records.run_store import RunStore
from study.tracking import Tracking, WandbLogger
from study.tracking.backfill import backfill_evaluations
from study.tracking.payload import DOCUMENTS, read_project
from study.utils.console import print_line
from trainables.utils.cli import Parser, print_error
from trainables.utils.errors import UserError


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status: 0 done, 2 bad input, 1 W&B does not take it."""
    parser = Parser(prog="python -m study.sync", description="Brings a study to a W&B server.")
    parser.add_argument("folder", type=Path, help="the study's folder, e.g. results/quick")
    parser.add_argument("--project", help="of W&B (default: the study's own)")
    parser.add_argument("--entity", help="user or team whose project it is (default: the study's own, else the key's)")
    arguments = parser.parse_args(argv)
    try:
        return sync_study(arguments.folder.absolute(), arguments.project, arguments.entity)
    except UserError as error:
        print_error("study.sync", error)
        return 2
    except OSError as error:  # a full disk, or one that must not be written to
        reason = os.strerror(error.errno or 0).lower()
        print_error("study.sync", f"{reason}; the same command goes on")
        return 1


def sync_study(folder: Path, project: str | None, entity: str | None) -> int:
    """Sends what the server lacks; returns the exit status.

    Raises:
        UserError: the folder holds no study.
    """
    if not (folder / "plan.json").is_file():
        raise UserError(str(folder), "no plan.json in it", "the folder of a study that has been run")
    ledger, (own_project, own_entity) = RunStore(folder), read_project(folder)
    tracking = Tracking(
        mode="online",
        project=project or own_project,
        entity=entity or own_entity or os.environ.get("WANDB_ENTITY"),
        folder=folder,
        own=project is None and entity is None,
    )
    runs = ledger.list_run_ids()
    with closing(WandbLogger(tracking, print_line)) as scribe:
        for which in DOCUMENTS:
            scribe.log_document(which)
        backfill_evaluations(scribe, ledger, runs)
        done = scribe.flush()
    if not done:
        print_error("study.sync", f"W&B lacks {scribe.pending_text}; the same command goes on")
        return 1
    print_line(
        f"{len(runs)} runs of {folder} are in project {tracking.project}, {scribe.n_written} evaluations of them new"
    )
    return 0


if __name__ == "__main__":
    interruption.run_command(main)
