"""Runs: what clients say of them, and who finds which."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from wandb_server import filters as language
from wandb_server.accounts import ensure_project, viewer
from wandb_server.database import Document
from wandb_server.executor import RefusedError, Site, by_identity, field
from wandb_server.history import spelled
from wandb_server.paging import page

CRASH_AFTER = 300.0
"""Seconds without a sign of life after which a running run counts as crashed, unless the server is told another."""

_TEXTS = ("displayName", "description", "notes", "jobType", "commit", "state", "host")


def new(site: Site, project: Document, name: str) -> Document:
    """A run without known values."""
    texts = {"displayName": name, "state": "running", "createdAt": site.timestamp, "heartbeat": site.now}
    values: dict[str, Any] = {"tags": [], "config": {}, "summary": {}, "stopped": False}
    return site.database.add(Document("Run", project.name, name, texts | values))


def state(run: Document, now: float, crash_after: float) -> str:
    """The state of a run, which has crashed if its client gave no sign for long."""
    silent = now - run.body["heartbeat"] > crash_after
    return "crashed" if run.body["state"] == "running" and silent else run.body["state"]


def plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration as its author gave it: without descriptions and what the client adds for itself."""
    return {name: entry["value"] for name, entry in config.items() if name != "_wandb"}


@field("Mutation", "upsertBucket")
def upsert_bucket(site: Site, input: dict[str, Any]) -> dict[str, Any]:
    """Make a run, or change what is given of it; configuration and summary are replaced as a whole.

    A client that trains names its run, one that edits a run gives its id: only the former is a sign of life.
    """
    project = ensure_project(site, input.get("modelName") or "uncategorized")
    name = input.get("name")
    run = site.database.find("Run", project.name, name) if name else by_identity(site, "Run", input["id"])
    inserted = run is None
    run = run or new(site, project, str(name))
    given = {key: value for key, value in input.items() if value is not None}
    run.body |= {key: given[key] for key in _TEXTS if key in given}
    for key, ours in (("groupName", "group"), ("tags", "tags"), ("sweep", "sweepName")):
        if key in given:
            run.body[ours] = given[key]
    for key, ours in (("config", "config"), ("summaryMetrics", "summary")):
        if key in given:
            run.body[ours] = json.loads(given[key])
    if name:
        run.body["heartbeat"] = site.now
    site.database.save(run)
    return {"bucket": run, "inserted": inserted}


@field("Mutation", "updateRunState")
def update_run_state(site: Site, input: dict[str, Any]) -> dict[str, Any]:
    run = by_identity(site, "Run", input["id"])
    run.body["state"] = input["state"]
    site.database.save(run)
    return {"success": True}


@field("Mutation", "stopRun")
def stop_run(site: Site, input: dict[str, Any]) -> dict[str, Any]:
    """Ask the run's client to stop: the next answer to its stream says so."""
    run = by_identity(site, "Run", input["id"])
    run.body["stopped"] = True
    site.database.save(run)
    return {"success": True}


@field("Mutation", "deleteRun")
def delete_run(site: Site, input: dict[str, Any]) -> dict[str, Any]:
    site.database.remove(by_identity(site, "Run", input["id"]))
    return {"clientMutationId": None}


@field("Project", "run")
@field("Project", "bucket")
def run(site: Site, project: Document, name: str, missing_ok: bool = False) -> Document | None:
    return site.database.find("Run", project.name, name)


@field("Project", "runCount")
def run_count(site: Site, project: Document, filters: str | None = None) -> int:
    return len(chosen(site, site.database.all("Run", project.name), filters))


@field("Project", "runs")
def runs(
    site: Site,
    project: Document,
    filters: str | None = None,
    order: str | None = None,
    after: str | None = None,
    first: int | None = None,
) -> dict[str, Any]:
    found = chosen(site, site.database.all("Run", project.name), filters)
    return page(ordered(site, found, order), after, first)


