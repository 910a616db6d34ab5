"""What W&B lacks of a study: after a kill, while W&B was away, or because nobody has brought it there yet."""

from collections.abc import Iterable

from study.records import run_record as record
from study.records.run_store import RunStore
from study.tracking.client import WandbLogger
from study.tracking.sync_state import is_evaluation_synced


def backfill_evaluations(wandb_logger: WandbLogger, run_store: RunStore, run_ids: Iterable[str]) -> None:
    """Orders what is recorded of these runs, and neither noted nor ordered.

    Args:
        scribe: writes it.
        ledger: of the records.
        runs: their ids.
    """
    for run_id in run_ids:
        for split in record.SPLITS:
            state = run_store.get_state(run_id, split)
            if (
                state
                and (run_id, split) not in wandb_logger.pending
                and not is_evaluation_synced(wandb_logger.tracking, run_id, split, state)
            ):
                wandb_logger.log_evaluation(run_id, split)
