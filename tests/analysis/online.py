"""Logs a synthetic study to a W&B server with the real client, many runs at a time."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd

from tests.analysis.builders import SETUP, Made
from tests.analysis.offline import fill
from trainables.utils.hashing import hash_json
from wandb_server import Server


@contextlib.contextmanager
def client(server: Server, folder: Path, **variables: str) -> Iterator[None]:
    """The client of this process talks to the server, and keeps what it writes in `folder`."""
    import wandb

    saved = dict(os.environ)
    wandb.teardown()  # it reads its variables once
    for name in ("WANDB_DIR", "WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "HOME"):
        os.environ[name] = str(folder)
    quiet = {"WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false"}
    os.environ |= server.environment() | {"WANDB_MODE": "online"} | quiet | variables
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        wandb.teardown()
        os.environ.clear()
        os.environ |= saved


def log_study(
    project: str,
    plan: dict[str, Any],
    runs: list[Made],
    folder: Path,
    search: dict[str, Any] | None = None,
    queries: pd.DataFrame | None = None,
    statistics: dict[str, Any] | None = None,
) -> None:
    """The study as it stands in W&B; what a study does beside its runs, and a sweep's agent, are logged too."""
    common = {"study": plan["study"], "plan_hash": hash_json(plan)}
    kept = {} if statistics is None else {"data_statistics": statistics}
    log(project, folder, f"plan-{hash_json(plan)}", "plan", {**common, "plan": plan, "setup": SETUP, **kept})
    if search is not None:
        log(project, folder, f"search-{hash_json(plan)}", "search", {**common, "search": search})
    if queries is not None:
        log(project, folder, f"queries-{hash_json(plan)}", "queries", common, queries=queries)
    log(project, folder, f"report-{hash_json(plan)}", "report", common, summary={"system/LS/dev": 0.5})
    parent = {"study": plan["study"], "configuration_id": "c", "specification_ids": [run.id for run in runs[:2]]}
    log(project, folder, f"agent-{hash_json(plan)}", "sweep", parent | {"epsilon": 0.1}, summary={"state": "finished"})
    log_runs(project, plan, runs, folder)


def log_runs(project: str, plan: dict[str, Any], runs: list[Made], folder: Path) -> None:
    """Runs of a study, with their curves and scores."""
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda run: log_run(project, plan, run, folder), runs))


def log_run(project: str, plan: dict[str, Any], run: Made, folder: Path, id: str | None = None) -> None:
    """One run, as `write_records` has it."""
    tested = run.state == "finished" and "test" in run.scores
    scores = run.scores if run.state == "finished" else {}
    summary = run.summary() | ({"test/R10@1": 0.5} if tested else {})
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
    """One W&B run; of one that is there, more of it."""
    import wandb

    settings = wandb.Settings(
        console="off", x_disable_stats=True, x_disable_meta=True, silent=True, reinit="create_new", host="study"
    )
    run = wandb.init(
        project=project, dir=str(folder), id=id, group=group, job_type=job, config=dict(config), resume="allow",
        settings=settings,
    )  # fmt: skip
    fill(run, folder, history, summary, scores, queries)
