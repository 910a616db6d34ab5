"""What W&B lacks of a study: after a kill, while W&B was away, or because nobody has brought it there yet."""

from collections.abc import Iterable

from study.records import run_record as record
from study.records.run_store import Ledger
from study.tracking.client import Scribe
from study.tracking.sync_state import mirrored


def write_missing(scribe: Scribe, ledger: Ledger, runs: Iterable[str]) -> None:
    """Orders what is recorded of these runs, and neither noted nor ordered.

    Args:
        scribe: writes it.
        ledger: of the records.
        runs: their ids.
    """
    for run_id in runs:
        for split in record.SPLITS:
            state = ledger.state(run_id, split)
            if state and (run_id, split) not in scribe.missing and not mirrored(scribe.tracking, run_id, split, state):
                scribe.evaluation(run_id, split)
