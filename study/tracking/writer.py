"""Writes records of the study's folder, and rows of running trials, to W&B.

The working directory is the study's folder.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from records.run_record import SPLITS, Split, read_run_record
from study.tracking import offline_files, sync_state
from study.tracking.payload import (
    Document,
    RunPayload,
    make_document_payload,
    make_evaluation_payload,
    make_training_payload,
)
from study.tracking.tracking_settings import Tracking
from study.tracking.wandb_run import WandbRun

_UNSUPPORTED_ERRNOS = (errno.ENOLCK, errno.ENOTSUP)
"""Errors of file systems without locks. There, only one driver may run at a time."""


class RunWriter:
    """Writer of W&B runs. A lock gives each run one writer, among all processes that drive or sync a study."""

    def __init__(self, tracking: Tracking) -> None:
        self._tracking, self._is_offline = tracking, tracking.mode == "offline"
        self._open_runs: dict[str, WandbRun] = {}
        self._locks: dict[str, FileLock] = {}

    def try_lock_run(self, run_id: str) -> bool:
        """Lock a run until its evaluation is written. Return False if another process is writing it."""
        if run_id not in self._locks:
            try:
                self._lock_run(run_id, wait=False)
            except Timeout:
                return False
        return True

    def write_rows(self, labels: dict[str, Any], rows: list[dict[str, Any]], start: int) -> None:
        """Write the next rows of the learning curve of a run that trains.

        Rows are discarded while another process writes the run, since that process has them too. The arguments are
        those of `WandbLogger.log_rows`.
        """
        if self.try_lock_run(labels["specification_id"]):
            self._open_run(make_training_payload(labels)).log_rows(rows, start)

    def write_evaluation(self, run_id: str, split: Split) -> str | None:
        """Write a complete recorded evaluation, unless W&B has it, and return its URL on the server."""
        with self._hold_run_lock(run_id):
            if split == "test":  # the test evaluation continues the run of its training
                self._write_evaluation(run_id, "dev")
            url = self._write_evaluation(run_id, split)
            if not self._is_offline and self._is_complete(run_id):
                offline_files.touch_synced_files(run_id)
            return url

    def write_document(self, document: Document) -> str | None:
        """Write a document, unless W&B has this version, and return its URL on the server."""
        payload = make_document_payload(Path(), document)
        if payload is None:
            return None
        with self._hold_run_lock(payload.id):
            state_path = sync_state.get_document_path(Path(), payload.id)
            if sync_state.is_synced(state_path, self._tracking, payload.version):
                return sync_state.read_url(state_path)
            if self._is_offline:
                sync_state.clear_synced(state_path, self._tracking)
                offline_files.remove_run_files(payload.id)
            url = self._write_payload(payload, state_path)
            if not self._is_offline:
                offline_files.touch_synced_files(payload.id)
            return url

    def close(self) -> None:
        """Release runs with interrupted training. W&B shows them as crashed until a process writes them."""
        for run_id in list(self._locks):
            self._unlock_run(run_id)

    def _write_evaluation(self, run_id: str, split: Split) -> str | None:
        state_path = sync_state.get_evaluation_path(Path(), run_id, split)
        payload = make_evaluation_payload(Path(), run_id, split)
        if payload is None:  # set aside as damaged after the request; its repetition is a request of its own
            return None
        if payload.version == "finished" and sync_state.is_synced(state_path, self._tracking, payload.version):
            return sync_state.read_url(state_path)
        if self._is_offline and split == "dev":
            for each_split in SPLITS:  # the files of both splits are removed
                sync_state.clear_synced(sync_state.get_evaluation_path(Path(), run_id, each_split), self._tracking)
            offline_files.remove_run_files(run_id)
        return self._write_payload(payload, state_path)

    def _is_complete(self, run_id: str) -> bool:
        """Return whether W&B has all recorded evaluations of a run."""
        entries = [(split, entry) for split in SPLITS if (entry := read_run_record(Path(), run_id, split))]
        return all(
            sync_state.is_evaluation_synced(self._tracking, run_id, split, entry["state"]) for split, entry in entries
        )

    def _write_payload(self, payload: RunPayload, state_path: Path) -> str | None:
        run = self._open_run(payload)
        url = run.url
        run.finish(payload)
        del self._open_runs[payload.id]
        sync_state.mark_synced(state_path, self._tracking, payload.version, url)
        return url

    def _open_run(self, payload: RunPayload) -> WandbRun:
        self._lock_run(payload.id)
        if payload.id not in self._open_runs:
            self._open_runs[payload.id] = WandbRun(self._tracking, payload)
        return self._open_runs[payload.id]

    def _lock_run(self, run_id: str, wait: bool = True) -> None:
        """Lock a run from its first row to the end of an evaluation. The lock ends with the process at the latest.

        Raises:
            Timeout: another process holds the lock, and `wait` is False.
        """
        if run_id in self._locks:
            return
        lock = FileLock(offline_files.WANDB_FOLDER / ".locks" / run_id)
        try:
            lock.acquire(blocking=wait)
        except OSError as error:
            if error.errno not in _UNSUPPORTED_ERRNOS:
                raise
        self._locks[run_id] = lock

    def _unlock_run(self, run_id: str) -> None:
        """Unlock a run and remove the file of the lock. Processes that wait for it then lock a new file."""
        lock = self._locks.pop(run_id)
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()

    @contextmanager
    def _hold_run_lock(self, run_id: str) -> Iterator[None]:
        self._lock_run(run_id)
        yield
        self._unlock_run(run_id)
