"""The stream of a run: rows, summary and signs of life, POSTed to /files/ENTITY/PROJECT/RUN/file_stream."""

import json
from typing import Any

from wandb_server.executor import Site
from wandb_server.history import HISTORY
from wandb_server.runs import named

SUMMARY = "wandb-summary.json"


def receive(site: Site, project: str, name: str, message: dict[str, Any]) -> dict[str, Any]:
    """Take in one message, and answer it.

    A row replaces the one of its step, other lines go to the numbers from their `offset` on: a message that comes twice
    changes nothing, nor does a folder that is synced twice (https://github.com/wandb/wandb/pull/12189).
    A run is finished or failed by the message that is `complete`, and runs again with the next that is not.
    """
    run = named(site, project, name)
    for stream, chunk in (message.get("files") or {}).items():
        if stream == SUMMARY:
            run.body["summary"] = json.loads(chunk["content"][-1])
        elif stream == HISTORY:
            site.database.put_lines(run.number, stream, {json.loads(row)["_step"]: row for row in chunk["content"]})
        else:
            site.database.put_lines(run.number, stream, dict(enumerate(chunk["content"], chunk["offset"])))
    run.body["heartbeat"] = site.now
    if message.get("complete"):
        run.body["exitcode"] = message["exitcode"]
        ended = "killed" if run.body["stopped"] else "failed"
        run.body["state"] = ended if message["exitcode"] else "finished"
    else:
        run.body["exitcode"] = None
        run.body["state"] = "running"
    site.database.save(run)
    return {"exitcode": None, "limits": {}, "stopped": run.body["stopped"]}
