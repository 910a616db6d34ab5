"""A run's rows: all of them, a window, or as many as asked for.

Rows are lines of JSON, each with its `_step`.
"""

import json
import math
from typing import Any

from wandb_server.database import Database, Document
from wandb_server.executor import Site, field

HISTORY = "wandb-history.jsonl"
EVENTS = "wandb-events.jsonl"
LOG = "output.log"


def rows(database: Database, run: Document) -> list[dict[str, Any]]:
    """The run's rows, by their steps."""
    return [json.loads(line) for line in database.lines(run.number, HISTORY)]


def spelled(value: Any) -> Any:
    """A value as the API of the real server answers it: what JSON has no number for is a word.

    https://github.com/wandb/sweeps/pull/32.
    """
    if isinstance(value, dict):
        return {name: spelled(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [spelled(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def thinned(rows: list[Any], samples: int | None) -> list[Any]:
    """At most that many rows, evenly spread, the first among them; the real server too thins what is more."""
    if not samples or len(rows) <= samples:
        return rows
    return [rows[index * len(rows) // samples] for index in range(samples)]


def window(rows: list[dict[str, Any]], low: int | None, high: int | None) -> list[dict[str, Any]]:
    """Rows of steps from `low` to before `high`."""
    return [row for row in rows if (low is None or row["_step"] >= low) and (high is None or row["_step"] < high)]


@field("Run", "historyLineCount")
def history_line_count(site: Site, run: Document) -> int:
    return len(site.database.lines(run.number, HISTORY))


@field("Run", "eventsLineCount")
def events_line_count(site: Site, run: Document) -> int:
    return len(site.database.lines(run.number, EVENTS))


@field("Run", "logLineCount")
def log_line_count(site: Site, run: Document) -> int:
    return len(site.database.lines(run.number, LOG))


@field("Run", "historyTail")
def history_tail(site: Site, run: Document) -> str:
    return json.dumps(site.database.lines(run.number, HISTORY)[-1:])


@field("Run", "eventsTail")
def events_tail(site: Site, run: Document) -> str:
    return json.dumps(site.database.lines(run.number, EVENTS)[-1:])


@field("Run", "historyKeys")
def history_keys(site: Site, run: Document) -> dict[str, Any]:
    """Count the keys of the rows; `lastStep` is -1 where there are none."""
    found = rows(site.database, run)
    counts: dict[str, dict[str, int]] = {}
    for row in found:
        for name, value in row.items():
            kind = {bool: "boolean", int: "number", float: "number", str: "string", dict: "map"}.get(type(value), "nil")
            counts.setdefault(name, {}).setdefault(kind, 0)
            counts[name][kind] += 1
    keys = {
        name: {"typeCounts": [{"type": kind, "count": count} for kind, count in kinds.items()], "monotonic": False}
        for name, kinds in counts.items()
    }
    return {"sets": [], "keys": keys, "lastStep": found[-1]["_step"] if found else -1}


@field("Run", "history")
def history(
    site: Site, run: Document, min_step: int | None = None, max_step: int | None = None, samples: int | None = None
) -> list[str]:
    chosen = window(rows(site.database, run), min_step, max_step)
    return [json.dumps(spelled(row)) for row in thinned(chosen, samples)]


@field("Run", "events")
def events(site: Site, run: Document, samples: int | None = None) -> list[str]:
    return thinned(site.database.lines(run.number, EVENTS), samples)


@field("Run", "sampledHistory")
def sampled_history(site: Site, run: Document, specs: list[str]) -> list[list[dict[str, Any]]]:
    """For each specification the rows that hold all of its keys."""
    found = rows(site.database, run)
    return [spelled(_sampled(found, json.loads(spec))) for spec in specs]


def _sampled(rows: list[dict[str, Any]], spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Here `maxStep` is inside, as clients expect; in `Run.history` it is not."""
    keys = spec.get("keys") or []
    last = spec.get("maxStep")
    inside = window(rows, spec.get("minStep"), None if last is None else last + 1)
    whole = [row for row in inside if all(key in row for key in keys)]
    return [{key: row[key] for key in keys or row} for row in thinned(whole, spec.get("samples", 500))]


@field("Run", "parquetHistory")
def parquet_history(site: Site, run: Document, live_keys: list[str] | None = None) -> dict[str, Any]:
    """Nothing is exported to Parquet files here: every row is still live."""
    live = [{key: row[key] for key in live_keys or row if key in row} for row in rows(site.database, run)]
    return {"parquetUrls": [], "liveData": spelled(live)}
