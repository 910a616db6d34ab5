"""Uploads recorded evaluations that W&B does not have: after a kill, or while W&B was unavailable."""

from collections.abc import Collection, Iterable
from itertools import product

from records.run_record import SPLITS
from study.folder.run_store import RunStore
from study.tracking.client import WandbLogger
from study.tracking.payload import DOCUMENTS, make_document_payload
from study.tracking.sync_state import clear_synced, get_document_path, get_evaluation_path, is_evaluation_synced
from study.tracking.tracking_settings import Tracking


def forget_absent_runs(tracking: Tracking, run_ids: Iterable[str], server_ids: Collection[str]) -> None:
    """Delete the sync states of runs that were uploaded once, and that the server does not have.

    Args:
        tracking: the server's project.
        run_ids: ids of the study's runs.
        server_ids: ids of the runs on the server, of which documents are some.
    """
    for run_id, split in product(set(run_ids) - set(server_ids), SPLITS):
        clear_synced(get_evaluation_path(tracking.folder, run_id, split), tracking)
    for document in DOCUMENTS:
        payload = make_document_payload(tracking.folder, document)
        if payload and payload.id not in server_ids:
            clear_synced(get_document_path(tracking.folder, payload.id), tracking)


def backfill_evaluations(wandb_logger: WandbLogger, run_store: RunStore, run_ids: Iterable[str]) -> None:
    """Request the upload of all recorded evaluations of these runs that are neither synced nor already requested."""
    for run_id, split in product(run_ids, SPLITS):
        state, is_pending = run_store.get_state(run_id, split), (run_id, split) in wandb_logger.pending
        if state and not is_pending and not is_evaluation_synced(wandb_logger.tracking, run_id, split, state):
            wandb_logger.log_evaluation(run_id, split)
