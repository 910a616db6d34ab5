"""A test's hold of a server: starts and kills it, lets it fail, and reads what it has."""

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Self

from wandb_server import faults
from wandb_server.accounts import ENTITY
from wandb_server.contents import ServerRun, ServerSweep, ServerView, read_runs, read_sweeps, read_views
from wandb_server.database import Database, Request
from wandb_server.runs import CRASH_AFTER

ROOT = Path(__file__).parents[1]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


class Server:
    """A W&B on this machine, a process of its own; what it has is in `folder`, and stays there.

    `crash_after` are the seconds without a sign of life after which a running run counts as crashed.
    """

    entity = ENTITY

    def __init__(self, folder: Path, crash_after: float = CRASH_AFTER):
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._path = folder / "server.sqlite"
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        with self._database() as database:
            self.key: str = database.setting("key") or token_hex(20)
            database.set("key", self.key)
            database.set("crash_after", crash_after)

    @property
    def url(self) -> str:
        """The same over restarts."""
        return f"http://127.0.0.1:{self._port}"

    def environment(self) -> dict[str, str]:
        """The variables by which a client's process talks to this server."""
        return {"WANDB_BASE_URL": self.url, "WANDB_API_KEY": self.key}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start the process, and wait until it answers.

        Raises RuntimeError if it runs already, or does not answer within half a minute.
        """
        if self._process:
            raise RuntimeError("the server runs already")
        command = [sys.executable, "-m", "wandb_server", str(self._folder.resolve()), str(self._port)]
        log = self._folder / "server.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
        for _ in range(600):
            if self._process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(f"{self.url}/healthz", timeout=5):
                    return
            except OSError:
                time.sleep(0.05)
        self.kill()
        raise RuntimeError(f"the server did not start: {log.read_text()[-2000:]}")

    def kill(self) -> None:
        """SIGKILL, as a power cut to all that it was doing; nothing if it does not run."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def fail(
        self,
        status: int,
        times: int | None = 1,
        path: str = "",
        retry_after: float | None = None,
        done: bool = False,
    ) -> None:
        """Let the next `times` requests fail, all that come if that is None.

        `path` is a part of their path (/graphql, file_stream, store) or the name of their GraphQL operation. Status 0
        cuts the connection; `retry_after` is in seconds. With `done` they take effect, and only their answer is lost.
        """
        with self._database() as database:
            faults.add(database, faults.Fault(path, status, times, retry_after=retry_after, done=done))

    def delay(self, seconds: float, times: int | None = None, path: str = "") -> None:
        """Let the next requests wait before they are answered."""
        with self._database() as database:
            faults.add(database, faults.Fault(path, None, times, seconds=seconds))

    def heal(self) -> None:
        """Let nothing fail or wait any more."""
        with self._database() as database:
            faults.clear(database)

    def runs(self, project: str) -> dict[str, ServerRun]:
        """The runs of a project by their ids, in the order of creation."""
        with self._database() as database:
            return read_runs(database, project)

    def sweeps(self) -> dict[str, ServerSweep]:
        """All sweeps by their ids, in the order of creation."""
        with self._database() as database:
            return read_sweeps(database)

    def views(self, project: str) -> list[ServerView]:
        """The views of a project, in the order of creation."""
        with self._database() as database:
            return read_views(database, project)

    @property
    def requests(self) -> list[Request]:
        """Every request there ever was, in the order of their answers; also those that failed on purpose."""
        with self._database() as database:
            return [request for request in database.requests() if request.path != "/healthz"]

    def everything(self) -> Iterator[bytes]:
        """All that clients ever sent, a request at a time: path, headers but Authorization, and body."""
        for request in self.requests:
            headers = "".join(f"{name}: {value}\n" for name, value in request.headers.items())
            yield f"{request.method} {request.path}\n{headers}\n".encode() + request.body

    @contextmanager
    def _database(self) -> Iterator[Database]:
        """The database as it is at one moment."""
        with closing(Database(self._path)) as database, database.transaction():
            yield database
