"""What a study found, as one tidy table: read from its W&B folder, or from its records; both give the same.

Nothing is dropped in silence: a run that failed, diverged or never finished is counted as missing from its
configuration, and runs that do not rank the same queries are refused.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from analysis.wandb_files import WandbRun, locate, read_folder, staged_files
from trainables.errors import UserError
from trainables.metrics import metric as parse_metric
from trainables.metrics import recall_at
from trainables.specification import digest

COLUMNS = ["split", "query_id", "document_id", "relevant", "score"]
"""Columns of scores: one row a candidate."""


class Family(BaseModel):
    """Comparisons that are corrected together: pairs (system, baseline)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    correction: str = "bonferroni"
    comparisons: tuple[tuple[str, str], ...]


class Plan(BaseModel):
    """What was declared before the first test score existed. Keys beyond these are allowed."""

    model_config = ConfigDict(frozen=True, extra="allow")

    study: str
    version: int = 1
    task: str
    alpha: float = Field(gt=0, lt=1)
    seeds: tuple[int, ...]
    metric: str
    search_split: str = "dev"
    test_split: str = "test"
    systems: tuple[str, ...] = Field(min_length=1)
    expected_queries: dict[str, int] = {}
    families: tuple[Family, ...] = Field(min_length=1)
    data: dict[str, Any] | None = None
    """Counts of the prepared data, and the distribution of its weak labels."""

    @property
    def all_systems(self) -> list[str]:
        """The systems in the plan's order, then those that only comparisons name, such as BM25."""
        named = [name for family in self.families for pair in family.comparisons for name in reversed(pair)]
        return list(dict.fromkeys([*self.systems, *named]))


@dataclass(frozen=True)
class Run:
    """One run: its configuration, its last values, its curve; `scores(split)` are its ranked candidates."""

    id: str
    config: dict[str, Any]
    summary: dict[str, Any]
    history: list[dict[str, Any]]
    files: dict[str, Path] = field(default_factory=dict, compare=False, repr=False)
    _values: dict[tuple[str, str], "pd.Series[float]"] = field(default_factory=dict, compare=False, repr=False)

    @property
    def finished(self) -> bool:
        return self.summary.get("state") == "finished"

    @property
    def seed(self) -> int | None:
        seed: int | None = self.config.get("seed")
        return seed

    def scores(self, split: str) -> pd.DataFrame:
        """Candidates of a split, columns split, query_id, document_id, relevant, score; empty if there are none."""
        if split not in self.files:
            return pd.DataFrame(columns=COLUMNS)
        frame = _parquet(self.files[split], COLUMNS)
        return frame.loc[frame["split"] == split, COLUMNS].reset_index(drop=True)

    def per_query(self, split: str, metric: str) -> "pd.Series[float]":
        """The metric of each query, indexed by query_id in sorted order; NaN where a score is NaN."""
        key = (split, metric)
        if key not in self._values:
            self._values[key] = _evaluate(self.scores(split), metric, f"{split} scores of run {self.id}")
        return self._values[key]


@dataclass(frozen=True)
class Results:
    """A study: its plan, that plan's hash, every run that finished or failed, by id, and the ids of those killed."""

    plan: Plan
    plan_hash: str
    runs: list[Run]
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
    runs = [_from_wandb(run, index) for run in wandb_runs if run.job_type != "plan"]
    return _results(plan, runs, str(folder))


def read_records(folder: Path | str) -> Results:
    """The same study from its records: plan.json and runs/<id>/.

    Raises:
        UserError: if plan.json or a record is absent or unreadable.
    """
    place = Path(folder)
    stored = _json(place / "plan.json")
    if not isinstance(stored.get("plan"), dict):
        raise UserError(str(place / "plan.json"), "no plan in it", "the plan of a study")
    if stored.get("hash", digest(stored["plan"])) != digest(stored["plan"]):
        raise UserError(str(place / "plan.json"), "its hash is not the plan's", "a plan as the study wrote it")
    runs = [_from_record(path.parent) for path in sorted((place / "runs").glob("*/record.json"))]
    return _results(stored["plan"], runs, str(folder))


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


def _evaluate(frame: pd.DataFrame, metric: str, where: str) -> "pd.Series[float]":
    size, cutoff = parse_metric(metric)
    if frame.duplicated(["query_id", "document_id"]).any():
        raise UserError(where, "the same candidate twice", "each candidate of a query once")
    ordered = frame.sort_values(["query_id", "document_id"])
    queries, counts = np.unique(ordered["query_id"].to_numpy(dtype=object), return_counts=True)
    if (counts != size).any():
        raise UserError(where, f"a query with {counts[counts != size][0]} candidates", f"{size}, as {metric} needs")
    scores = ordered["score"].to_numpy(dtype=float).reshape(-1, size)
    relevant = ordered["relevant"].to_numpy(dtype=float).reshape(-1, size)
    values, known = np.full(len(queries), np.nan), ~np.isnan(scores).any(axis=1)
    try:
        values[known] = recall_at(cutoff, scores[known], relevant[known])
    except ValueError as error:
        raise UserError(where, error, "candidates that can be ranked") from error
    return pd.Series(values, index=pd.Index(queries, name="query_id"), dtype=float)


