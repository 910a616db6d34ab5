"""All that the server knows, in one SQLite file: the server writes it, tests read it while the server runs or is dead.

A request is one transaction, committed before its answer leaves: an acknowledged change survives a SIGKILL, and
nothing is ever half there. (Power failures are not what is tested, so nothing waits for the disk.)
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TABLES = """
create table if not exists documents (
    number integer primary key autoincrement, kind text, project text, name text, body text,
    unique (kind, project, name)
);
create table if not exists lines (
    run integer, stream text, number integer, content text, primary key (run, stream, number)
) without rowid;
create table if not exists files (owner text, name text, content blob, primary key (owner, name));
create table if not exists requests (
    number integer primary key, at real, method text, path text, operation text, status integer, headers text, body blob
);
create table if not exists settings (name text primary key, value text);
"""


@dataclass
class Document:
    """A project, run, sweep, agent, artifact or view; `number` is its place in the order of creation."""

    kind: str
    project: str
    name: str
    body: dict[str, Any] = field(default_factory=dict)
    number: int = 0


@dataclass(frozen=True)
class Request:
    """A client's request, and how it was answered."""

    at: float
    """Seconds since 1970."""
    method: str
    path: str
    """With the query, without the host."""
    operation: str
    """Name of the GraphQL operation; empty for all else."""
    status: int
    headers: dict[str, str]
    """Without Authorization."""
    body: bytes
    """Decompressed."""


class Database:
    """One connection; a process may have several, and several processes one file."""

    def __init__(self, path: Path):
        self._connection = sqlite3.connect(path, timeout=60, isolation_level=None)
        self._connection.execute("pragma journal_mode = wal")
        self._connection.execute("pragma synchronous = off")
        self._connection.executescript(TABLES)

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing of what happens inside; also a view of one moment for who only reads."""
        self._connection.execute("begin immediate")
        try:
            yield
        except BaseException:
            self._connection.execute("rollback")
            raise
        self._connection.execute("commit")

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Inside a transaction: nothing remains of what raises."""
        self._connection.execute("savepoint attempt")
        try:
            yield
        except BaseException:
            self._connection.execute("rollback to attempt")
            raise
        finally:
            self._connection.execute("release attempt")

    def add(self, document: Document) -> Document:
        """Keep a new document, which gets its number; raises sqlite3.IntegrityError if there is one of that name."""
        entry = (document.kind, document.project, document.name, json.dumps(document.body))
        sql = "insert into documents (kind, project, name, body) values (?, ?, ?, ?)"
        document.number = self._connection.execute(sql, entry).lastrowid or 0
        return document

    def save(self, document: Document) -> None:
        """Keep the changed body of a document that is there."""
        entry = (json.dumps(document.body), document.number)
        self._connection.execute("update documents set body = ? where number = ?", entry)

    def find(self, kind: str, project: str, name: str) -> Document | None:
        found = self._documents("kind = ? and project = ? and name = ?", kind, project, name)
        return found[0] if found else None

    def get(self, kind: str, number: int) -> Document | None:
        found = self._documents("kind = ? and number = ?", kind, number)
        return found[0] if found else None

    def all(self, kind: str, project: str | None = None) -> list[Document]:
        """Documents of a kind, in the order of their creation."""
        if project is None:
            return self._documents("kind = ?", kind)
        return self._documents("kind = ? and project = ?", kind, project)

    def remove(self, document: Document) -> None:
        """Forget a document, and its lines if it is a run."""
        self._connection.execute("delete from documents where number = ?", (document.number,))
        self._connection.execute("delete from lines where run = ?", (document.number,))

    def _documents(self, condition: str, *values: Any) -> list[Document]:
        sql = f"select kind, project, name, body, number from documents where {condition} order by number"
        rows = self._connection.execute(sql, values)
        return [Document(kind, project, name, json.loads(body), number) for kind, project, name, body, number in rows]

    def put_lines(self, run: int, stream: str, lines: dict[int, str]) -> None:
        """Write lines by their numbers, and replace earlier ones."""
        rows = [(run, stream, number, content) for number, content in lines.items()]
        self._connection.executemany("insert or replace into lines values (?, ?, ?, ?)", rows)

    def lines(self, run: int, stream: str) -> list[str]:
        """By their numbers."""
        sql = "select content from lines where run = ? and stream = ? order by number"
        return [content for (content,) in self._connection.execute(sql, (run, stream))]

    def put_file(self, owner: str, name: str, content: bytes) -> None:
        self._connection.execute("insert or replace into files values (?, ?, ?)", (owner, name, content))

    def file(self, owner: str, name: str) -> bytes | None:
        sql = "select content from files where owner = ? and name = ?"
        row = self._connection.execute(sql, (owner, name)).fetchone()
        return None if row is None else bytes(row[0])

    def file_names(self, owner: str) -> list[str]:
        sql = "select name from files where owner = ? order by name"
        return [name for (name,) in self._connection.execute(sql, (owner,))]

    def record(self, request: Request) -> None:
        entry = (request.at, request.method, request.path, request.operation, request.status)
        sql = "insert into requests (at, method, path, operation, status, headers, body) values (?, ?, ?, ?, ?, ?, ?)"
        self._connection.execute(sql, (*entry, json.dumps(request.headers), request.body))

    def requests(self) -> Iterator[Request]:
        """Every request there ever was, in the order of their answers."""
        sql = "select at, method, path, operation, status, headers, body from requests order by number"
        for at, method, path, operation, status, headers, body in self._connection.execute(sql):
            yield Request(at, method, path, operation, status, json.loads(headers), body)

    def setting(self, name: str, default: Any = None) -> Any:
        row = self._connection.execute("select value from settings where name = ?", (name,)).fetchone()
        return default if row is None else json.loads(row[0])

    def set(self, name: str, value: Any) -> None:
        self._connection.execute("insert or replace into settings values (?, ?)", (name, json.dumps(value)))
