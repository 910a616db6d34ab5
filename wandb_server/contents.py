"""Runs, sweeps and views of a server as they are on disk, whether it runs or is dead."""

import json
import time
from dataclasses import dataclass
from typing import Any

import yaml

from wandb_server.artifacts import committed, contents
from wandb_server.database import Database, Document
from wandb_server.history import rows
from wandb_server.runs import CRASH_AFTER, plain, state


@dataclass(frozen=True)
class ServerRun:
    """A run; names that begin with an underscore, which the client adds for itself, are left out."""

    id: str
    name: str
    """As people see it."""
    state: str
    """running, finished, failed, crashed or killed."""
    exit_code: int | None
    group: str | None
    job_type: str | None
    tags: list[str]
    sweep: str | None
    config: dict[str, Any]
    summary: dict[str, Any]
    history: list[dict[str, Any]]
    """Rows by their steps."""
    steps: list[int]
    """Step of each row of the history."""
    artifacts: dict[str, dict[str, bytes]]
    """Latest version of each collection that this run committed, as contents by file names."""
    versions: dict[str, int]
    """Number of versions of each of these collections, of all runs."""


@dataclass(frozen=True)
class ServerSweep:
    id: str
    project: str
    state: str
    """PENDING, RUNNING, PAUSED, FINISHED or CANCELED."""
    config: dict[str, Any]
    runs: list[str]
    """Ids, in the order of creation."""
    agents: list[str]
    """Names of hosts, as the agents told them."""


@dataclass(frozen=True)
class ServerView:
    id: str
    name: str
    project: str
    type: str
    spec: dict[str, Any]


def _public(entries: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entries.items() if not name.startswith("_")}


def read_runs(database: Database, project: str) -> dict[str, ServerRun]:
    """The runs of a project by their ids, in the order of creation."""
    collections = committed(database, project)
    return {run.name: _run(database, run, collections) for run in database.all("Run", project)}


def _run(database: Database, run: Document, collections: dict[str, list[Document]]) -> ServerRun:
    history = rows(database, run)
    logged = {name: [v for v in there if v.body["run"] == run.name] for name, there in collections.items()}
    return ServerRun(
        id=run.name,
        name=run.body["displayName"],
        state=state(run, time.time(), database.setting("crash_after", CRASH_AFTER)),
        exit_code=run.body.get("exitcode"),
        group=run.body.get("group"),
        job_type=run.body.get("jobType"),
        tags=run.body["tags"],
        sweep=run.body.get("sweepName"),
        config=plain(run.body["config"]),
        summary=_public(run.body["summary"]),
        history=[_public(row) for row in history],
        steps=[row["_step"] for row in history],
        artifacts={name: contents(database, mine[-1]) for name, mine in logged.items() if mine},
        versions={name: len(collections[name]) for name, mine in logged.items() if mine},
    )


def read_sweeps(database: Database) -> dict[str, ServerSweep]:
    """All sweeps by their ids, in the order of creation."""
    return {sweep.name: _sweep(database, sweep) for sweep in database.all("Sweep")}


def _sweep(database: Database, sweep: Document) -> ServerSweep:
    runs = [run.name for run in database.all("Run", sweep.project) if run.body.get("sweepName") == sweep.name]
    agents = [a.body["host"] for a in database.all("Agent", sweep.project) if a.body["sweep"] == sweep.name]
    config = yaml.safe_load(sweep.body["config"])
    return ServerSweep(sweep.name, sweep.project, sweep.body["state"], config, runs, agents)


def read_views(database: Database, project: str) -> list[ServerView]:
    """The views of a project, in the order of creation."""
    return [_view(view) for view in database.all("View", project)]


def _view(view: Document) -> ServerView:
    spec = json.loads(view.body.get("spec") or "{}")
    return ServerView(view.name, view.body.get("displayName", ""), view.project, view.body.get("type", ""), spec)
