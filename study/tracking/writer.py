"""Writes to W&B what the study's folder holds, and rows of runs that train. The working folder is the study's."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from study.records import run_record as record
from study.tracking import offline_files
from study.tracking import payload as content
from study.tracking import sync_state as markers
from study.tracking.file_lock import FileLock
from study.tracking.payload import Document, RunPayload
from study.tracking.settings import Tracking
from study.tracking.wandb_run import WandbRun


class RunWriter:
    """The only one who writes a run to W&B, at any time.

    Args:
        tracking: where to; online or offline.
    """

    def __init__(self, tracking: Tracking) -> None:
        self._tracking, self._is_offline = tracking, tracking.mode == "offline"
        self._open_runs: dict[str, WandbRun] = {}
        self._locks: dict[str, FileLock] = {}

    def try_lock_run(self, run_id: str) -> bool:
        """Whether a run is this writer's until its evaluation is written; not while another process writes it."""
        if run_id not in self._locks:
            try:
                self._lock_run(run_id, wait=False)
            except BlockingIOError:
                return False
        return True

    def write_rows(self, labels: dict[str, Any], rows: list[dict[str, Any]], start: int) -> None:
        """The next part of the curve of a run that trains; lost while another process writes the run, which has it too.

        Args:
            labels: the run's.
            rows: one a batch or evaluation.
            start: place of the first of them in the curve.
        """
        if self.try_lock_run(labels["specification_id"]):
            self._open_run(content.make_training_payload(labels)).log_rows(rows, start)

    def write_evaluation(self, run_id: str, split: record.Split) -> str | None:
        """A recorded evaluation, whole, unless W&B has it; returns where a server shows the run."""
        with self._hold_run_lock(run_id):
            if split == "test":  # it goes on with the run of its training
                self._write_evaluation(run_id, "dev")
            url = self._write_evaluation(run_id, split)
            if not self._is_offline and self._is_complete(run_id):
                offline_files.touch_synced_files(run_id)
            return url

    def write_document(self, document: Document) -> str | None:
        """The plan, what the searches did, the queries, or what the report found, unless W&B has it as it is; returns
        where a server shows it."""
        payload = content.make_document_payload(Path(), document)
        if payload is None:
            return None
        with self._hold_run_lock(payload.id):
            state_path = markers.get_document_path(Path(), payload.id)
            if markers.is_synced(state_path, self._tracking, payload.version):
                return markers.read_url(state_path)
            if self._is_offline:
                markers.clear_synced(state_path, self._tracking)
                offline_files.remove_run_files(payload.id)
            url = self._write_payload(payload, state_path)
            if not self._is_offline:
                offline_files.touch_synced_files(payload.id)
            return url

    def close(self) -> None:
        """Lets others write the runs whose training was stopped. W&B will call them crashed, until one does."""
        while self._locks:
            self._locks.popitem()[1].release()

    def _write_evaluation(self, run_id: str, split: record.Split) -> str | None:
        state_path, payload = (
            markers.get_evaluation_path(Path(), run_id, split),
            content.make_evaluation_payload(Path(), run_id, split),
        )
        assert payload is not None
        if payload.version == "finished" and markers.is_synced(state_path, self._tracking, payload.version):
            return markers.read_url(state_path)
        if self._is_offline and split == "dev":
            for each_split in record.SPLITS:  # both parts go
                markers.clear_synced(markers.get_evaluation_path(Path(), run_id, each_split), self._tracking)
            offline_files.remove_run_files(run_id)
        return self._write_payload(payload, state_path)

    def _is_complete(self, run_id: str) -> bool:
        """Whether W&B has everything that is recorded of a run."""
        entries = [
            (split, entry) for split in record.SPLITS if (entry := record.read_run_record(Path(), run_id, split))
        ]
        return all(
            markers.is_evaluation_synced(self._tracking, run_id, split, entry["state"]) for split, entry in entries
        )

    def _write_payload(self, payload: RunPayload, state_path: Path) -> str | None:
        run = self._open_run(payload)
        url = run.url
        run.finish(payload)
        del self._open_runs[payload.id]
        markers.mark_synced(state_path, self._tracking, payload.version, url)
        return url

    def _open_run(self, payload: RunPayload) -> WandbRun:
        self._lock_run(payload.id)
        if payload.id not in self._open_runs:
            self._open_runs[payload.id] = WandbRun(self._tracking, payload)
        return self._open_runs[payload.id]

    def _lock_run(self, run_id: str, wait: bool = True) -> None:
        """From the first row on, if there are such, to the end of an evaluation."""
        if run_id not in self._locks:
            self._locks[run_id] = FileLock(offline_files.WANDB_FOLDER / ".locks" / run_id, wait)

    @contextmanager
    def _hold_run_lock(self, run_id: str) -> Iterator[None]:
        self._lock_run(run_id)
        yield
        self._locks.pop(run_id).release()
