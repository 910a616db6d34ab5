"""Driver's side of the background process that writes to W&B: sends requests, waits only at the end."""

import errno
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import product
from typing import Any

from records.run_record import SPLITS, Split
from study.folder.run_store import RunStore
from study.tracking.payload import Document
from study.tracking.sync_state import is_evaluation_synced
from study.tracking.tracking_settings import Tracking
from study.tracking.writer_process import WriterProcess

_FLUSH_TIMEOUT_S = 120.0
"""Seconds without progress at the end of a study after which W&B is given up."""
_RETRY_INTERVAL_S = 60.0
"""Seconds after a failure in which the study does not try W&B again."""
_MAX_ATTEMPTS = 2
"""Processes in a row that may fail before they have written anything."""


class WandbLogger:
    """Writes to W&B in a background process. A later start writes what is missing at the end.

    Args:
        tracking: destination. In mode "disabled" nothing is written.
        log: called with a line when something goes wrong.
    """

    def __init__(self, tracking: Tracking, log: Callable[[str], None]) -> None:
        self.tracking, self._log = tracking, log
        self.pending: dict[tuple[str, str | None], dict[str, Any]] = {}
        """Requests that are not known to be done, by run and split. A newer request replaces an older one."""
        self.n_written = 0
        """Number of evaluations that are known to be written."""
        self.project_url: str | None = None
        """URL of the project on the server, once it is known."""
        self.failure_reason = ""
        """Reason of the last failure."""
        self._is_disk_full, self._timeout_reason = False, ""
        self._process: WriterProcess | None = None
        self._last_failure: dict[str, Any] | None = None
        self._lock = threading.RLock()
        self._n_failures, self._retry_time, self._last_reply_time, self._n_requests = 0, 0.0, time.monotonic(), 0

    def __reduce__(self) -> tuple[Any, ...]:
        """Return a copy that writes nothing: Tune saves everything that refers to a study on disk."""
        return WandbLogger, (self.tracking.model_copy(update={"mode": "disabled"}), print)

    @property
    def pending_text(self) -> str:
        """Requests that are not known to be done, in words."""
        count = sum(split is not None for _, split in self.pending)
        return f"{count} evaluation{'s' * (count > 1)}" if count else " and ".join(name for name, _ in self.pending)

    def get_run_url(self, run_id: str) -> str | None:
        """Return the URL of a run on the server, or None while it is not known."""
        return f"{self.project_url}/runs/{run_id}" if self.project_url else None

    def log_rows(self, labels: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], start: int) -> None:
        """Send the next rows of the learning curve of a run that trains.

        They are lost while W&B is unavailable, which is fine because the run record will contain them.

        Args:
            labels: labels of the run.
            rows: one for each batch or evaluation.
            start: index of the first of them in the curve.
        """
        if self.tracking.mode == "online":
            self._submit(
                {"do": "rows", "run": labels["specification_id"], "labels": labels, "rows": rows, "start": start}
            )

    def log_evaluation(self, run_id: str, split: Split) -> None:
        """Request the upload of an evaluation that is recorded in the study's folder."""
        self._submit({"do": "evaluation", "run": run_id, "split": split})

    def log_document(self, document: Document) -> None:
        """Request the upload of a new or changed document: plan, searches, queries or findings."""
        self._submit({"do": "document", "run": document})

    def log_missing_evaluations(self, run_store: RunStore, run_ids: Iterable[str]) -> None:
        """Request the upload of all recorded evaluations of these runs that are neither synced nor already requested.

        W&B lacks them after a kill, or if it was unavailable.
        """
        for run_id, split in product(run_ids, SPLITS):
            state, is_pending = run_store.get_state(run_id, split), (run_id, split) in self.pending
            if state and not is_pending and not is_evaluation_synced(self.tracking, run_id, split, state):
                self.log_evaluation(run_id, split)

    def flush(self, on_wait: Callable[[int], None] = lambda n_pending: None) -> bool:
        """Wait until everything is written, as long as W&B makes progress, and return whether it is.

        Args:
            on_wait: called repeatedly with the number of requests that are not written yet. By default nothing happens.

        Raises:
            OSError: the disk is full or read-only.
        """
        start_time = time.monotonic()
        while n_pending := len(self.pending):
            on_wait(n_pending)
            with self._lock:
                process = self._process
                if process is None:
                    if self._is_disk_full:
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                    if self._timeout_reason or (
                        self._n_failures >= _MAX_ATTEMPTS and time.monotonic() < self._retry_time
                    ):
                        return False
                    self._start_process()
                    continue
            if time.monotonic() - max(start_time, self._last_reply_time) > _FLUSH_TIMEOUT_S:
                self._timeout_reason = f"no answer for {_FLUSH_TIMEOUT_S:.0f} s"
                process.kill()
            time.sleep(0.05)
        on_wait(0)
        return True

    def close(self) -> None:
        """End the process. Requests that are still pending are not written."""
        if (process := self._process) is not None:
            process.close(_FLUSH_TIMEOUT_S if not self.pending else 5.0)

    def _submit(self, request: dict[str, Any]) -> None:
        if self.tracking.mode == "disabled":
            return
        with self._lock:
            self._n_requests += 1
            request["number"] = self._n_requests
            if request["do"] != "rows":
                self.pending[request["run"], request.get("split")] = request
            if self._process is not None:
                self._process.send(json.dumps(request))
            elif time.monotonic() >= self._retry_time:
                process = self._start_process()
                if request["do"] == "rows":
                    process.send(json.dumps(request))

    def _start_process(self) -> WriterProcess:
        """Start the process and send it all pending requests."""
        with self._lock:
            self._last_reply_time, self._last_failure = time.monotonic(), None
            self._process = process = WriterProcess(self.tracking, self._handle_reply, self._handle_exit)
            for request in self.pending.values():
                process.send(json.dumps(request))
            return process

    def _handle_reply(self, reply: dict[str, Any]) -> None:
        self._last_failure = reply if "failed" in reply else None
        if self._last_failure is None:
            self._mark_done(reply)

    def _handle_exit(self, status: int) -> None:
        with self._lock:
            self._process, failure = None, self._last_failure
            if status:
                self._is_disk_full = bool(failure and failure["full"])
                end = f"was killed by signal {-status}" if status < 0 else f"exited with status {status}"
                self._handle_failure(failure["failed"] if failure else self._timeout_reason or f"its process {end}")

    def _mark_done(self, reply: dict[str, Any]) -> None:
        with self._lock:
            if (latest := self.pending.get((reply["done"], reply["split"]))) and latest["number"] == reply["number"]:
                del self.pending[reply["done"], reply["split"]]
                self.n_written += reply["split"] is not None
            self._n_failures, self._last_reply_time = 0, time.monotonic()
            if reply["url"] and self.project_url is None:
                self.project_url = reply["url"].rpartition("/runs/")[0]
                self._log_message(f"W&B: {self.project_url}")

    def _handle_failure(self, reason: str) -> None:
        self._n_failures += 1
        self._retry_time = time.monotonic() + _RETRY_INTERVAL_S
        if reason != self.failure_reason:
            self._log_message(f"cannot write to W&B at the moment ({reason})")
        self.failure_reason = reason

    def _log_message(self, line: str) -> None:
        """Log a line from the thread that reads the replies."""
        with suppress(BrokenPipeError):  # the reader closed the pipe; the driver notices this at its next line
            self._log(line)
