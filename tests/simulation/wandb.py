"""A W&B server, and the process that writes to it, which works while time passes."""

import contextlib
import json
from collections import deque
from collections.abc import Callable
from typing import Any

from study.tracking import Tracking
from study.tracking.payload import RunPayload
from study.tracking.writer import RunWriter
from tests.simulation.machine import Machine
from tests.simulation.schedules import WandbFault

Reply = Callable[[dict[str, Any]], None]


class Server:
    """Server of W&B.

    Attributes:
        runs: the rows and the summary of each run, by its project and id.
        is_broken: whether it fails when a run is finished next.
    """

    def __init__(self, machine: Machine, faults: tuple[WandbFault, ...] = ()) -> None:
        self.runs, self.machine = dict[str, tuple[list[dict[str, Any]], dict[str, Any]]](), machine
        self._faults = {fault.at: fault.kind for fault in faults}
        self._n_requests, self.is_broken = 0, False

    def count_request(self) -> str:
        """Count a request, and return the fault that happens to it, or an empty string."""
        self._n_requests += 1
        fault = self._faults.get(self._n_requests, "")
        self.machine.n_happened += bool(fault)
        return fault

    def start_writer(self, tracking: Tracking, on_reply: Reply, on_exit: Callable[[int], None]) -> "Writer":
        """Start a process, as `study.tracking.writer_process.WriterProcess`."""
        return Writer(self, tracking, on_reply, on_exit)

    def open_run(self, tracking: Tracking, payload: RunPayload) -> "Run":
        """Open a run, as `study.tracking.wandb_run.WandbRun`."""
        return Run(self, f"{tracking.project}/{payload.id}")


class Run:
    """An open run of the server."""

    url = "http://server/p/runs/x"

    def __init__(self, server: Server, run_id: str) -> None:
        self._server, self._id = server, run_id
        self._rows, _ = server.runs.setdefault(run_id, ([], {}))

    def log_rows(self, rows: list[dict[str, Any]], start: int = 0) -> None:
        """Add the rows that the server does not have; none if earlier ones are missing."""
        if start <= len(self._rows):
            self._rows += rows[len(self._rows) - start :]

    def finish(self, payload: RunPayload) -> None:
        """Add the rest."""
        if self._server.is_broken:
            self._server.is_broken = False
            raise ConnectionError("the server has gone")
        self.log_rows(payload.rows)
        self._server.runs[self._id] = self._rows, self._server.runs[self._id][1] | payload.summary


class Writer:
    """The process that writes, one request after the other."""

    def __init__(self, server: Server, tracking: Tracking, on_reply: Reply, on_exit: Callable[[int], None]) -> None:
        self._server, self._folder, self._on_reply, self._on_exit = server, tracking.folder, on_reply, on_exit
        self._writer, self._requests, self._is_stuck, self._has_ended = RunWriter(tracking), deque[Any](), False, False
        server.machine.background.append(self)

    def send(self, line: str) -> None:
        """Queue a request."""
        self._requests.append(json.loads(line))

    def close(self, timeout: float) -> None:
        """Handle the rest of the requests and end."""
        while self._requests and not self._is_stuck and not self._has_ended:
            self.work()
        self._end(0)

    def kill(self) -> None:
        """End at once."""
        self._end(-9)

    def die(self) -> None:
        """Do nothing from here on."""
        self._has_ended = True
        self._server.machine.background.remove(self)

    def work(self) -> None:
        """Handle a request."""
        if not self._requests or self._is_stuck or self._has_ended:
            return
        fault, request = self._server.count_request(), self._requests.popleft()
        match fault:
            case "hang":
                self._is_stuck = True
            case "refuse":
                self._on_reply({"failed": "the server refuses", "full": False})
                self._end(3)
            case "lose":
                self._handle(request)
                self._end(-9)
            case _:
                try:
                    self._server.is_broken = fault == "break"
                    url = self._handle(request)
                except Exception as error:  # as the process does
                    self._on_reply({"failed": str(error), "full": False})
                    self._end(3)
                    return
                split = request.get("split")
                self._on_reply({"done": request["run"], "split": split, "number": request["number"], "url": url})

    def _handle(self, request: dict[str, Any]) -> str | None:
        with self._server.machine.stand_aside(), contextlib.chdir(self._folder):
            try:
                if request["do"] == "evaluation":
                    return self._writer.write_evaluation(request["run"], request["split"])
                return self._writer.write_document(request["run"])
            finally:
                self._server.is_broken = False

    def _end(self, status: int) -> None:
        if self._has_ended:
            return
        self.die()
        with self._server.machine.stand_aside(), contextlib.chdir(self._folder):
            self._writer.close()
        self._on_exit(status)
