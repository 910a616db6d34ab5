"""Uploads recorded evaluations that W&B does not have: after a kill, or while W&B was unavailable."""

from collections.abc import Iterable

from study.records.run_record import SPLITS
from study.records.run_store import RunStore
from study.tracking.client import WandbLogger
from study.tracking.sync_state import is_evaluation_synced


def backfill_evaluations(wandb_logger: WandbLogger, run_store: RunStore, run_ids: Iterable[str]) -> None:
    """Request the upload of all recorded evaluations that are neither synced nor already requested.

    Args:
        wandb_logger: writes them.
        run_store: the run records of the study.
        run_ids: ids of the runs to look at.
    """
    for run_id in run_ids:
        for split in SPLITS:
            state = run_store.get_state(run_id, split)
            if (
                state
                and (run_id, split) not in wandb_logger.pending
                and not is_evaluation_synced(wandb_logger.tracking, run_id, split, state)
            ):
                wandb_logger.log_evaluation(run_id, split)
