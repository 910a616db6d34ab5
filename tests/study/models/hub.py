"""A stand-in for the Hugging Face hub on this machine: takes repositories and commits, and refuses other keys."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

KEY = "hf_" + "k" * 34


class Hub:
    """A server's repositories with their settings and files."""

    def __init__(self) -> None:
        self.url = ""
        self.repositories: dict[str, dict[str, Any]] = {}
        self.files: dict[str, dict[str, bytes]] = {}

    def answer(self, path: str, body: bytes) -> dict[str, Any]:
        """The answer to a request with the right key."""
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked.get('organization', 'me')}/{asked['name']}"
            self.repositories[name] = asked
            return {"url": f"{self.url}/{name}", "name": name}
        if path == "/api/validate-yaml":
            return {"errors": [], "warnings": []}
        *_, owner, name, action, _ = path.split("/")
        if action == "preupload":
            files = json.loads(body)["files"]
            return {"files": [{"path": file["path"], "uploadMode": "regular", "shouldIgnore": False} for file in files]}
        lines = [json.loads(line) for line in body.splitlines() if line]
        stored = self.files.setdefault(f"{owner}/{name}", {})
        stored |= {
            line["value"]["path"]: base64.b64decode(line["value"]["content"]) for line in lines if line["key"] == "file"
        }
        return {"success": True, "commitOid": "0" * 40, "commitUrl": f"{self.url}/{owner}/{name}/commit/{'0' * 40}"}


@contextmanager
def serve_hub() -> Iterator[Hub]:
    """Serves a hub until the block ends."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self._read_body()
            allowed = self.headers.get("authorization") == f"Bearer {KEY}"
            answer = hub.answer(self.path, body) if allowed else {"error": "Invalid credentials"}
            content = json.dumps(answer).encode()
            self.send_response(200 if allowed else 401)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _read_body(self) -> bytes:
            if self.headers.get("transfer-encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("content-length", 0)))
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
