"""Reads a study from a project on a W&B server: plan, searches, runs, curves; scores and queries from artifacts."""

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import cache, partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.data.json_files import History
from analysis.data.query_attributes import FILE as QUERIES
from analysis.data.run import Run
from analysis.readers.wandb_offline import WandbRun
from analysis.readers.wandb_server import Address, Connection
from trainables.utils.errors import UserError

if TYPE_CHECKING:
    from multiprocessing.pool import AsyncResult

    import wandb
    from wandb.apis import public

Curve = Callable[[], History]
SCORES = "scores.parquet"
"""The one file of an artifact of scores."""
PER_PAGE = 100
"""Runs that one request asks for."""
_AT_ONCE = 8
"""Runs that are read at a time; the client sends no more than 10 requests at once."""
_STUCK = 900.0
"""Seconds for a run's scores or curve after which nothing more is awaited: the client alone would go on for hours."""
_CONSTANTS = {name: float(name) for name in ("NaN", "Infinity", "-Infinity")}
"""JSON has no such numbers; W&B gives them as text."""


class Project:
    """A project's runs, for as long as the server is connected; their scores are put into `folder`."""

    def __init__(self, connection: Connection, address: Address, folder: Path) -> None:
        self._connection, self._address, self._folder = connection, address, folder

    def study(self, name: str | None) -> str:
        """The one study of the project, or that of this name.

        Raises:
            UserError: no such project or study, or several where none was named.
        """
        names = sorted({str(run.config.get("study")) for run in self._listed({"jobType": "plan"})})
        if not names:
            raise UserError(str(self._address), "no plan of a study in it", "a project that a study was logged to")
        if name is not None and name not in names:
            raise UserError("--study", name, f"one of {self._address}: {', '.join(names)}")
        if name is None and len(names) > 1:
            raise UserError(str(self._address), f"{len(names)} studies: {', '.join(names)}", "--study with one of them")
        return name or names[0]

    def read(self, study: str) -> tuple[list[WandbRun], dict[str, Path], list[Run]]:
        """What W&B holds of a study beside its runs, without curves; of that the files of queries, by id; and its runs,
        in order of id.

        Raises:
            UserError: a file is damaged.
            ServerError: the server does not answer any more.
        """
        listed = self._listed({"config.study": study})
        others = [run for run in listed if "specification_id" not in run.config]
        documents = [_document(run) for run in others]
        runs = [run for run in listed if "specification_id" in run.config]
        pool = ThreadPool(_AT_ONCE)
        try:
            with self._explained():
                waiting = pool.imap(self._run, runs)
                found = {run.id: waiting.next(_STUCK) for run in runs}
                told = [run for run in others if run.job_type == "queries"]
                files = {run.id: path for run in told for path in pool.apply_async(self._queries, [run]).get(_STUCK)}
        finally:
            pool.terminate()
        tested = {key: run.curve for key, run in found.items() if len(run.files) > 1}
        found |= {key: replace(found[key], curve=curve) for key, curve in self._together(tested).items()}
        return documents, files, [found[key] for key in sorted(found)]

    def _listed(self, filters: dict[str, Any]) -> "list[public.Run]":
        """All runs that fit, page by page."""
        with self._explained():
            try:
                return list(self._connection.api.runs(self._address.path, filters, per_page=PER_PAGE, lazy=False))
            except ValueError as error:  # so the client says that there is none
                expected = "one that is on the server, and that this key may read"
                raise UserError(str(self._address), "no such project", expected) from error

    def _explained(self) -> AbstractContextManager[None]:
        return self._connection.explained(str(self._address))

    def _run(self, run: "public.Run") -> Run:
        summary = _summary(run)
        files = self._scores(run) if summary.get("state") == "finished" else {}
        return Run(run.id, run.config, summary, partial(self._awaited, partial(self._curve, run)), files, run.url)

    def _awaited(self, curve: Curve) -> History:
        """The client alone would wait for hours where a server takes every question and answers none."""
        pool = ThreadPool(1)
        try:
            with self._explained():
                return pool.apply_async(curve).get(_STUCK)
        finally:
            pool.close()

    def _scores(self, run: "public.Run") -> dict[str, Path]:
        """By split, the last version of each artifact of scores, its digest checked."""
        names = self._downloaded(run, "scores-", f"-{run.id}")
        return {
            name.removeprefix("scores-").removesuffix(f"-{run.id}"): place / SCORES for name, place in names.items()
        }

    def _queries(self, run: "public.Run") -> list[Path]:
        """The file of a document of queries, its digest checked; none of one that a study was killed over."""
        if _summary(run).get("state") != "finished":
            return []
        return [place / QUERIES for place in self._downloaded(run, run.id).values()]

    def _downloaded(self, run: "public.Run", start: str, end: str = "") -> dict[str, Path]:
        """By name, where the last version of each artifact with such a name lies, its digest checked."""
        latest: dict[str, wandb.Artifact] = {}
        for artifact in _artifacts(run):
            name = artifact.name.partition(":")[0]
            if artifact.state == "COMMITTED" and name.startswith(start) and name.endswith(end):
                latest[name] = max(latest.get(name, artifact), artifact, key=lambda one: int(one.version[1:]))
        for name, artifact in latest.items():
            place = self._folder / name
            artifact.download(str(place))
            try:
                artifact.verify(str(place))
            except ValueError as error:
                shutil.rmtree(place)
                raise UserError(f"artifact {name}", "it does not have the logged digest", "a file as logged") from error
        return {name: self._folder / name for name in latest}

    def _curve(self, run: "public.Run") -> History:
        """Every row; the rows that W&B shows in its figures are a sample."""
        with self._explained():
            found = list(run.scan_history(use_cache=False))
        last = (run.historyKeys or {}).get("lastStep", -1)
        if len(found) < run.historyLineCount or (found[-1]["_step"] if found else -1) < last:
            expected = f"the {run.historyLineCount} that the server counts, to step {last}"
            raise UserError(f"curve of run {run.id}", f"{len(found)} rows", expected)
        return [{k: _number(value) for k, value in row.items() if not k.startswith("_")} for row in found]

    def _together(self, curves: dict[str, Curve]) -> dict[str, Curve]:
        """The same curves, all read as soon as one is asked for: a report that shows a tested run shows all of them."""

        @cache
        def begun() -> dict[str, "AsyncResult[History]"]:
            pool = ThreadPool(_AT_ONCE)
            results = {key: pool.apply_async(curve) for key, curve in curves.items()}
            pool.close()
            return results

        def awaited(key: str) -> History:
            with self._explained():
                return begun()[key].get(_STUCK)

        return {key: partial(awaited, key) for key in curves}


def _artifacts(run: "public.Run") -> "list[wandb.Artifact]":
    """What a run logged. The client's own list of known artifacts, which threads share, at times drops one twice."""
    for _ in range(5):
        with suppress(KeyError):
            return list(run.logged_artifacts())
    return list(run.logged_artifacts())


def _document(run: "public.Run") -> WandbRun:
    config, written = run.config, run.heartbeat_at or ""
    return WandbRun(run.id, run.group or "", run.job_type or "", config, summary=_summary(run), written=written)


def _summary(run: "public.Run") -> dict[str, Any]:
    return {key: _number(value) for key, value in run.summary_metrics.items() if not key.startswith("_")}


def _number(value: Any) -> Any:
    return _CONSTANTS.get(value, value) if isinstance(value, str) else value
