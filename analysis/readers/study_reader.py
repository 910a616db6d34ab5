"""Reads the results of a study from its W&B folder, a W&B server or its records; all give the same.

Missing data is never ignored. A run that failed, diverged or never finished counts as missing from its configuration.
Runs that do not rank the same queries are an error.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from analysis.data.recorded_run import Run
from analysis.data.study_results import Results
from analysis.readers.records import read_recorded_runs
from analysis.readers.wandb_offline import WandbRunData, index_staged_files, locate_staged_file, read_offline_runs
from analysis.readers.wandb_project import WandbProject
from analysis.readers.wandb_server import PREFIX, ProjectAddress, connect
from records.data_statistics import STATISTICS_FILE, STATISTICS_KEY, DataStatistics
from records.json_files import parse_model, read_object
from records.plan import Plan
from records.plan_file import PLAN_FILE, SETUP_KEY, Setup, read_plan
from records.queries import QUERIES_FILE, SHA256_KEY, read_queries
from records.run_record import History
from records.scores import Evaluator
from records.search_log import SEARCH_LOG_FILE, SearchLog
from trainables.metrics import METRICS, get_measure
from trainables.utils.errors import UserError
from trainables.utils.hashing import hash_json
from trainables.utils.plugins import load_plugins

_SPLITS = ("train", "dev", "test")


def read_wandb_files(folder: Path | str) -> Results:
    """Read a study from its offline W&B files.

    Args:
        folder: the wandb folder, which may have been moved, or a study folder that contains it.

    Raises:
        UserError: if there is no such folder, no run or no plan in it, or a file in it is damaged.
    """
    wandb_folder = Path(folder)
    if (wandb_folder / "wandb").is_dir():
        wandb_folder = wandb_folder / "wandb"
    if not wandb_folder.is_dir():
        raise UserError(str(folder), "no such folder", "a study's folder or its wandb folder")
    wandb_runs = read_offline_runs(wandb_folder)
    if not wandb_runs:
        raise UserError(str(folder), "no W&B run in it", "a study's folder or its wandb folder")
    index = index_staged_files(wandb_folder)
    documents = _find_plan_documents(wandb_runs, _locate_query_files(wandb_runs, index), str(folder))
    runs = [_to_run(run, index) for run in wandb_runs if "specification_id" in run.config]
    return _build_results(documents, runs, str(folder))


@contextmanager
def open_results(source: str, study: str | None = None, cache: Path | None = None) -> Iterator[Results]:
    """Open a study; its files are available within the context.

    Args:
        source: a study's folder, its wandb folder, or wandb:ENTITY/PROJECT.
        study: name of the study, if the project on the server contains several.
        cache: folder for scores from a server. If None, they are removed at the end.

    Raises:
        UserError: if there is no such study, or a file is damaged.
        analysis.readers.wandb_server.ServerError: if the server does not answer.
    """
    if source.startswith(PREFIX):
        with read_server(source, study, cache) as results:
            yield results
    elif study or cache:
        raise UserError("--study" if study else "--cache", f"used with the folder {source}", f"{PREFIX}ENTITY/PROJECT")
    else:
        yield read_folder(Path(source))


def read_folder(folder: Path) -> Results:
    """Read a study from its records, or, if the folder has none, from its offline W&B files.

    The records are complete, while the W&B files may lack the latest runs.

    Raises:
        UserError: if the folder contains no study, or a file is damaged.
    """
    has_records = (folder / PLAN_FILE).is_file() and (folder / "runs").is_dir()
    return read_records(folder) if has_records else read_wandb_files(folder)


@contextmanager
def read_server(address: str, study: str | None = None, cache: Path | None = None) -> Iterator[Results]:
    """Read a study from a W&B server.

    Learning curves are read on access, so use the results inside the context.

    Args:
        address: wandb:ENTITY/PROJECT, or wandb:PROJECT of the user's default entity.
        study: name of the study; required if the project contains several.
        cache: folder that keeps the scores, so they are downloaded only once. If None, they are removed at the end.

    Raises:
        UserError: if there is no such project or study, no access, or a file is damaged.
        analysis.readers.wandb_server.ServerError: if the server does not answer.
    """
    project_address = ProjectAddress.parse(address)
    with connect() as connection:
        project = WandbProject(connection, project_address, cache or connection.folder / "scores")
        documents, files, runs = project.read_study(project.find_study(study))
        results = _build_results(_find_plan_documents(documents, files, address), runs, address)
        yield replace(results, server_address=address)


def read_records(folder: Path | str) -> Results:
    """Read a study from its run records: plan.json, data.json, search.json, queries.parquet and runs/<id>/.

    Raises:
        UserError: if plan.json or a record is missing, or a file is damaged.

    Example:
        >>> import json, pathlib, tempfile
        >>> plan = {"study": "demo", "task": "toy", "alpha": 0.05, "seeds": [1], "metric": "R10@1", "systems": ["BERT"]}
        >>> plan["families"] = [{"name": "variants", "comparisons": [["LS", "BERT"]]}]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "plan.json").write_text(json.dumps({"plan": plan}))
        ...     read_records(folder).plan.metric
        'R10@1'
    """
    study_folder = Path(folder)
    plan = read_plan(study_folder / PLAN_FILE)
    runs = read_recorded_runs(study_folder)
    search, statistics = (
        read_object(study_folder / name) if (study_folder / name).is_file() else None
        for name in (SEARCH_LOG_FILE, STATISTICS_FILE)
    )
    queries = read_queries(study_folder / QUERIES_FILE) if (study_folder / QUERIES_FILE).is_file() else None
    documents = _PlanDocuments(plan.document, plan.hash, search, queries, statistics, plan.setup)
    return _build_results(documents, runs, str(folder))


class _PlanDocuments(NamedTuple):
    """A plan and its hash, with the log of the searches, the queries, the statistics of the data and the setup.

    The hash is not that of the plan as returned by W&B: there 1.0 becomes 1, and {} is absent.
    """

    plan: dict[str, Any]
    plan_hash: str
    search: dict[str, Any] | None
    queries: pd.DataFrame | None
    statistics: dict[str, Any] | None
    setup: dict[str, Any] | None


def _find_plan_documents(wandb_runs: list[WandbRunData], files: Mapping[str, Path], where: str) -> _PlanDocuments:
    """Return the plan with the highest version, and the latest search log and queries."""
    plans = [run.config for run in wandb_runs if run.job_type == "plan" and "plan" in run.config]
    if not plans:
        raise UserError(where, "no plan among its runs", "the wandb folder of a study")
    latest_plan = max(plans, key=lambda config: int(config["plan"].get("version", 1)))
    plan_hash = latest_plan.get("plan_hash", hash_json(latest_plan["plan"]))

    def find_latest(documents: list[WandbRunData]) -> WandbRunData | None:
        return max(documents, key=lambda run: (run.updated_at, run.config.get("plan_hash") == plan_hash), default=None)

    search = find_latest([run for run in wandb_runs if run.job_type == "search" and "search" in run.config])
    if missing := [run.id for run in wandb_runs if SHA256_KEY in run.summary and run.id not in files]:
        raise UserError(f"W&B run {missing[0]}", f"no {QUERIES_FILE}", "the artifact that its summary names")
    query_run = find_latest([run for run in wandb_runs if run.id in files])
    queries = read_queries(files[query_run.id], query_run.summary.get(SHA256_KEY)) if query_run else None
    searches, statistics = search.config["search"] if search else None, latest_plan.get(STATISTICS_KEY)
    setup = latest_plan.get(SETUP_KEY)
    return _PlanDocuments(latest_plan["plan"], plan_hash, searches, queries, statistics, setup)


def _build_results(documents: _PlanDocuments, runs: list[Run], where: str) -> Results:
    plan = _drop_empty_objects(documents.plan)
    parsed = parse_model(Plan, plan | {"data": _sort_keys(plan.get("data"), _SPLITS)}, f"plan in {where}")
    if any(name not in METRICS for name in parsed.metrics):
        load_plugins(plan.get("settings", {}).get("plugins", ()), f"plan in {where}: plugins")
    for name in (*parsed.metrics, *(each.metric for each in parsed.collections)):
        try:
            known = get_measure(name)
        except ValueError as error:
            raise UserError(f"plan in {where}", error, "a known metric") from error
        if not known.per_query or known.unit != parsed.unit:
            raise UserError(f"plan in {where}", name, f"a metric that each {parsed.unit} has")
    evaluator, unique = Evaluator(), _deduplicate_runs(runs, f"{parsed.search_split}/{parsed.metric}", where)
    cleaned = [
        replace(
            run,
            config=_drop_empty_objects(run.config),
            summary=_clean_summary(run.summary, parsed),
            curve=_merge_curve(run.curve, parsed.test_split),
            evaluator=evaluator,
        )
        for run in unique.values()
    ]
    for run in cleaned:
        run.check_files()
        if file := run.files.get(parsed.test_split):  # it has the scores of further collections, too
            run.files.update(dict.fromkeys(parsed.list_collections(), file))
    unfinished = sorted((run for run in runs if run.specification_id not in unique), key=lambda run: run.id)
    ordered = _sort_keys(documents.search, [*parsed.all_systems, *parsed.hyperparameters])
    searched = None if ordered is None else parse_model(SearchLog, ordered, f"search in {where}")
    runs, stored = sorted(cleaned, key=lambda run: run.id), documents.statistics
    statistics = None if stored is None else parse_model(DataStatistics, stored, f"statistics of the data in {where}")
    setup = None if documents.setup is None else parse_model(Setup, documents.setup, f"setup in {where}")
    return Results(parsed, documents.plan_hash, runs, searched, unfinished, documents.queries, statistics, setup=setup)


def _sort_keys(value: Any, names: Sequence[str]) -> Any:
    """Return the same value with the keys of every object in the order of these names.

    Other keys follow in alphabetical order. W&B returns objects with their keys in any order; the report must not
    depend on it.
    """
    if isinstance(value, list):
        return [_sort_keys(item, names) for item in value]
    if not isinstance(value, dict):
        return value
    positions = {name: position for position, name in enumerate(names)}
    ordered = sorted(value, key=lambda key: (positions.get(key, len(positions)), key))
    return {key: _sort_keys(value[key], names) for key in ordered}


def _drop_empty_objects(value: Any) -> Any:
    """Return the same value without empty objects in its objects, which W&B's client leaves out."""
    if not isinstance(value, dict):
        return value
    kept = {key: _drop_empty_objects(item) for key, item in value.items()}
    return {key: item for key, item in kept.items() if item != {}}


