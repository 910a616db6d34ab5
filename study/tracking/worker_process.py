"""Background process that writes to W&B: reads requests from standard input, prints replies.

    python -m study.tracking.worker_process

The first line is the tracking, every other line a request, all as JSON. The process ends with its input or at the first
error: the client's service cannot continue a run after a failure, but a new process can.
"""

import json
import os
import queue
import re
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from study.tracking.tracking_settings import Tracking
from study.tracking.wandb_run import prepare_client
from study.tracking.writer import RunWriter
from study.utils.error_text import format_redacted_traceback, redact, summarize_server_error
from trainables.utils.errors import is_disk_full
from trainables.utils.plugins import load_plugins

_N_WRITERS = {"offline": 1, "online": 4}
"""Threads by mode. Online, most of the time is spent waiting for the server."""
_SHUTDOWN_TIMEOUT_S = 120.0
"""Seconds for the remaining requests after the input has ended."""
_LOCK_RETRY_S = 0.05
"""Seconds until another attempt to write a run that another process is writing."""
_LOG_FILE = Path("wandb", "scribe.log")
_SERVER_URL = re.compile(r"https?://[^\s\"']+")


def main() -> NoReturn:
    """Write until the input ends."""
    try:
        _serve_requests()
    except Exception as error:
        _report_and_exit(error)
    os._exit(0)  # a normal exit would mark open runs as finished


def _serve_requests() -> None:
    tracking = Tracking.model_validate_json(sys.stdin.readline())
    load_plugins(tracking.plugins)
    prepare_client(tracking)
    writers = [_WriterThread(tracking) for _ in range(_N_WRITERS[tracking.mode])]
    for line in sys.stdin:
        request = json.loads(line)
        writers[hash(request["run"]) % len(writers)].requests.put(request)
    for writer in writers:
        writer.requests.put(None)
    for writer in writers:
        writer.join(_SHUTDOWN_TIMEOUT_S)
    if any(writer.is_alive() for writer in writers):  # W&B is unavailable, and no process waits for this one
        os.killpg(os.getpgrp(), signal.SIGKILL)


class _WriterThread(threading.Thread):
    """Executes the requests of some runs in their order, except for runs that another process is writing."""

    def __init__(self, tracking: Tracking) -> None:
        super().__init__(daemon=True)
        self.requests: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._writer = RunWriter(tracking)
        self.start()

    def run(self) -> None:
        """Execute requests until the input ends."""
        try:
            while (request := self.requests.get()) is not None:
                if request["do"] != "evaluation" or self._writer.try_lock_run(request["run"]):
                    self._handle_request(request)
                else:  # waiting here could deadlock two processes that wait for each other's runs
                    self.requests.put(request)
                    time.sleep(_LOCK_RETRY_S)
            self._writer.close()
        except BaseException as error:
            _report_and_exit(error)

    def _handle_request(self, request: dict[str, Any]) -> None:
        if request["do"] == "rows":
            self._writer.write_rows(request["labels"], request["rows"], request["start"])
            return
        if request["do"] == "evaluation":
            url = self._writer.write_evaluation(request["run"], request["split"])
        else:
            url = self._writer.write_document(request["run"])
        _send_reply({"done": request["run"], "split": request.get("split"), "number": request["number"], "url": url})


def _report_and_exit(error: BaseException) -> NoReturn:
    """Report the reason and end the process, including its other threads."""
    reason = redact(_SERVER_URL.sub("the server", summarize_server_error(error)))
    with suppress(OSError):  # the disk is full; the reason says so
        _LOG_FILE.write_text(_SERVER_URL.sub("the server", "".join(format_redacted_traceback(error))), encoding="utf-8")
    _send_reply({"failed": reason[:300], "full": is_disk_full(error)})
    os._exit(3)


_output_lock = threading.Lock()


def _send_reply(reply: dict[str, Any]) -> None:
    with _output_lock:
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
