"""The scribe as the driver of a study sees it: told what there is to write, never waited for until the end."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from study.records import run_record as record
from study.tracking.agent_env import without_sweep
from study.tracking.payload import Document
from study.tracking.settings import Tracking

_ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = 120.0
"""Seconds without anything written, at the end of a study, until W&B is given up."""
_PAUSE = 60.0
"""Seconds after a failure in which W&B is left alone while the study goes on."""
_TRIES = 2
"""Processes in a row that fail before they have written anything."""


class Scribe:
    """Writes to W&B in a process of its own. What it has not written by the end, a later start writes.

    Args:
        tracking: where to; of a mode "disabled" nothing is written.
        say: told of what goes wrong.
    """

    def __init__(self, tracking: Tracking, say: Callable[[str], None]) -> None:
        self.tracking, self._say = tracking, say
        self.missing: dict[tuple[str, str | None], dict[str, Any]] = {}
        """Orders that are not known to be done; of several for the same, the last."""
        self.written = 0
        """Evaluations that are known to be done."""
        self.project: str | None = None
        """Where a server shows the project, once it has."""
        self.reason = ""
        """Of the last failure."""
        self._full, self._overdue = False, ""
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.RLock()
        self._failures, self._resume, self._sign, self._orders = 0, 0.0, time.monotonic(), 0

    def __reduce__(self) -> tuple[Any, ...]:
        """Tune copies whatever knows of a study to its disk; a copy writes nothing."""
        return Scribe, (self.tracking.model_copy(update={"mode": "disabled"}), print)

    @property
    def lacking(self) -> str:
        """What was ordered and is not known to be done, in words."""
        count = sum(split is not None for _, split in self.missing)
        return f"{count} evaluation{'s' * (count > 1)}" if count else " and ".join(name for name, _ in self.missing)

    @property
    def live(self) -> bool:
        """Whether runs are shown while they train."""
        return self.tracking.mode == "online"

    def shown(self, run_id: str) -> str | None:
        """Where a server shows a run; None while that is not known."""
        return f"{self.project}/runs/{run_id}" if self.project else None

    def rows(self, labels: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], start: int) -> None:
        """The next part of the curve of a run that trains; lost where W&B is away, since the record will have it.

        Args:
            labels: the run's.
            rows: one a batch or evaluation.
            start: place of the first of them in the curve.
        """
        if self.live:
            self._order(
                {"do": "rows", "run": labels["specification_id"], "labels": labels, "rows": rows, "start": start}
            )

    def evaluation(self, run_id: str, split: record.Split) -> None:
        """An evaluation is recorded in the study's folder."""
        self._order({"do": "evaluation", "run": run_id, "split": split})

    def document(self, which: Document) -> None:
        """The plan, the log of the searches, the queries or the findings of the report are there, or are there anew."""
        self._order({"do": "document", "run": which})

    def settle(self) -> bool:
        """Waits until all is written, as long as W&B takes it; whether it is.

        Raises:
            OSError: the disk is full, or must not be written to.
        """
        began = time.monotonic()
        while self.missing:
            with self._lock:
                process = self._process
                if process is None:
                    if self._full:
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                    if self._overdue or (self._failures >= _TRIES and time.monotonic() < self._resume):
                        return False
                    self._start()
                    continue
            if time.monotonic() - max(began, self._sign) > _PATIENCE:
                self._overdue = f"no answer for {_PATIENCE:.0f} s"
                self._kill(process)
            time.sleep(0.05)
        return True

    def close(self) -> None:
        """Ends the process; what it still has to write is left."""
        process = self._process
        if process is None:
            return
        with suppress(OSError):
            assert process.stdin is not None
            process.stdin.close()
        try:
            process.wait(_PATIENCE if not self.missing else 5.0)
        except subprocess.TimeoutExpired:
            self._kill(process)

    def _order(self, order: dict[str, Any]) -> None:
        if self.tracking.mode == "disabled":
            return
        with self._lock:
            self._orders += 1
            order["number"] = self._orders
            if order["do"] != "rows":
                self.missing[order["run"], order.get("split")] = order
            if self._process is not None:
                self._send(order)
            elif time.monotonic() >= self._resume:
                self._start()
                if order["do"] == "rows":
                    self._send(order)

    def _start(self) -> None:
        """Starts the process, with all that is missing as its first orders."""
        with self._lock:
            environment = without_sweep(os.environ)
            paths = [str(_ROOT), *filter(None, [environment.get("PYTHONPATH")])]
            self._process = process = subprocess.Popen(
                [sys.executable, "-P", "-m", "study.tracking.worker_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                cwd=self.tracking.folder,
                env=environment | {"PYTHONPATH": os.pathsep.join(paths)},
                start_new_session=True,
            )
            self._sign = time.monotonic()
            threading.Thread(target=self._listen, args=(process,), daemon=True).start()
            self._write(process, self.tracking.model_dump_json())
            for order in self.missing.values():
                self._send(order)

    def _send(self, order: dict[str, Any]) -> None:
        assert self._process is not None
        self._write(self._process, json.dumps(order))

    def _write(self, process: "subprocess.Popen[str]", line: str) -> None:
        assert process.stdin is not None
        with suppress(OSError):  # it has just ended; whoever listens to it knows more
            process.stdin.write(line + "\n")
            process.stdin.flush()

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        failure = None
        try:
            for line in process.stdout:
                told = json.loads(line)
                failure = told if "failed" in told else None
                if failure is None:
                    self._done(told)
        finally:  # else whoever settles would wait for ever for a process that nobody listens to
            process.wait()
            with self._lock:
                self._process = None
                if process.returncode:
                    self._full = bool(failure and failure["full"])
                    self._failed(failure["failed"] if failure else self._overdue or _ended(process.returncode))

    def _done(self, told: dict[str, Any]) -> None:
        with self._lock:
            if (latest := self.missing.get((told["done"], told["split"]))) and latest["number"] == told["number"]:
                del self.missing[told["done"], told["split"]]
                self.written += told["split"] is not None
            self._failures, self._sign = 0, time.monotonic()
            if told["url"] and self.project is None:
                self.project = told["url"].rpartition("/runs/")[0]
                self._tell(f"W&B: {self.project}")

    def _failed(self, reason: str) -> None:
        self._failures += 1
        self._resume = time.monotonic() + _PAUSE
        if reason != self.reason:
            self._tell(f"W&B cannot be written now ({reason})")
        self.reason = reason

    def _tell(self, line: str) -> None:
        """In the thread that listens."""
        with suppress(BrokenPipeError):  # nobody reads on, as the driver's next line will tell itself
            self._say(line)

    def _kill(self, process: "subprocess.Popen[str]") -> None:
        """With the service that it started."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _ended(status: int) -> str:
    return f"its process was ended by signal {-status}" if status < 0 else f"its process ended with status {status}"
