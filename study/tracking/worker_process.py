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
from study.tracking.wandb_run import prepare
from study.tracking.writer import Writer
from study.utils.error_text import of_server, public, story, unwritable

_WRITERS = {"offline": 1, "online": 4}
"""Online most of the time is waiting for the server."""
_PATIENCE = 120.0
"""Seconds for what is left when the input has ended."""
_HELD = 0.05
"""Seconds until it is tried again to write a run that another process writes."""
_LOG = Path("wandb", "scribe.log")
_SERVER = re.compile(r"https?://[^\s\"']+")


def main() -> NoReturn:
    """Writes until the input ends."""
    try:
        _write()
    except Exception as error:
        _fail(error)
    os._exit(0)  # the client would say of open runs that they are finished


def _write() -> None:
    tracking = Tracking.model_validate_json(sys.stdin.readline())
    prepare(tracking)
    writers = [_Worker(tracking) for _ in range(_WRITERS[tracking.mode])]
    for line in sys.stdin:
        order = json.loads(line)
        writers[hash(order["run"]) % len(writers)].orders.put(order)
    for writer in writers:
        writer.orders.put(None)
    for writer in writers:
        writer.join(_PATIENCE)
    if any(writer.is_alive() for writer in writers):  # W&B is away, and nobody waits for this process any more
        os.killpg(os.getpgrp(), signal.SIGKILL)


class _Worker(threading.Thread):
    """Writes the orders of some runs, in their order but for those that another process is writing."""

    def __init__(self, tracking: Tracking) -> None:
        super().__init__(daemon=True)
        self.orders: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._writer = Writer(tracking)
        self.start()

    def run(self) -> None:
        """Until the input ends."""
        try:
            while (order := self.orders.get()) is not None:
                if order["do"] != "evaluation" or self._writer.takes(order["run"]):
                    self._obey(order)
                else:  # two processes that wait for each other's runs would wait for ever
                    self.orders.put(order)
                    time.sleep(_HELD)
            self._writer.close()
        except BaseException as error:
            _fail(error)

    def _obey(self, order: dict[str, Any]) -> None:
        if order["do"] == "rows":
            self._writer.rows(order["labels"], order["rows"], order["start"])
            return
        if order["do"] == "evaluation":
            url = self._writer.evaluation(order["run"], order["split"])
        else:
            url = self._writer.document(order["run"])
        _say({"done": order["run"], "split": order.get("split"), "number": order["number"], "url": url})


def _fail(error: BaseException) -> NoReturn:
    """Says why, and ends the process with whatever else it does."""
    reason = public(_SERVER.sub("the server", of_server(error)))
    with suppress(OSError):  # a full disk, which the reason names
        _LOG.write_text(_SERVER.sub("the server", "".join(story(error))), encoding="utf-8")
    _say({"failed": reason[:300], "full": unwritable(error)})
    os._exit(3)


_saying = threading.Lock()


def _say(what: dict[str, Any]) -> None:
    with _saying:
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
