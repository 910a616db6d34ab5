"""File system in memory that counts the requests of its users, as an object store would get them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, ClassVar

import fsspec
from fsspec.implementations.memory import MemoryFileSystem

PROTOCOL = "counted"
_PAGE = 1000
"""Names that an object store lists in one request."""
_KINDS = {
    "find": "list",
    "ls": "list",
    "exists": "exists",
    "info": "exists",
    "isfile": "exists",
    "isdir": "exists",
    "modified": "exists",
    "makedirs": "exists",  # s3fs asks whether the bucket exists
    "cat_file": "get",
    "get_file": "get",
    "put_file": "put",
    "pipe_file": "put",
    "rm_file": "delete",
}
_nesting = threading.local()
_lock = threading.Lock()


class CountingFileSystem(MemoryFileSystem):
    """Memory file system of the protocol `counted` that counts requests.

    A call from within another one is not counted, since an object store's file system serves it in the same request.
    Listing takes a request for every 1,000 names, and removing a folder takes its listing and one deletion. As those of
    object stores, its listings contain the time of each file.

    Attributes:
        requests: number of requests by kind (list, exists, get, put, delete), of all instances.
    """

    protocol = PROTOCOL
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    requests: ClassVar[Counter[str]] = Counter()

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.removeprefix(f"{PROTOCOL}://")))

    def find(self, path: str, *arguments: Any, detail: bool = False, **named: Any) -> Any:
        """Return the files below a folder."""
        with _count("find") as count:
            found = super().find(path, *arguments, detail=True, **named)
            count(len(found))
        for info in found.values():
            if info["type"] == "file":
                info["LastModified"] = datetime.fromtimestamp(info["created"], UTC)
        return found if detail else list(found)

    def ls(self, path: str, *arguments: Any, **named: Any) -> Any:
        """Return the content of a folder."""
        with _count("ls") as count:
            found = super().ls(path, *arguments, **named)
            count(len(found))
        return found

    def rm(self, path: Any, recursive: bool = False, **named: Any) -> None:
        """Remove files, or a folder with all its files."""
        with _count("find" if recursive else "rm_file"):
            super().rm(path, recursive, **named)
        if recursive:
            with _count("rm_file"):
                pass


@contextmanager
def _count(name: str) -> Iterator[Callable[[int], None]]:
    """Count the request of a method, and those of further pages of a listing."""

    def count_names(number: int) -> None:
        if is_outermost:
            with _lock:
                CountingFileSystem.requests[kind] += max(0, -(-number // _PAGE) - 1)

    kind, is_outermost = _KINDS[name], not getattr(_nesting, "depth", 0)
    _nesting.depth = getattr(_nesting, "depth", 0) + 1
    try:
        if is_outermost:
            with _lock:
                CountingFileSystem.requests[kind] += 1
        yield count_names
    finally:
        _nesting.depth -= 1


def _make_counted(name: str) -> Callable[..., Any]:
    def call(self: CountingFileSystem, *arguments: Any, **named: Any) -> Any:
        with _count(name):
            return getattr(super(CountingFileSystem, self), name)(*arguments, **named)

    return call


for _name in _KINDS.keys() - vars(CountingFileSystem).keys():
    setattr(CountingFileSystem, _name, _make_counted(_name))
fsspec.register_implementation(PROTOCOL, CountingFileSystem, clobber=True)


@contextmanager
def count_requests() -> Iterator[Counter[str]]:
    """Yield a counter that contains, after the block, the requests of the block by kind.

    Example:
        >>> system = fsspec.filesystem("counted")
        >>> with count_requests() as requests:
        ...     system.pipe_file("/bucket/file", b"text")
        ...     _ = system.exists("/bucket/file")
        >>> dict(requests)
        {'put': 1, 'exists': 1}
    """
    requests, before = Counter[str](), CountingFileSystem.requests.copy()
    yield requests
    requests.update(CountingFileSystem.requests - before)


def clear() -> None:
    """Remove all files."""
    CountingFileSystem.store.clear()
    CountingFileSystem.pseudo_dirs[:] = [""]
