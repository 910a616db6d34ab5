"""The scribe's process: orders come in over standard input, what is done goes out over standard output.

    python -m study.tracking.worker_process

The first line is the tracking, every other one an order, each as JSON. It ends with its input, or at the first thing
that goes wrong: the client's service cannot go on with a run after a failure, a new process can.
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

from study.tracking.settings import Tracking
from study.tracking.wandb_run import prepare_client
from study.tracking.writer import RunWriter
from study.utils.error_text import format_redacted_traceback, is_disk_full, redact, summarize_server_error

_N_WRITERS = {"offline": 1, "online": 4}
"""Online most of the time is waiting for the server."""
_SHUTDOWN_TIMEOUT_S = 120.0
"""Seconds for what is left when the input has ended."""
_LOCK_RETRY_S = 0.05
"""Seconds until it is tried again to write a run that another process writes."""
_LOG_FILE = Path("wandb", "scribe.log")
_SERVER_URL = re.compile(r"https?://[^\s\"']+")


def main() -> NoReturn:
    """Writes until the input ends."""
    try:
        _serve_requests()
    except Exception as error:
        _report_and_exit(error)
    os._exit(0)  # the client would say of open runs that they are finished


def _serve_requests() -> None:
    tracking = Tracking.model_validate_json(sys.stdin.readline())
    prepare_client(tracking)
    writers = [_WriterThread(tracking) for _ in range(_N_WRITERS[tracking.mode])]
    for line in sys.stdin:
        request = json.loads(line)
        writers[hash(request["run"]) % len(writers)].requests.put(request)
    for writer in writers:
        writer.requests.put(None)
    for writer in writers:
        writer.join(_SHUTDOWN_TIMEOUT_S)
    if any(writer.is_alive() for writer in writers):  # W&B is away, and nobody waits for this process any more
        os.killpg(os.getpgrp(), signal.SIGKILL)


class _WriterThread(threading.Thread):
    """Writes the orders of some runs, in their order but for those that another process is writing."""

    def __init__(self, tracking: Tracking) -> None:
        super().__init__(daemon=True)
        self.requests: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._writer = RunWriter(tracking)
        self.start()

    def run(self) -> None:
        """Until the input ends."""
        try:
            while (request := self.requests.get()) is not None:
                if request["do"] != "evaluation" or self._writer.try_lock_run(request["run"]):
                    self._handle_request(request)
                else:  # two processes that wait for each other's runs would wait for ever
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
    """Says why, and ends the process with whatever else it does."""
    reason = redact(_SERVER_URL.sub("the server", summarize_server_error(error)))
    with suppress(OSError):  # a full disk, which the reason names
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