def _deduplicate_runs(runs: list[Run], value_key: str, where: str) -> dict[str, Run]:
    """Return the runs that ended, one for each specification: a finished one with the most scores."""
    unique = dict[str, Run]()
    for run in sorted(
        runs, key=lambda run: (not run.is_finished, -len(run.files), run.id != run.specification_id, run.id)
    ):
        if run.summary.get("state") not in ("finished", "failed"):
            continue
        if absent := [key for key in ("variant", "configuration_id") if key not in run.config]:
            raise UserError(f"run {run.id} in {where}", f"no {absent[0]} in its config", "a run of a study")
        first = unique.setdefault(run.specification_id, run)
        own_value, first_value = run.summary.get(value_key), first.summary.get(value_key)
        if run.is_finished and None not in (own_value, first_value) and own_value != first_value:
            found = f"{value_key} {own_value}, but {first_value} in run {first.id}"
            raise UserError(f"run {run.id} in {where}", found, "equal values, because both have the same specification")
    return unique


def _clean_summary(summary: dict[str, Any], plan: Plan) -> dict[str, Any]:
    """Return the summary without keys that W&B adds or leaves out, so that all sources give the same.

    Left out are the last values of the curve, values that are no numbers, and the error of an attempt that succeeded
    later.
    """
    stale = {"instances", "error" if summary.get("state") == "finished" else f"{plan.search_split}/{plan.metric}"}
    kept = {key: value for key, value in summary.items() if key not in stale and not key.startswith("train/")}
    return {key: value for key, value in kept.items() if value is not None and value == value}


