"""Sweeps: who gets which configuration when.

The server draws the configurations of grids and random searches (drawing.py). Runs are never stopped early here.
"""

import json
import math
from random import choices
from string import ascii_lowercase, digits
from typing import Any

import yaml

from wandb_server.accounts import ensure_project
from wandb_server.database import Document
from wandb_server.drawing import configuration
from wandb_server.executor import RefusedError, Site, by_identity, field, identity
from wandb_server.paging import page
from wandb_server.runs import ordered, state_field

_ENDED = ("FINISHED", "CANCELED", "CANCELLED")


def _new_name() -> str:
    return "".join(choices(ascii_lowercase + digits, k=8))


def _parsed(sweep: Document) -> dict[str, Any]:
    return dict(yaml.safe_load(sweep.body["config"]))


def _named(site: Site, given: str) -> Document:
    """A sweep by its name or its id; raises `RefusedError`."""
    found = next((sweep for sweep in site.database.all("Sweep") if given in (sweep.name, identity(sweep))), None)
    if found is None:
        raise RefusedError(f"sweep {given} not found", status=404)
    return found


@field("Mutation", "upsertSweep")
def upsert_sweep(site: Site, input: dict[str, Any]) -> dict[str, Any]:
    """Make a sweep, or change what is given of it."""
    given = {key: value for key, value in input.items() if value is not None}
    if "id" in given:
        sweep = _named(site, given["id"])
    else:
        project = ensure_project(site, given.get("projectName", "uncategorized"))
        name = _new_name()
        body = {"displayName": name, "state": "PENDING", "createdAt": site.timestamp, "handed": 0}
        sweep = site.database.add(Document("Sweep", project.name, name, body))
    keys = ("config", "description", "displayName", "controller", "state")
    sweep.body |= {key: given[key] for key in keys if key in given} | {"updatedAt": site.timestamp}
    site.database.save(sweep)
    return {"sweep": sweep, "configValidationWarnings": []}


@field("Mutation", "createAgent")
def create_agent(site: Site, input: dict[str, Any]) -> dict[str, Any]:
    sweep = _named(site, input["sweep"])
    body = {"host": input["host"], "sweep": sweep.name, "runs": [], "state": "RUNNING"}
    body |= {"createdAt": site.timestamp, "heartbeatAt": site.timestamp}
    return {"agent": site.database.add(Document("Agent", sweep.project, _new_name(), body))}


@field("Mutation", "agentHeartbeat")
def agent_heartbeat(site: Site, input: dict[str, Any]) -> dict[str, Any]:
    """An agent says which of its runs are alive; one that has none is given the next run, or told to exit."""
    agent = by_identity(site, "Agent", input["id"])
    sweep = _named(site, agent.body["sweep"])
    alive = [name for name, lives in json.loads(input.get("runState") or "{}").items() if lives]
    commands = [] if alive else _next(site, sweep, agent)
    stopped = (site.database.find("Run", sweep.project, name) for name in alive)
    commands += [{"type": "stop", "run_id": run.name} for run in stopped if run and run.body["stopped"]]
    agent.body["heartbeatAt"] = site.timestamp
    site.database.save(agent)
    site.database.save(sweep)
    return {"agent": agent, "commands": json.dumps(commands)}


def _next(site: Site, sweep: Document, agent: Document) -> list[dict[str, Any]]:
    """Commands for an agent without runs."""
    if sweep.body["state"] in _ENDED:
        return [{"type": "exit"}]
    if sweep.body["state"] == "PAUSED":
        return []
    config = _parsed(sweep)
    capped = sweep.body["handed"] >= config.get("run_cap", math.inf)
    run = None if capped else _drawn(sweep, config)
    if run:
        sweep.body |= {"state": "RUNNING", "handed": sweep.body["handed"] + 1}
        agent.body["runs"].append(run["run_id"])
        return [{"type": "run", "program": config.get("program"), **run}]
    if not any(state_field(site, run) == "running" for run in runs_of(site, sweep)):
        sweep.body["state"] = "FINISHED"
    return [{"type": "exit"}]


def _drawn(sweep: Document, config: dict[str, Any]) -> dict[str, Any] | None:
    values = configuration(config, sweep.name, sweep.body["handed"])
    args = {name: {"value": value} for name, value in (values or {}).items()}
    return {"run_id": _new_name(), "args": args} if values is not None else None


@field("Project", "sweep")
def sweep_of_project(site: Site, project: Document, sweep_name: str) -> Document | None:
    return site.database.find("Sweep", project.name, sweep_name)


@field("Project", "sweeps")
def sweeps_of_project(
    site: Site, project: Document, filters: str | None = None, after: str | None = None, first: int | None = None
) -> dict[str, Any]:
    return page(site.database.all("Sweep", project.name), after, first)


@field("Project", "totalSweeps")
def total_sweeps(site: Site, project: Document) -> int:
    return len(site.database.all("Sweep", project.name))


@field("Run", "sweep")
def sweep_of_run(site: Site, run: Document) -> Document | None:
    return site.database.find("Sweep", run.project, run.body.get("sweepName") or "")


def runs_of(site: Site, sweep: Document) -> list[Document]:
    """The runs of a sweep in the order of their creation."""
    return [run for run in site.database.all("Run", sweep.project) if run.body.get("sweepName") == sweep.name]


@field("Sweep", "runs")
def runs_field(
    site: Site, sweep: Document, after: str | None = None, first: int | None = None, order: str | None = None
) -> dict[str, Any]:
    return page(ordered(site, runs_of(site, sweep), order), after, first)


@field("Sweep", "runCount")
def run_count(site: Site, sweep: Document) -> int:
    return len(runs_of(site, sweep))


@field("Sweep", "runCountExpected")
def run_count_expected(site: Site, sweep: Document) -> int | None:
    return _parsed(sweep).get("run_cap")


@field("Sweep", "method")
def method(site: Site, sweep: Document) -> str | None:
    return _parsed(sweep).get("method")


@field("Sweep", "bestLoss")
def best_loss(site: Site, sweep: Document) -> float | None:
    """The best value of the sweep's metric among the summaries of its runs."""
    metric = _parsed(sweep).get("metric") or {}
    values = [run.body["summary"].get(metric.get("name")) for run in runs_of(site, sweep)]
    numbers = [value for value in values if isinstance(value, int | float)]
    best = max if metric.get("goal") == "maximize" else min
    return best(numbers) if numbers else None


@field("Sweep", "earlyStopJobRunning")
def early_stop_job_running(site: Site, sweep: Document) -> bool:
    return False


@field("Sweep", "project")
def project_of(site: Site, sweep: Document) -> Document:
    return ensure_project(site, sweep.project)


def _agents(site: Site, sweep: Document) -> list[Document]:
    return [agent for agent in site.database.all("Agent", sweep.project) if agent.body["sweep"] == sweep.name]


@field("Sweep", "agents")
def agents(site: Site, sweep: Document) -> dict[str, Any]:
    found = _agents(site, sweep)
    return page(found, first=len(found))


@field("Sweep", "agent")
def agent_of_sweep(site: Site, sweep: Document, agent_name: str) -> Document | None:
    return next((a for a in _agents(site, sweep) if agent_name in (a.name, identity(a))), None)


@field("Agent", "totalRuns")
def total_runs(site: Site, agent: Document) -> int:
    return len(agent.body["runs"])


@field("Agent", "runs")
def runs_of_agent(
    site: Site, agent: Document, after: str | None = None, first: int | None = None, **unused: Any
) -> dict[str, Any]:
    return page(
        [run for run in site.database.all("Run", agent.project) if run.name in agent.body["runs"]], after, first
    )
