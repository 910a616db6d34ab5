"""Reads a study from a project on a W&B server: plan, searches, runs, curves, scores and queries."""

import json
import shutil
from contextlib import AbstractContextManager, suppress
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.data.recorded_run import Run
from analysis.readers.wandb_offline import WandbRunData
from analysis.readers.wandb_server import Connection, ProjectAddress
from records.queries import QUERIES_FILE as QUERIES
from records.run_record import History
from trainables.utils.errors import UserError
from trainables.utils.hashing import hash_json

if TYPE_CHECKING:
    import wandb
    from wandb.apis import public

SCORES_FILE = "scores.parquet"
"""Name of the only file in an artifact of scores."""
PER_PAGE = 100
"""Number of runs that one request returns."""
_N_THREADS = 8
"""Number of runs that are read at a time; the client sends at most 10 requests at once."""
_TIMEOUT_S = 900.0
"""Seconds to wait for a run's scores or curve: the client alone would continue for hours."""
_CONSTANTS = {name: float(name) for name in ("NaN", "Infinity", "-Infinity")}
"""Numbers that JSON does not have; W&B returns them as text."""


class WandbProject:
    """Reads the runs of a project while the server is connected and downloads their scores."""

    def __init__(self, connection: Connection, address: ProjectAddress, folder: Path) -> None:
        self._connection, self._address, self._folder = connection, address, folder

    def find_study(self, name: str | None) -> str:
        """Return the name of the study: the given one, or the only one in the project.

        Raises:
            UserError: if there is no such project or study, or several and no name is given.
        """
        names = self.list_studies()
        if not names:
            raise UserError(str(self._address), "no plan of a study in it", "a project with the runs of a study")
        if name is not None and name not in names:
            raise UserError("--study", name, f"one of {self._address}: {', '.join(names)}")
        if name is None and len(names) > 1:
            raise UserError(str(self._address), f"{len(names)} studies: {', '.join(names)}", "--study with one of them")
        return name or names[0]

    def list_studies(self) -> list[str]:
        """Return the names of the studies that have a plan in the project, sorted.

        Raises:
            UserError: if there is no such project.
        """
        return sorted({str(run.config.get("study")) for run in self._list_runs({"jobType": "plan"})})

    def find_suites(self) -> dict[str, tuple[dict[str, Any], str]]:
        """Return the latest plan of each suite that has a study in the project, and its hash, by name.

        A plan is logged as text, because W&B changes the order of keys and the types of numbers.

        Raises:
            UserError: if there is no such project.
        """
        plans = [json.loads(run.config["suite"]) for run in self._list_runs({"jobType": "suite"})]
        return {plan["suite"]: (plan, hash_json(plan)) for plan in sorted(plans, key=lambda plan: int(plan["version"]))}

    def read_study(self, study: str) -> tuple[list[WandbRunData], dict[str, Path], list[Run]]:
        """Read a study from its W&B runs.

        Returns:
            The documents (plan, searches, queries) without learning curves, the files of queries by id of their
                document, and the runs in order of id.

        Raises:
            UserError: if a file is damaged.
            ServerError: if the server stops answering.
        """
        listed = self._list_runs({"config.study": study})
        others = [run for run in listed if "specification_id" not in run.config]
        documents = [_to_run_data(run) for run in others]
        runs = [run for run in listed if "specification_id" in run.config]
        pool = ThreadPool(_N_THREADS)
        try:
            with self._translate_errors():
                pending = pool.imap(self._read_run, runs)
                runs_by_id = {run.id: pending.next(_TIMEOUT_S) for run in runs}
                query_runs = [run for run in others if run.job_type == "queries"]
                files = {
                    run.id: path
                    for run in query_runs
                    for path in pool.apply_async(self._download_queries, [run]).get(_TIMEOUT_S)
                }
        finally:
            pool.terminate()
        return documents, files, [runs_by_id[key] for key in sorted(runs_by_id)]

    def _list_runs(self, filters: dict[str, Any]) -> "list[public.Run]":
        with self._translate_errors():
            try:
                return list(self._connection.api.runs(self._address.path, filters, per_page=PER_PAGE, lazy=False))
            except ValueError as error:  # the client raises it if there is no such project
                expected = "one that is on the server, and that this key may read"
                raise UserError(str(self._address), "no such project", expected) from error

    def _translate_errors(self) -> AbstractContextManager[None]:
        return self._connection.translate_errors(str(self._address))

    def _read_run(self, run: "public.Run") -> Run:
        summary = _clean_summary(run)
        files = self._download_scores(run) if summary.get("state") == "finished" else {}
        return Run(run.id, run.config, summary, partial(self._read_curve_with_timeout, run), files, run.url)

    def _read_curve_with_timeout(self, run: "public.Run") -> History:
        """Read a curve with a timeout: the client alone would wait for hours for a server that never answers."""
        pool = ThreadPool(1)
        try:
            with self._translate_errors():
                return pool.apply_async(self._read_curve, [run]).get(_TIMEOUT_S)
        finally:
            pool.close()

    def _download_scores(self, run: "public.Run") -> dict[str, Path]:
        """Download the last version of each artifact of scores and return the files by split; checks digests."""
        names = self._download_artifacts(run, "scores-", f"-{run.id}")
        return {
            name.removeprefix("scores-").removesuffix(f"-{run.id}"): place / SCORES_FILE
            for name, place in names.items()
        }

    def _download_queries(self, run: "public.Run") -> list[Path]:
        """Download the file of queries of a document and check its digest.

        The list is empty if the study was killed while it wrote the document.
        """
        if _clean_summary(run).get("state") != "finished":
            return []
        return [place / QUERIES for place in self._download_artifacts(run, run.id).values()]

    def _download_artifacts(self, run: "public.Run", start: str, end: str = "") -> dict[str, Path]:
        """Download the last version of each artifact with such a name and return the folders by name."""
        latest: dict[str, wandb.Artifact] = {}
        for artifact in _list_artifacts(run):
            name = artifact.name.partition(":")[0]
            if artifact.state == "COMMITTED" and name.startswith(start) and name.endswith(end):
                latest[name] = max(latest.get(name, artifact), artifact, key=lambda version: int(version.version[1:]))
        for name, artifact in latest.items():
            place = self._folder / name
            artifact.download(str(place))
            try:
                artifact.verify(str(place))
            except ValueError as error:
                shutil.rmtree(place)
                raise UserError(f"artifact {name}", "it does not have the logged digest", "a file as logged") from error
        return {name: self._folder / name for name in latest}

    def _read_curve(self, run: "public.Run") -> History:
        """Read every row of the curve; the rows in W&B's own figures are a sample."""
        rows = list(run.scan_history(use_cache=False))
        last = (run.historyKeys or {}).get("lastStep", -1)
        if len(rows) < run.historyLineCount or (rows[-1]["_step"] if rows else -1) < last:
            expected = f"the {run.historyLineCount} that the server counts, to step {last}"
            raise UserError(f"curve of run {run.id}", f"{len(rows)} rows", expected)
        return [{k: _parse_number(value) for k, value in row.items() if not k.startswith("_")} for row in rows]


def _list_artifacts(run: "public.Run") -> "list[wandb.Artifact]":
    """List the artifacts that a run logged.

    The client keeps a list of known artifacts that threads share, and sometimes removes an entry twice. So a KeyError
    is retried.
    """
    for _ in range(5):
        with suppress(KeyError):
            return list(run.logged_artifacts())
    return list(run.logged_artifacts())


def _to_run_data(run: "public.Run") -> WandbRunData:
    config, written = run.config, run.heartbeat_at or ""
    return WandbRunData(
        run.id, run.group or "", run.job_type or "", config, summary=_clean_summary(run), updated_at=written
    )


def _clean_summary(run: "public.Run") -> dict[str, Any]:
    return {key: _parse_number(value) for key, value in run.summary_metrics.items() if not key.startswith("_")}


def _parse_number(value: Any) -> Any:
    return _CONSTANTS.get(value, value) if isinstance(value, str) else value
