"""Reads a study from a W&B server through the public API: plan, searches, runs, full curves, and scores.

The client itself repeats what a server refuses for a while (429, after the time that it names, and 5xx), but gives an
answer 19 seconds in all; here it has `_PATIENCE`, since W&B may ask for a minute.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.json_files import History
from analysis.run import Run
from analysis.wandb_files import WandbRun
from trainables.errors import UserError

if TYPE_CHECKING:
    import wandb
    from wandb.apis import public

PREFIX = "wandb:"
PER_PAGE = 100
"""Runs that one request asks for."""
_AT_ONCE = 8
"""Runs whose scores are fetched at a time; the client sends no more than 10 requests at once."""
_PATIENCE = 120
"""Seconds for an answer, repetitions included, unless WANDB_HTTP_TIMEOUT names others."""
_STUCK = 900.0
"""Seconds without any run's scores after which nothing more is awaited: the client alone would go on for hours."""
SCORES = "scores.parquet"
"""The one file of an artifact of scores."""
_CONSTANTS = {name: float(name) for name in ("NaN", "Infinity", "-Infinity")}
"""JSON has no such numbers; W&B gives them as text."""


class ServerError(Exception):
    """A server that does not answer, or not as it should; nobody's mistake."""


class Address(NamedTuple):
    """A project; without an entity, that of the user's default entity."""

    entity: str | None
    project: str

    @classmethod
    def parse(cls, text: str) -> "Address":
        """From wandb:ENTITY/PROJECT or wandb:PROJECT.

        Raises:
            UserError: another form.
        """
        found = re.fullmatch(r"wandb:(?:([^/\\#?%:\s]+)/)?([^/\\#?%:]+)", text)
        if found is None:
            raise UserError(text, "not the address of a project", "wandb:ENTITY/PROJECT or wandb:PROJECT")
        return cls(*found.groups())

    @property
    def path(self) -> str:
        """As the public API wants it."""
        return f"{self.entity}/{self.project}" if self.entity else self.project


@contextmanager
def connected(address: str, cache: Path | None = None) -> Iterator["Project"]:
    """A project on the server that the client is set to, for as long as it is read.

    Args:
        address: of the project.
        cache: folder for scores; none: one that is removed at the end.

    Raises:
        UserError: another form of address, no key, or a wrong one.
        ServerError: the server does not answer.
    """
    place = Address.parse(address)
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="wandb-", ignore_cleanup_errors=True) as scratch:
        for variable in ("WANDB_CACHE_DIR", "WANDB_DATA_DIR", "WANDB_DIR"):
            os.environ[variable] = str(Path(scratch, "client"))  # the client makes folders, and keeps copies of files
        os.environ |= {"WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false"}
        import wandb

        try:
            with _explained(address):
                api = wandb.Api(timeout=wandb.env.get_http_timeout(_PATIENCE))
            yield Project(api, place, cache or Path(scratch, "scores"))
        finally:
            wandb.teardown()  # its service has files open here
            os.environ.clear()
            os.environ |= before