def chosen(site: Site, runs: list[Document], filters: str | None) -> list[Document]:
    """Runs that fit a filter, which is JSON."""
    query = json.loads(filters or "{}")
    return [run for run in runs if language.matches(partial(_attribute, site, run), query)]


def ordered(site: Site, runs: list[Document], order: str | None) -> list[Document]:
    """Runs by an attribute, ascending unless it stands behind a minus; the newest first if none is given."""
    path = order or "-created_at"
    by = sorted(runs, key=lambda run: (language.rank(_attribute(site, run, path.lstrip("+-"))), run.number))
    return by[::-1] if path.startswith("-") else by


_NAMES = {
    "created_at": "createdAt",
    "display_name": "displayName",
    "heartbeat_at": "heartbeat",
    "heartbeatAt": "heartbeat",
    "job_type": "jobType",
    "sweep": "sweepName",
}


def _attribute(site: Site, run: Document, path: str) -> Any:
    """Read the attribute that a filter means by `config.a.value`, `summary_metrics.b`, `state` and the like."""
    head, _, rest = path.partition(".")
    if head == "config":
        return _inside(plain(run.body["config"]), rest.removesuffix(".value"))
    if head in ("summary_metrics", "summaryMetrics"):
        return _inside(run.body["summary"], rest)
    if path == "state":
        return state_field(site, run)
    if path == "name":
        return run.name
    if path == "username":
        return viewer(site)["username"]
    return run.body.get(_NAMES.get(path, path))


def _inside(value: Any, path: str) -> Any:
    """A value by its path, in mappings with names that may hold dots themselves."""
    if not isinstance(value, Mapping):
        return None
    if path in value:
        return value[path]
    deeper = (_inside(value[name], path[len(name) + 1 :]) for name in value if path.startswith(f"{name}."))
    return next((found for found in deeper if found is not None), None)


@field("Run", "state")
def state_field(site: Site, run: Document) -> str:
    return state(run, site.now, site.database.setting("crash_after", CRASH_AFTER))


@field("Run", "running")
def running(site: Site, run: Document) -> bool:
    return state_field(site, run) == "running"


@field("Run", "failed")
def failed(site: Site, run: Document) -> bool:
    return state_field(site, run) == "failed"


@field("Run", "shouldStop")
def should_stop(site: Site, run: Document) -> bool:
    return bool(run.body["stopped"])


@field("Run", "readOnly")
def read_only(site: Site, run: Document) -> bool:
    return False


@field("Run", "heartbeatAt")
def heartbeat_at(site: Site, run: Document) -> str:
    return Site(site.database, site.url, run.body["heartbeat"]).timestamp


@field("Run", "config")
def config(site: Site, run: Document) -> str:
    return json.dumps(run.body["config"])


@field("Run", "wandbConfig")
def wandb_config(site: Site, run: Document, keys: list[str] | None = None) -> str:
    own = run.body["config"].get("_wandb", {}).get("value", {})
    return json.dumps({key: own[key] for key in keys or own if key in own})


@field("Run", "summaryMetrics")
def summary_metrics(site: Site, run: Document) -> str:
    return json.dumps(spelled(run.body["summary"]))


@field("Run", "systemMetrics")
def system_metrics(site: Site, run: Document) -> str:
    return "{}"


@field("Run", "user")
def user(site: Site, run: Document) -> dict[str, Any]:
    return viewer(site)


@field("Run", "project")
def project_of(site: Site, run: Document) -> Document:
    return ensure_project(site, run.project)


@field("Run", "projectId")
def project_id(site: Site, run: Document) -> str:
    return str(project_of(site, run).number)


def named(site: Site, project: str, name: str) -> Document:
    """A run by its names; raises `RefusedError`."""
    found = site.database.find("Run", project, name)
    if found is None:
        raise RefusedError(f"run {project}/{name} not found", status=404)
    return found
