"""The HTTP of the server: who may ask, what fails on purpose, and that all is written down before it is answered.

One thread answers one request after the other; only waiting is done in other threads. So no two requests meet half-way.
"""

import asyncio
import base64
import json
import re
import sys
import time
import traceback
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from wandb_server import accounts, artifacts, faults, files, filestream, history, runs, sweeps, versions, views
from wandb_server.database import Database, Request
from wandb_server.executor import RefusedError, Site, execute

ANSWERING = (accounts, artifacts, files, history, runs, sweeps, versions, views)
"""Modules with the functions that answer the fields of the schema, from the moment they are imported."""

OPEN = ("/healthz", "/sdk/otel/", "/store/")
"""Paths that need no key: telemetry is sent before anybody logged in."""


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


def _json(content: Any, status: int = 200) -> Answer:
    return Answer(status, json.dumps(content).encode())


def _errors(reason: str, status: int) -> Answer:
    return _json({"errors": [{"message": reason}], "error": reason}, status)


def application(database: Database, url: str) -> web.Application:
    """The server of a database at an address."""

    async def answer(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        operation = _operation(request.path, body)
        with database.transaction():
            fault = faults.take(database, request.path, operation)
        if fault and fault.seconds:
            await asyncio.sleep(fault.seconds)
        with database.transaction():
            answer = _answer(Site(database, url, time.time()), request, body, fault)
            headers = {name: value for name, value in request.headers.items() if name.lower() != "authorization"}
            entry = (time.time(), request.method, request.raw_path, operation, answer.status)
            database.record(Request(*entry, headers, body))
        if answer.status == 0 and request.transport:
            request.transport.abort()
        known = {"body": answer.body, "content_type": answer.content_type, "headers": answer.headers}
        return web.Response(status=answer.status or 500, **known)

    made = web.Application(client_max_size=1 << 32)
    made.router.add_route("*", "/{path:.*}", answer)
    return made


def _operation(path: str, body: bytes) -> str:
    """The name of a GraphQL operation, empty for all else."""
    named = re.search(r"\b(?:query|mutation)\s+(\w+)", json.loads(body)["query"]) if path == "/graphql" else None
    return named[1] if named else ""


def _answer(site: Site, request: web.Request, body: bytes, fault: faults.Fault | None) -> Answer:
    failure = _failure(fault)
    try:
        with site.database.attempt():
            if not request.path.startswith(OPEN):
                _check_key(site.database, request.headers.get("Authorization", ""))
            if failure and fault and not fault.done:
                return failure
            answer = _route(site, request, body)
    except RefusedError as error:
        answer = _errors(str(error), error.status)
    except Exception:
        print(request.method, request.path, traceback.format_exc(), file=sys.stderr, flush=True)
        answer = _errors("the server of the tests has a bug", 500)
    return failure or answer


def _failure(fault: faults.Fault | None) -> Answer | None:
    if fault is None or fault.status is None:
        return None
    headers = {} if fault.retry_after is None else {"Retry-After": f"{fault.retry_after:g}"}
    return Answer(fault.status, json.dumps({"error": "on purpose"}).encode(), headers=headers)


def _check_key(database: Database, authorization: str) -> None:
    scheme, _, credentials = authorization.partition(" ")
    given = base64.b64decode(credentials).decode(errors="replace") if scheme == "Basic" else ""
    if given != f"api:{database.setting('key')}":
        raise RefusedError("user is not logged in", status=401)


def _route(site: Site, request: web.Request, body: bytes) -> Answer:
    if request.path == "/healthz":
        return _json({})
    if request.path == "/graphql":
        message = json.loads(body)
        return _json({"data": execute(site, message["query"], message.get("variables") or {})})
    if stream := re.fullmatch(r"/files/[^/]+/([^/]+)/([^/]+)/file_stream", request.path):
        return _json(filestream.receive(site, stream[1], stream[2], json.loads(body or b"{}")))
    if stored := re.fullmatch(r"/store/([^/]+)/(.+)", request.path):
        return _store(site.database, request.method, stored[1], stored[2], body)
    if request.path.startswith("/sdk/otel/"):
        return Answer(200, content_type="application/x-protobuf")
    raise RefusedError(f"nothing is at {request.path}", status=404)


def _store(database: Database, method: str, owner: str, name: str, body: bytes) -> Answer:
    if method == "PUT":
        database.put_file(owner, name, body)
        return Answer(200)
    content = database.file(owner, name)
    if content is None:
        raise RefusedError(f"no file {name}", status=404)
    return Answer(200, content, "application/octet-stream")
