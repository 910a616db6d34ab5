"""Logs a synthetic study with the real W&B client, to files or to a server: what `tests.analysis.builders` records."""

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd

from study.tracking.offline_files import wait_until_written
from tests.analysis.builders import SETUP, Made
from trainables.utils.checksums import hash_file
from trainables.utils.hashing import hash_json
from wandb_server import Server


@contextmanager
def environment(folder: Path) -> Iterator[None]:
    """Sets W&B's variables as a study does that is offline: all that it stages lies inside the wandb folder."""
    staging = folder / "wandb" / ".data"
    staging.mkdir(parents=True, exist_ok=True)
    folders = {"WANDB_DATA_DIR": str(staging), "WANDB_CACHE_DIR": str(staging / "cache"), "HOME": ""}
    with patch.dict(os.environ, {"WANDB_MODE": "offline"} | folders):
        yield


@contextmanager
def client(server: Server, folder: Path, **variables: str) -> Iterator[None]:
    """Lets the client of this process talk to a server, and keep what it writes in `folder`."""
    import wandb

    wandb.teardown()  # it reads its variables once
    folder.mkdir(parents=True, exist_ok=True)
    names = ("WANDB_DIR", "WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "HOME")
    quiet = {"WANDB_MODE": "online", "WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false"}
    with patch.dict(os.environ, dict.fromkeys(names, str(folder)) | server.environment() | quiet | variables):
        try:
            yield
        finally:
            wandb.teardown()


def write_wandb(folder: Path, plan: dict[str, Any], runs: list[Made], **documents: Any) -> None:
    """Writes a study to offline files."""
    with environment(folder):
        log_study("offline", plan, runs, folder, **documents)


def log_study(
    project: str,
    plan: dict[str, Any],
    runs: list[Made],
    folder: Path,
    search: dict[str, Any] | None = None,
    queries: pd.DataFrame | None = None,
    statistics: dict[str, Any] | None = None,
) -> None:
    """Logs a study as it stands in W&B, many runs at a time, with what it does next to them and a sweep's agent."""
    common, key = {"study": plan["study"], "plan_hash": hash_json(plan)}, hash_json(plan)
    kept = {} if statistics is None else {"data_statistics": statistics}
    log(project, folder, f"plan-{key}", "plan", {**common, "plan": plan, "setup": SETUP, **kept})
    if search is not None:
        log(project, folder, f"search-{key}", "search", {**common, "search": search})
    if queries is not None:
        log(project, folder, f"queries-{key}", "queries", common, queries=queries)
    log(project, folder, f"report-{key}", "report", common, summary={"system/LS/dev": 0.5})
    parent = {"study": plan["study"], "configuration_id": "c", "specification_ids": [run.id for run in runs[:2]]}
    log(project, folder, f"agent-{key}", "sweep", parent | {"epsilon": 0.1}, summary={"state": "finished"})
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda run: log_run(project, plan, run, folder), runs))


def log_run(project: str, plan: dict[str, Any], run: Made, folder: Path, id: str | None = None) -> None:
    """Logs one run, as `write_records` has it."""
    scores = run.scores if run.state == "finished" else {}
    summary = run.summary() | ({f"test/{run.metric}": 0.5} if "test" in scores else {})
    log(project, folder, id or run.id, run.role, run.config(plan), run.configuration, run.history(), summary, scores)


def log(
    project: str,
    folder: Path,
    id: str,
    job: str,
    config: Mapping[str, Any],
    group: str | None = None,
    history: list[dict[str, Any]] | None = None,
    summary: dict[str, Any] | None = None,
    scores: dict[str, pd.DataFrame] | None = None,
    queries: pd.DataFrame | None = None,
) -> None:
    """Logs a session of a W&B run in the mode of the environment; of a run that is there, more of it."""
    import wandb

    mode = os.environ["WANDB_MODE"]  # the client has read its variables once, maybe for another test
    settings = wandb.Settings(
        mode=mode,
        console="off",
        x_disable_stats=True,
        x_disable_meta=True,
        silent=True,
        reinit="create_new",
        host="study",
    )
    run = wandb.init(
        project=project, dir=str(folder.resolve()), id=id, group=group, job_type=job, config=dict(config),
        resume="allow", settings=settings,
    )  # fmt: skip
    file, noted = Path(run.settings.sync_file), dict[str, Any]()
    run.define_metric("instances")
    run.define_metric("*", step_metric="instances")
    for row in history or []:
        run.log(row)
    tables = {f"scores-{split}-{id}": frame for split, frame in (scores or {}).items()}
    for name, frame in (tables if queries is None else {id: queries}).items():
        kind, path = ("scores" if queries is None else "queries"), folder / f"{name}.parquet"
        frame.to_parquet(path, index=False)
        artifact = wandb.Artifact(name, type=kind)
        artifact.add_file(str(path), name=f"{kind}.parquet")
        run.log_artifact(artifact)
        noted = {"state": "finished", "queries_sha256": hash_file(path)} if kind == "queries" else {}
        path.unlink()
    run.summary.update(noted | (summary or {}))
    run.finish()
    if mode == "offline":
        wait_until_written(file)
