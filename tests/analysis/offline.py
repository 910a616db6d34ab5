"""Writes a synthetic study's runs through the real W&B client in offline mode."""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from study.tracking.offline_files import wait_until_written
from tests.analysis.builders import SETUP, Made
from trainables.utils.hashing import hash_json


@contextlib.contextmanager
def environment(folder: Path) -> Iterator[None]:
    """W&B's variables as a study sets them: all that it stages lies inside the wandb folder."""
    saved = dict(os.environ)
    staging = folder / "wandb" / ".data"
    staging.mkdir(parents=True, exist_ok=True)
    os.environ.update(
        WANDB_MODE="offline", WANDB_DATA_DIR=str(staging), WANDB_CACHE_DIR=str(staging / "cache"), HOME=""
    )
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)


def write_wandb(
    folder: Path,
    plan: dict[str, Any],
    runs: list[Made],
    resume: bool = True,
    search: dict[str, Any] | None = None,
    queries: pd.DataFrame | None = None,
    statistics: dict[str, Any] | None = None,
) -> None:
    """The runs through the W&B client; with `resume`, the test evaluation is a second part of the run."""
    with environment(folder):
        config = {"study": plan["study"], "plan_hash": hash_json(plan), "plan": plan, "setup": SETUP}
        config |= {} if statistics is None else {"data_statistics": statistics}
        session(folder, f"plan-{hash_json(plan)}", "plan", config)
        if search is not None:
            write_search(folder, plan, search)
        if queries is not None:
            write_queries(folder, plan, queries)
        for run in runs:
            about: dict[str, Any] = {
                "id": run.id,
                "job": "search",
                "config": run.config(plan),
                "group": run.configuration,
            }
            files = run.scores if run.state == "finished" else {}
            dev = {split: frame for split, frame in files.items() if split == "dev" or not resume}
            session(folder, **about, history=run.history(), summary=run.summary(), scores=dev)
            if resume and "test" in files:
                session(
                    folder,
                    **about,
                    summary={"state": "finished", f"test/{run.metric}": 0.5},
                    scores={"test": files["test"]},
                )


def write_search(folder: Path, plan: dict[str, Any], search: dict[str, Any]) -> None:
    """The mirror of search.json in W&B; the caller has set the environment."""
    config = {"study": plan["study"], "plan_hash": hash_json(plan), "search": search}
    session(folder, f"search-{hash_json(plan)}", "search", config)


def write_queries(folder: Path, plan: dict[str, Any], queries: pd.DataFrame, **summary: Any) -> None:
    """The mirror of queries.parquet in W&B, `summary` over what a study notes; the caller has set the environment."""
    config = {"study": plan["study"], "plan_hash": hash_json(plan)}
    session(folder, f"queries-{hash_json(plan)}", "queries", config, summary=summary, queries=queries)


def session(
    folder: Path,
    id: str,
    job: str,
    config: dict[str, Any],
    group: str | None = None,
    history: list[dict[str, Any]] | None = None,
    summary: dict[str, Any] | None = None,
    scores: dict[str, pd.DataFrame] | None = None,
    queries: pd.DataFrame | None = None,
) -> None:
    """One session of a W&B run; the caller has set the environment."""
    import wandb

    settings = wandb.Settings(console="off", x_disable_stats=True, silent=True)
    run = wandb.init(
        project="synthetic", mode="offline", dir=str(folder.resolve()), id=id, group=group, job_type=job, config=config,
        resume="allow", settings=settings,
    )  # fmt: skip
    file = Path(run.settings.sync_file)
    fill(run, folder, history, summary, scores, queries)
    wait_until_written(file)


def fill(
    run: Any,
    folder: Path,
    history: list[dict[str, Any]] | None,
    summary: dict[str, Any] | None,
    scores: dict[str, pd.DataFrame] | None,
    queries: pd.DataFrame | None = None,
) -> None:
    """What an open W&B run gets, to its end; `folder` is for the files of its artifacts."""
    import wandb

    run.define_metric("instances")
    run.define_metric("*", step_metric="instances")
    for row in history or []:
        run.log(row)
    for split, frame in (scores or {}).items():
        path = folder / f"{split}-{run.id}.parquet"
        frame.to_parquet(path, index=False)
        artifact = wandb.Artifact(f"scores-{split}-{run.id}", type="scores")
        artifact.add_file(str(path), name="scores.parquet")
        run.log_artifact(artifact)
        path.unlink()
    if queries is not None:
        path = folder / f"{run.id}.parquet"
        queries.to_parquet(path, index=False)
        artifact = wandb.Artifact(run.id, type="queries")
        artifact.add_file(str(path), name="queries.parquet")
        run.log_artifact(artifact)
        noted = {"state": "finished", "queries_sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        run.summary.update(noted)
        path.unlink()
    run.summary.update(summary or {})
    run.finish()