def _merge_curve(curve: Callable[[], History], test_split: str) -> Callable[[], History]:
    """Return the same curve in order of instances; of a part that was trained twice, the later one counts."""

    def read_rows() -> History:
        merged: dict[float, dict[str, Any]] = {}
        for row in curve():
            if "instances" in row:
                kept = {key: value for key, value in row.items() if not key.startswith(f"{test_split}/")}
                merged.setdefault(row["instances"], {}).update(kept)
        return [merged[key] for key in sorted(merged) if len(merged[key]) > 1]

    return read_rows


def _locate_query_files(wandb_runs: list[WandbRunData], index: dict[str, list[Path]]) -> dict[str, Path]:
    """Return the files of queries by id of their document; documents that are incomplete are left out."""
    files = {}
    for run in wandb_runs:
        if run.job_type == "queries" and run.summary.get("state") == "finished":
            for staged in run.artifacts.get(run.id, []):
                files[run.id] = locate_staged_file(staged, index, f"artifact {run.id}")
    return files


def _to_run(run: WandbRunData, index: dict[str, list[Path]]) -> Run:
    files: dict[str, Path] = {}
    for name, contents in run.artifacts.items():
        if name.startswith("scores-") and name.endswith(f"-{run.id}"):
            for staged in contents:
                split = name.removeprefix("scores-").removesuffix(f"-{run.id}")
                files[split] = locate_staged_file(staged, index, f"artifact {name}")
    return Run(run.id, run.config, run.summary, lambda: run.history, files)