def _results(plan: dict[str, Any], runs: list[Run], where: str) -> Results:
    try:
        parsed = Plan.model_validate(plan)
        parse_metric(parsed.metric)
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"plan in {where}", ".".join(map(str, first["loc"])) + " is bad", first["msg"]) from error
    except ValueError as error:
        raise UserError(f"plan in {where}", error, "a known metric") from error
    ended = [run for run in runs if run.summary.get("state") in ("finished", "failed")]
    unique: dict[str, Run] = {}
    for run in sorted(ended, key=lambda run: (not run.finished, run.id)):
        if absent := [key for key in ("variant", "configuration_id") if key not in run.config]:
            raise UserError(f"run {run.id} in {where}", f"no {absent[0]} in its config", "a run of a study")
        key = run.config.get("specification_id", run.id)
        if key in unique and run.finished:
            raise UserError(f"run {run.id} in {where}", f"the specification of {unique[key].id}", "one run of it")
        unique.setdefault(key, run)
    kept = [
        Run(run.id, run.config, _summary(run.summary), _history(run.history, parsed.test_split), run.files)
        for run in unique.values()
    ]
    killed = sorted(run.id for run in runs if run not in ended)
    return Results(parsed, digest(plan), sorted(kept, key=lambda run: run.id), killed)


def _summary(summary: dict[str, Any]) -> dict[str, Any]:
    """Without the last values of the curve, which W&B adds, and the error of an attempt that was made good."""
    stale = {"instances"} | ({"error"} if summary.get("state") == "finished" else set())
    return {key: value for key, value in summary.items() if key not in stale and not key.startswith("train/")}


def _history(rows: list[dict[str, Any]], test_split: str) -> list[dict[str, Any]]:
    """One row for each number of instances, in their order; of a part that was trained twice the later counts."""
    merged: dict[float, dict[str, Any]] = {}
    for row in rows:
        if "instances" in row:
            kept = {key: value for key, value in row.items() if not key.startswith(f"{test_split}/")}
            merged.setdefault(row["instances"], {}).update(kept)
    return [merged[key] for key in sorted(merged) if len(merged[key]) > 1]


def _from_wandb(run: WandbRun, index: dict[str, list[Path]]) -> Run:
    files: dict[str, Path] = {}
    for name, contents in run.artifacts.items():
        if name.startswith("scores-") and name.endswith(f"-{run.id}"):
            for staged in contents:
                split = name.removeprefix("scores-").removesuffix(f"-{run.id}")
                files[split] = locate(staged, index, f"artifact {name}")
    return Run(run.id, run.config, run.summary, run.history, files)


def _from_record(folder: Path) -> Run:
    record = _json(folder / "record.json")
    if not isinstance(record.get("id"), str) or not isinstance(record.get("config"), dict):
        raise UserError(str(folder / "record.json"), "no id or config in it", "the record of a run")
    summary: dict[str, Any] = dict(record.get("summary", {}))
    files: dict[str, Path] = {}
    if "state" in record:
        summary.setdefault("state", record["state"])
    if (folder / "scores.parquet").is_file():
        files |= _splits(folder / "scores.parquet")
    if (folder / "test.json").is_file():
        summary |= _json(folder / "test.json").get("summary", {})
        path = folder / "test_scores.parquet"
        if summary.get("state") == "finished":
            if not path.is_file():
                raise UserError(str(path), "no such file", "the scores that test.json speaks of")
            files |= _splits(path)
    return Run(record["id"], record["config"], summary, record.get("history", []), files)


def _splits(path: Path) -> dict[str, Path]:
    return dict.fromkeys(_parquet(path, ["split"])["split"].astype(str).unique(), path)


def _parquet(path: Path, columns: list[str]) -> pd.DataFrame:
    try:
        return pd.read_parquet(path, columns=columns)
    except (OSError, ValueError) as error:  # Arrow's errors are ValueErrors
        raise UserError(str(path), error, f"a parquet file with columns {', '.join(columns)}") from error


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(str(path), "no such file", "a file that the study wrote") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(str(path), "not JSON", "a file that the study wrote") from error
    if not isinstance(value, dict):
        raise UserError(str(path), "not a JSON object", "a file that the study wrote")
    return value