class Project:
    """A project's runs on a server; scores are put into `folder`."""

    def __init__(self, api: "wandb.Api", address: Address, folder: Path) -> None:
        self._api, self._address, self._folder = api, address, folder
        self._where = f"{PREFIX}{address.path}"

    def study(self, name: str | None) -> str:
        """The one study of the project, or that of this name.

        Raises:
            UserError: no such project or study, or several where none was named.
        """
        names = sorted({str(run.config.get("study")) for run in self._listed({"jobType": "plan"})})
        if not names:
            raise UserError(self._where, "no plan of a study in it", "a project that a study was logged to")
        if name is not None and name not in names:
            raise UserError("--study", name, f"one of {self._where}: {', '.join(names)}")
        if name is None and len(names) > 1:
            raise UserError(self._where, f"{len(names)} studies ({', '.join(names)})", "--study with the name of one")
        return name or names[0]

    def read(self, study: str) -> tuple[list[WandbRun], list[Run]]:
        """What W&B holds of a study beside its runs, without curves; and its runs, in order of id.

        Raises:
            UserError: scores are damaged.
            ServerError: the server does not answer any more.
        """
        listed = self._listed({"config.study": study})
        documents = [
            WandbRun(run.id, run.group or "", run.job_type or "", run.config, written=run.heartbeat_at or "")
            for run in listed
            if "specification_id" not in run.config
        ]
        runs = [run for run in listed if "specification_id" in run.config]
        pool = ThreadPool(_AT_ONCE)
        try:
            with _explained(self._where):
                waiting = pool.imap(self._run, runs)
                found = [waiting.next(_STUCK) for _ in runs]
        finally:
            pool.terminate()
        return documents, sorted(found, key=lambda run: run.id)

    def _listed(self, filters: dict[str, Any]) -> "list[public.Run]":
        """All runs that fit, page by page."""
        with _explained(self._where):
            try:
                return list(self._api.runs(self._address.path, filters, per_page=PER_PAGE, lazy=False))
            except ValueError as error:  # so the client says that there is none
                raise UserError(
                    self._where, "no such project, or not for this key", "a project on the server"
                ) from error

    def _run(self, run: "public.Run") -> Run:
        summary = {key: _number(value) for key, value in run.summary_metrics.items() if not key.startswith("_")}
        files = self._scores(run) if summary.get("state") == "finished" else {}
        return Run(run.id, run.config, summary, self._curve(run), files, run.url)

    def _scores(self, run: "public.Run") -> dict[str, Path]:
        """The last version of each artifact of scores, by split, its digest checked."""
        latest: dict[str, wandb.Artifact] = {}
        for artifact in _artifacts(run):
            name = artifact.name.partition(":")[0]
            if artifact.state == "COMMITTED" and name.startswith("scores-") and name.endswith(f"-{run.id}"):
                latest[name] = max(latest.get(name, artifact), artifact, key=lambda one: int(one.version[1:]))
        files = {}
        for name, artifact in latest.items():
            place = self._folder / name
            artifact.download(str(place))
            try:
                artifact.verify(str(place))
            except ValueError as error:
                shutil.rmtree(place)
                raise UserError(f"artifact {name}", "it does not have the logged digest", "scores as logged") from error
            files[name.removeprefix("scores-").removesuffix(f"-{run.id}")] = place / SCORES
        return files

    def _curve(self, run: "public.Run") -> Callable[[], History]:
        """Reads every row: of what W&B shows in its figures, it has left out most."""

        def rows() -> History:
            with _explained(self._where):
                found = list(run.scan_history(use_cache=False))
            last = (run.historyKeys or {}).get("lastStep", -1)
            if len(found) < run.historyLineCount or (found[-1]["_step"] if found else -1) < last:
                told = f"{run.historyLineCount}, the last of them {last}, as the server counts"
                raise UserError(f"curve of run {run.id}", f"{len(found)} rows", told)
            return [{k: _number(value) for k, value in row.items() if not k.startswith("_")} for row in found]

        return rows


def _artifacts(run: "public.Run") -> "list[wandb.Artifact]":
    """What a run logged. The client's own list of artifacts, which threads share, at times loses what it drops."""
    for _ in range(5):
        with suppress(KeyError):
            return list(run.logged_artifacts())
    return list(run.logged_artifacts())


def _number(value: Any) -> Any:
    return _CONSTANTS.get(value, value) if isinstance(value, str) else value


@contextmanager
def _explained(where: str) -> Iterator[None]:
    """What the client raises, as a user's mistake or as a server's failure, in one line."""
    import wandb
    from requests import RequestException
    from wandb.sdk.lib.service.service_connection import WandbApiFailedError

    try:
        yield
    except wandb.errors.UsageError as error:
        raise UserError("W&B", "no API key", "WANDB_API_KEY, or one that `wandb login` has stored") from error
    except (wandb.errors.Error, WandbApiFailedError, RequestException, TimeoutError) as error:
        raise _failure(error, where, str(wandb.setup().settings.base_url)) from error


def _failure(error: Exception, where: str, server: str) -> Exception:
    """Without the client's own words, which may hold addresses that are keys."""
    import wandb

    causes = [error, getattr(error, "exc", None), error.__cause__]
    response = next((found for cause in causes if (found := getattr(cause, "response", None)) is not None), None)
    status = getattr(response, "http_status", None) or getattr(response, "status_code", None) or 0
    if isinstance(error, wandb.errors.AuthenticationError):
        if status in (401, 403) or error.__cause__ is None or "invalid credentials" in getattr(response, "message", ""):
            return UserError("W&B", "the API key is refused", f"a key of {server}")
    elif status in (401, 403, 404):
        return UserError(where, f"no access with this key (HTTP {status})", "a project that it may read")
    told = f"HTTP {status}" if status else "no answer"
    return ServerError(f"{server}: {told} ({type(error).__name__}); try again later")
