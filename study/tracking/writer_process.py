"""The background process that writes to W&B, as its driver sees it: lines go in, replies come out, then it ends."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from study.tracking.agent_env import remove_sweep_variables
from study.tracking.tracking_settings import Tracking

_ROOT = Path(__file__).resolve().parents[2]


class WriterProcess:
    """A process of `study.tracking.worker_process`, with a session of its own.

    Args:
        tracking: destination, which is its first line.
        on_reply: called with each reply, in another thread.
        on_exit: called once in that thread after the last reply, with the status: minus the signal if one killed it.
    """

    def __init__(
        self, tracking: Tracking, on_reply: Callable[[dict[str, Any]], None], on_exit: Callable[[int], None]
    ) -> None:
        environment = remove_sweep_variables(os.environ)
        # The process starts in another folder, where relative paths would lead elsewhere.
        paths = [_ROOT, *map(os.path.abspath, sys.path)]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "study.tracking.worker_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=tracking.folder,
            env=environment | {"PYTHONPATH": os.pathsep.join(map(str, paths))},
            start_new_session=True,
        )
        threading.Thread(target=self._read_replies, args=(on_reply, on_exit), daemon=True).start()
        self.send(tracking.model_dump_json())

    def send(self, line: str) -> None:
        """Send a line. A process that has just ended does not get it; `on_exit` says why."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def close(self, timeout: float) -> None:
        """End the input, and kill the process if it has not ended after as many seconds."""
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill the process and the W&B service that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _read_replies(self, on_reply: Callable[[dict[str, Any]], None], on_exit: Callable[[int], None]) -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                on_reply(json.loads(line))
        finally:  # otherwise the driver would wait forever for replies that nobody reads
            on_exit(self._process.wait())
