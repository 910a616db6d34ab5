"""Processes of the real client, which know the server and nothing of this machine's settings; also plain requests."""

import json
import os
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from wandb_server.handle import Server

PRELUDE = """
import json, sys, time
import wandb
QUIET = {
    "console": "off", "silent": True, "host": "study",
    "x_disable_stats": True, "x_disable_meta": True, "x_save_requirements": False,
}
SETTINGS = wandb.Settings(**QUIET)
"""


def environment(server: Server, folder: Path) -> dict[str, str]:
    """All of a client's variables; it keeps all its files in the folder."""
    places = {f"WANDB_{name}_DIR": str(folder / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    python = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return kept | server.environment() | places | {"HOME": str(folder), "PATH": python}


def start(server: Server, folder: Path, *command: str) -> subprocess.Popen[str]:
    """A process with pipes as standard input, output and errors."""
    pipe = subprocess.PIPE
    variables = environment(server, folder)
    return subprocess.Popen(command, cwd=folder, env=variables, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def script(code: str) -> tuple[str, ...]:
    """A command that runs code after `PRELUDE`."""
    return (sys.executable, "-c", PRELUDE + code)


def wandb(*arguments: str) -> tuple[str, ...]:
    """The command `wandb`."""
    return (sys.executable, "-m", "wandb", *arguments)


def run(server: Server, folder: Path, *command: str, text: str = "") -> str:
    """Run a process that reads `text`, and return what it prints; raises AssertionError if it fails or takes 60 s."""
    with start(server, folder, *command) as process:
        try:
            output, errors = process.communicate(text, timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0, output + errors
    return output


def post(server: Server, path: str, message: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request that no client makes, to be quick; raises urllib.error.URLError."""
    credentials = b64encode(f"api:{server.key}".encode()).decode()
    headers = {"Authorization": f"Basic {credentials}", "Content-Type": "application/json"}
    with urlopen(Request(server.url + path, json.dumps(message).encode(), headers), timeout=30) as answer:
        content: dict[str, Any] = json.load(answer)
        return content


def upsert(server: Server, project: str, name: str, **given: Any) -> None:
    """Make a run, or change what is given of it."""
    query = "mutation Make($input: UpsertBucketInput!) { upsertBucket(input: $input) { bucket { id } } }"
    variables = {"input": {"modelName": project, "name": name, **given}}
    post(server, "/graphql", {"query": query, "variables": variables})


def stream(server: Server, project: str, name: str, rows: list[dict[str, Any]], **more: Any) -> None:
    """Send a run's rows."""
    lines = {"wandb-history.jsonl": {"offset": 0, "content": [json.dumps(row) for row in rows]}}
    post(server, f"/files/{server.entity}/{project}/{name}/file_stream", {"files": lines, **more})
