"""Writes to W&B what the study's folder holds, and rows of runs that train. The working folder is the study's."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from study.records import run_record as record
from study.tracking import offline_files
from study.tracking import payload as content
from study.tracking import sync_state as markers
from study.tracking.file_lock import Lock
from study.tracking.payload import Content, Document
from study.tracking.settings import Tracking
from study.tracking.wandb_run import Session


class Writer:
    """The only one who writes a run to W&B, at any time.

    Args:
        tracking: where to; online or offline.
    """

    def __init__(self, tracking: Tracking) -> None:
        self._tracking, self._offline = tracking, tracking.mode == "offline"
        self._open: dict[str, Session] = {}
        self._locks: dict[str, Lock] = {}

    def takes(self, run_id: str) -> bool:
        """Whether a run is this writer's until its evaluation is written; not while another process writes it."""
        if run_id not in self._locks:
            try:
                self._lock(run_id, wait=False)
            except BlockingIOError:
                return False
        return True

    def rows(self, labels: dict[str, Any], rows: list[dict[str, Any]], start: int) -> None:
        """The next part of the curve of a run that trains; lost while another process writes the run, which has it too.

        Args:
            labels: the run's.
            rows: one a batch or evaluation.
            start: place of the first of them in the curve.
        """
        if self.takes(labels["specification_id"]):
            self._session(content.begun(labels)).log(rows, start)

    def evaluation(self, run_id: str, split: record.Split) -> str | None:
        """A recorded evaluation, whole, unless W&B has it; returns where a server shows the run."""
        with self._held(run_id):
            if split == "test":  # it goes on with the run of its training
                self._evaluation(run_id, "dev")
            url = self._evaluation(run_id, split)
            if not self._offline and self._complete(run_id):
                offline_files.mark_synced(run_id)
            return url

    def document(self, which: Document) -> str | None:
        """The plan, what the searches did, the queries, or what the report found, unless W&B has it as it is; returns
        where a server shows it."""
        found = content.document(Path(), which)
        if found is None:
            return None
        with self._held(found.id):
            note = markers.of_document(Path(), found.id)
            if markers.noted(note, self._tracking, found.of):
                return markers.url(note)
            if self._offline:
                markers.forget(note, self._tracking)
                offline_files.remove(found.id)
            url = self._write(found, note)
            if not self._offline:
                offline_files.mark_synced(found.id)
            return url

    def close(self) -> None:
        """Lets others write the runs whose training was stopped. W&B will call them crashed, until one does."""
        while self._locks:
            self._locks.popitem()[1].release()

    def _evaluation(self, run_id: str, split: record.Split) -> str | None:
        note, found = markers.of_evaluation(Path(), run_id, split), content.evaluation(Path(), run_id, split)
        assert found is not None
        if found.of == "finished" and markers.noted(note, self._tracking, found.of):
            return markers.url(note)
        if self._offline and split == "dev":
            for one in record.SPLITS:  # both parts go
                markers.forget(markers.of_evaluation(Path(), run_id, one), self._tracking)
            offline_files.remove(run_id)
        return self._write(found, note)

    def _complete(self, run_id: str) -> bool:
        """Whether W&B has everything that is recorded of a run."""
        found = [(split, entry) for split in record.SPLITS if (entry := record.read(Path(), run_id, split))]
        return all(markers.mirrored(self._tracking, run_id, split, entry["state"]) for split, entry in found)

    def _write(self, found: Content, note: Path) -> str | None:
        session = self._session(found)
        url = session.url
        session.complete(found)
        del self._open[found.id]
        markers.note(note, self._tracking, found.of, url)
        return url

    def _session(self, found: Content) -> Session:
        self._lock(found.id)
        if found.id not in self._open:
            self._open[found.id] = Session(self._tracking, found)
        return self._open[found.id]

    def _lock(self, run_id: str, wait: bool = True) -> None:
        """From the first row on, if there are such, to the end of an evaluation."""
        if run_id not in self._locks:
            self._locks[run_id] = Lock(offline_files.FILES / ".locks" / run_id, wait)

    @contextmanager
    def _held(self, run_id: str) -> Iterator[None]:
        self._lock(run_id)
        yield
        self._locks.pop(run_id).release()
