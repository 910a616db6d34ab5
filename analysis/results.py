"""What a study found, as one tidy table: read from its W&B folder, or from its records; both give the same.

Nothing is dropped in silence: a run that failed, diverged or never finished is counted as missing from its
configuration, and runs that do not rank the same queries are refused.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from pydantic import BaseModel, ValidationError

from analysis.json_files import History, read_object, rows
from analysis.plan import Plan
from analysis.scores import COLUMNS, Evaluator, read_scores, splits
from analysis.searched import Search
from analysis.wandb_files import WandbRun, locate, read_folder, staged_files
from trainables.errors import UserError
from trainables.metrics import measure
from trainables.specification import digest

__all__ = ["Plan", "Results", "Run", "per_query", "read", "read_records", "same_queries"]

_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True, eq=False)
class Run:
    """One run: configuration, last values, curve; `url` is where a W&B server shows it, if one does."""

    id: str
    config: dict[str, Any]
    summary: dict[str, Any]
    curve: Callable[[], History] = field(default=list, repr=False)
    files: dict[str, Path] = field(default_factory=dict, repr=False)
    url: str | None = None
    evaluator: Evaluator = field(default_factory=Evaluator, repr=False)
    _values: dict[tuple[str, str], "pd.Series[float]"] = field(default_factory=dict, repr=False)

    @cached_property
    def history(self) -> History:
        """One row for each number of instances, in their order; read when it is asked for."""
        return self.curve()

    @property
    def finished(self) -> bool:
        return self.summary.get("state") == "finished"

    @property
    def seed(self) -> int | None:
        seed: int | None = self.config.get("seed")
        return seed

    def __eq__(self, other: object) -> bool:
        """Whether the same was told of both, wherever their files lie."""
        if not isinstance(other, Run):
            return NotImplemented
        return (self.id, self.config, self.summary, self.history) == (
            other.id, other.config, other.summary, other.history,
        )  # fmt: skip

    def scores(self, split: str) -> pd.DataFrame:
        """Candidates of a split, columns split, query_id, document_id, relevant, score; empty if there are none."""
        return read_scores(self.files[split], split) if split in self.files else pd.DataFrame(columns=COLUMNS)

    def per_query(self, split: str, metric: str) -> "pd.Series[float]":
        """The metric of each query, indexed by query_id in sorted order; NaN where a score is NaN."""
        key = (split, metric)
        if key not in self._values:
            where = f"{split} scores of run {self.id}"
            self._values[key] = self.evaluator.per_query(self.files[split], split, metric, where)
        return self._values[key]


@dataclass(frozen=True)
class Results:
    """A study: its plan, that plan's hash, every run that finished or failed, by id, and the ids of those killed.

    `search` is what its searches asked for and were told; None where the study did not write that down.
    """

    plan: Plan
    plan_hash: str
    runs: list[Run]
    search: Search | None = None
    unfinished: list[str] = field(default_factory=list, compare=False)


def read(folder: Path | str) -> Results:
    """A study from its W&B files: `folder` is the wandb folder, wherever it was moved, or a study folder that holds it.

    Raises:
        UserError: if there is no such folder, no run or no plan in it, or a file in it is damaged.
    """
    place = Path(folder)
    if (place / "wandb").is_dir():
        place = place / "wandb"
    if not place.is_dir():
        raise UserError(str(folder), "no such folder", "a study's folder or its wandb folder")
    wandb_runs = read_folder(place)
    if not wandb_runs:
        raise UserError(str(folder), "no W&B run in it", "a study's folder or its wandb folder")
    plans = [run.config["plan"] for run in wandb_runs if run.job_type == "plan" and "plan" in run.config]
    if not plans:
        raise UserError(str(folder), "no plan among its runs", "the wandb folder of a study")
    index = staged_files(place)
    plan = max(plans, key=lambda plan: int(plan.get("version", 1)))
    searches = [run for run in wandb_runs if run.job_type == "search" and "search" in run.config]
    latest = max(searches, key=lambda run: (run.written, run.config.get("plan_hash") == digest(plan)), default=None)
    mirrors = {run.id for run in searches}
    runs = [_from_wandb(run, index) for run in wandb_runs if run.job_type != "plan" and run.id not in mirrors]
    return _results(plan, runs, latest.config["search"] if latest else None, str(folder))


def read_records(folder: Path | str) -> Results:
    """The same study from its records: plan.json, search.json and runs/<id>/.

    Raises:
        UserError: if plan.json or a record is absent or unreadable.
    """
    place = Path(folder)
    stored = read_object(place / "plan.json")
    if not isinstance(stored.get("plan"), dict):
        raise UserError(str(place / "plan.json"), "no plan in it", "the plan of a study")
    if stored.get("hash", digest(stored["plan"])) != digest(stored["plan"]):
        raise UserError(str(place / "plan.json"), "its hash is not the plan's", "a plan as the study wrote it")
    runs = [_from_record(path.parent) for path in sorted((place / "runs").glob("*/record.json"))]
    search = read_object(place / "search.json") if (place / "search.json").is_file() else None
    return _results(stored["plan"], runs, search, str(folder))


def per_query(results: Results, split: str, metric: str) -> pd.DataFrame:
    """One row a finished run and query, the metric computed from the scores.

    Returns:
        Columns system, configuration, epsilon, switch, seed, query_id, value, in order of system, configuration, seed
        and query; value is NaN where a score is NaN.

    Raises:
        UserError: if runs do not rank the same queries.
    """
    frames = []
    for run in results.runs:
        if run.finished and split in run.files:
            values = run.per_query(split, metric)
            columns = {"system": run.config["variant"], "configuration": run.config["configuration_id"]}
            columns |= {key: run.config.get(key) for key in ("epsilon", "switch", "seed")}
            frames.append(pd.DataFrame({"query_id": values.index, "value": values.to_numpy()}).assign(**columns))
    order = ["system", "configuration", "epsilon", "switch", "seed", "query_id", "value"]
    if not frames:
        return pd.DataFrame(columns=order)
    same_queries(results.plan, [run for run in results.runs if run.finished and split in run.files], split)
    table = pd.concat([frame.astype({"epsilon": float, "switch": float, "seed": "Int64"}) for frame in frames])
    return table[order].sort_values(["system", "configuration", "seed", "query_id"], ignore_index=True)


def same_queries(plan: Plan, runs: Iterable[Run], split: str) -> None:
    """Raises UserError unless all runs rank the same queries of a split, as many as the plan expects."""
    reference: pd.Index[str] | None = None
    for run in runs:
        queries = run.per_query(split, plan.metric).index
        expected = plan.expected_queries.get(split, len(queries))
        where = f"{split} scores of run {run.id} ({run.config.get('variant')})"
        if len(queries) != expected:
            raise UserError(where, f"{len(queries)} queries", f"the {expected} of the plan")
        if reference is not None and not queries.equals(reference):
            lacking = len(reference.difference(queries))
            raise UserError(where, f"not the queries of the other runs ({lacking} are missing)", "the same queries")
        reference = queries


def _results(plan: dict[str, Any], runs: list[Run], search: dict[str, Any] | None, where: str) -> Results:
    parsed = _parsed(Plan, plan, f"plan in {where}")
    try:
        known = measure(parsed.metric)
    except ValueError as error:
        raise UserError(f"plan in {where}", error, "a known metric") from error
    if not known.per_query:
        raise UserError(f"plan in {where}", parsed.metric, "a metric that each query has")
    ended, evaluator, unique = ("finished", "failed"), Evaluator(), dict[str, Run]()
    for run in sorted(runs, key=lambda run: (not run.finished, run.id)):
        if run.summary.get("state") not in ended:
            continue
        if absent := [key for key in ("variant", "configuration_id") if key not in run.config]:
            raise UserError(f"run {run.id} in {where}", f"no {absent[0]} in its config", "a run of a study")
        key = run.config.get("specification_id", run.id)
        if key in unique and run.finished:
            raise UserError(f"run {run.id} in {where}", f"the specification of {unique[key].id}", "one run of it")
        unique.setdefault(key, run)
    kept = [
        replace(run, summary=_summary(run.summary), curve=_merged(run.curve, parsed.test_split), evaluator=evaluator)
        for run in unique.values()
    ]
    killed = sorted(run.id for run in runs if run.summary.get("state") not in ended)
    searched = None if search is None else _parsed(Search, search, f"search in {where}")
    return Results(parsed, digest(plan), sorted(kept, key=lambda run: run.id), searched, killed)


def _parsed(model: type[_Model], stored: dict[str, Any], where: str) -> _Model:
    try:
        return model.model_validate(stored)
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(where, ".".join(map(str, first["loc"])) + " is bad", first["msg"]) from error


def _summary(summary: dict[str, Any]) -> dict[str, Any]:
    """Without the last values of the curve, which W&B adds, and the error of an attempt that was made good."""
    stale = {"instances"} | ({"error"} if summary.get("state") == "finished" else set())
    return {key: value for key, value in summary.items() if key not in stale and not key.startswith("train/")}


def _merged(curve: Callable[[], History], test_split: str) -> Callable[[], History]:
    """The same curve in order of instances; of a part that was trained twice the later counts."""

    def rows() -> History:
        merged: dict[float, dict[str, Any]] = {}
        for row in curve():
            if "instances" in row:
                kept = {key: value for key, value in row.items() if not key.startswith(f"{test_split}/")}
                merged.setdefault(row["instances"], {}).update(kept)
        return [merged[key] for key in sorted(merged) if len(merged[key]) > 1]

    return rows


def _from_wandb(run: WandbRun, index: dict[str, list[Path]]) -> Run:
    files: dict[str, Path] = {}
    for name, contents in run.artifacts.items():
        if name.startswith("scores-") and name.endswith(f"-{run.id}"):
            for staged in contents:
                split = name.removeprefix("scores-").removesuffix(f"-{run.id}")
                files[split] = locate(staged, index, f"artifact {name}")
    return Run(run.id, run.config, run.summary, lambda: run.history, files)


def _from_record(folder: Path) -> Run:
    record = read_object(folder / "record.json")
    if not isinstance(record.get("id"), str) or not isinstance(record.get("config"), dict):
        raise UserError(str(folder / "record.json"), "no id or config in it", "the record of a run")
    summary: dict[str, Any] = dict(record.get("summary", {}))
    files: dict[str, Path] = {}
    if "state" in record:
        summary.setdefault("state", record["state"])
    if (folder / "scores.parquet").is_file():
        files |= _splits(folder / "scores.parquet")
    if (folder / "test.json").is_file():
        summary |= read_object(folder / "test.json").get("summary", {})
        path = folder / "test_scores.parquet"
        if summary.get("state") == "finished":
            if not path.is_file():
                raise UserError(str(path), "no such file", "the scores that test.json speaks of")
            files |= _splits(path)
    own: History = record.get("history", [])
    place = folder / "history.json"
    return Run(record["id"], record["config"], summary, lambda: own or rows(place), files, _url(folder))


def _url(folder: Path) -> str | None:
    """As the study wrote it down when it logged the run."""
    path = folder / "mirrored-dev.json"
    url = read_object(path).get("url") if path.is_file() else None
    return url if isinstance(url, str) and url.startswith(("https://", "http://")) else None


def _splits(path: Path) -> dict[str, Path]:
    return dict.fromkeys(splits(path), path)
