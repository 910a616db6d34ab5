"""Connects to the W&B server of the user's client through its public API and explains its errors.

The client itself repeats requests that a server refuses for a while (429, after the time that it names, and 5xx). By
default it waits 19 seconds for an answer; here it waits `_TIMEOUT_S`, since W&B may ask for a minute.
"""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import TimeoutError as AwaitedTooLong
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, NamedTuple

from trainables.utils.errors import UserError, require_package

if TYPE_CHECKING:
    import wandb

PREFIX = "wandb:"
_TIMEOUT_S = 120
"""Seconds to wait for an answer, including repetitions, unless WANDB_HTTP_TIMEOUT is set."""
_TEARDOWN_S = 5.0
"""Seconds that the client's service has to end before it is killed."""


class ServerError(Exception):
    """A server does not answer, or not correctly. It is not the user's mistake."""


class ProjectAddress(NamedTuple):
    """Address of a project; without an entity, it belongs to the user's default entity."""

    entity: str | None
    project: str

    @classmethod
    def parse(cls, text: str) -> "ProjectAddress":
        """Parse wandb:ENTITY/PROJECT or wandb:PROJECT.

        Raises:
            UserError: if the text has another form.

        Example:
            >>> ProjectAddress.parse("wandb:team/rankers").path
            'team/rankers'
        """
        match = re.fullmatch(rf"{PREFIX}(?:([\w.-]+)/)?([^/\\#?%:\s][^/\\#?%:]*)", text)
        if match is None:
            raise UserError(text, "not the address of a project", f"{PREFIX}ENTITY/PROJECT or {PREFIX}PROJECT")
        return cls(*match.groups())

    @property
    def path(self) -> str:
        """The address as the public API expects it."""
        return f"{self.entity}/{self.project}" if self.entity else self.project

    def __str__(self) -> str:
        return f"{PREFIX}{self.path}"


@dataclass(frozen=True)
class Connection:
    """A connection to a W&B server.

    Attributes:
        folder: folder that is removed when the connection ends.
    """

    server: str
    api: "wandb.Api"
    folder: Path

    def translate_errors(self, where: str) -> AbstractContextManager[None]:
        """Raise UserError or ServerError for errors of the client while something is read."""
        return _translate_errors(self.server, where)


@contextmanager
def connect() -> Iterator[Connection]:
    """Connect to the server; everything that its client writes is removed at the end.

    A client that the calling process uses already, for runs of its own, goes on as it was.

    Raises:
        UserError: if W&B's client is not installed, or there is no API key, or a wrong one.
        ServerError: if the server does not answer.
    """
    require_package("wandb", "W&B")
    with tempfile.TemporaryDirectory(prefix="report-", ignore_cleanup_errors=True) as scratch:
        client_variables = dict.fromkeys(
            ("WANDB_CACHE_DIR", "WANDB_DATA_DIR", "WANDB_DIR"), str(Path(scratch, "client"))
        )
        client_variables |= {"WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false"}
        before = {name: os.environ.get(name) for name in client_variables}
        os.environ |= client_variables
        import wandb
        from wandb.sdk import wandb_setup

        is_ours = wandb_setup.singleton()._connection is None  # the service of the caller's own runs is left alone
        try:
            server = _get_server_url()
            with _translate_errors(server, "W&B"):
                api = wandb.Api(timeout=wandb.env.get_http_timeout(_TIMEOUT_S))
            yield Connection(server, api, Path(scratch))
        finally:
            if is_ours:
                _tear_down()  # it has open files in the temporary folder
            for name, value in before.items():
                os.environ.pop(name)
                os.environ |= {} if value is None else {name: value}


def _tear_down() -> None:
    """End the client and its service, which need not end by itself when a server does not answer.

    Nothing is lost when it is killed, since it only reads.
    """
    import wandb
    from wandb.sdk import wandb_setup

    connection = wandb_setup.singleton()._connection
    service = connection._proc if connection else None
    with ExitStack() as stack:
        if service:
            timer = Timer(_TEARDOWN_S, service._process.kill)
            timer.start()
            stack.callback(timer.cancel)
        stack.enter_context(suppress(SystemExit, OSError))
        wandb.teardown()


def _get_server_url() -> str:
    import wandb

    try:
        return str(wandb.setup().settings.base_url)
    except ValueError as error:
        raise UserError("W&B", "its client has no valid settings", "the settings of a server") from error


@contextmanager
def _translate_errors(server: str, where: str) -> Iterator[None]:
    import wandb
    from requests import RequestException
    from wandb.sdk.lib.service.service_connection import WandbApiFailedError

    try:
        yield
    except wandb.errors.UsageError as error:
        raise UserError("W&B", "no API key", "WANDB_API_KEY, or a key that `wandb login` has stored") from error
    except (wandb.errors.Error, WandbApiFailedError, RequestException, AwaitedTooLong, ValueError) as error:
        raise _to_error(error, server, where) from error


def _to_error(error: Exception, server: str, where: str) -> Exception:
    """Return the error in our own words, because the client's may contain addresses with credentials."""
    import wandb

    causes = (error, getattr(error, "exc", None), error.__cause__)
    responses = (getattr(cause, "response", None) for cause in causes)
    response = next((answer for answer in responses if answer is not None), None)
    status = getattr(response, "http_status", None) or getattr(response, "status_code", None) or 0
    if isinstance(error, wandb.errors.AuthenticationError):
        if status in (401, 403) or error.__cause__ is None or "invalid credentials" in getattr(response, "message", ""):
            return UserError("W&B", "the server rejects the API key", f"a key of {server}")
    elif status in (401, 403, 404):
        return UserError(where, f"this key has no access to it (HTTP {status})", "a project that it may read")
    status_text = f"HTTP {status}" if status else "no usable answer"
    return ServerError(f"{server}: {status_text} ({where}); try again later")
