"""A file system in memory that counts the requests of its users, as an object store would get them."""

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
    **dict.fromkeys(("find", "ls"), "list"),
    **dict.fromkeys(("exists", "info", "isfile", "isdir", "modified"), "exists"),
    "makedirs": "exists",  # s3fs asks whether the bucket exists
    **dict.fromkeys(("cat_file", "get_file"), "get"),
    **dict.fromkeys(("put_file", "pipe_file"), "put"),
    "rm_file": "delete",
}
_nesting, _lock = threading.local(), threading.Lock()


class CountingFileSystem(MemoryFileSystem):
    """Counts the requests of all instances by kind, without those that serve another one.

    Removing a folder takes its listing and one deletion. As those of object stores, listings have the times of files.
    """

    protocol = PROTOCOL
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    requests: ClassVar[Counter[str]] = Counter()

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.removeprefix(f"{PROTOCOL}://")))

    def find(self, path: str, *arguments: Any, detail: bool = False, **named: Any) -> Any:
        with _count("list") as found:
            found |= super().find(path, *arguments, detail=True, **named)
        for info in found.values():
            if info["type"] == "file":
                info["LastModified"] = datetime.fromtimestamp(info["created"], UTC)
        return found if detail else list(found)

    def rm(self, path: Any, recursive: bool = False, **named: Any) -> None:
        with _count("list" if recursive else "delete"):
            super().rm(path, recursive, **named)
        if recursive:
            with _count("delete"):
                pass


@contextmanager
def _count(kind: str) -> Iterator[dict[str, Any]]:
    """Counts a request, and one more for each further page of what the block lists."""
    depth, listed = getattr(_nesting, "depth", 0), dict[str, Any]()
    _nesting.depth = depth + 1
    try:
        yield listed
    finally:
        _nesting.depth = depth
        if not depth:
            with _lock:
                CountingFileSystem.requests[kind] += max(1, -(-len(listed) // _PAGE))


def _make_counted(name: str) -> Callable[..., Any]:
    def call(self: CountingFileSystem, *arguments: Any, **named: Any) -> Any:
        with _count(_KINDS[name]) as listed:
            found = getattr(super(CountingFileSystem, self), name)(*arguments, **named)
            if name == "ls":
                listed |= {str(number): None for number in range(len(found))}
        return found

    return call


for _name in _KINDS.keys() - vars(CountingFileSystem).keys():
    setattr(CountingFileSystem, _name, _make_counted(_name))
fsspec.register_implementation(PROTOCOL, CountingFileSystem, clobber=True)


@contextmanager
def count_requests() -> Iterator[Counter[str]]:
    """Yields a counter that contains, after the block, the requests of the block by kind."""
    requests, before = Counter[str](), CountingFileSystem.requests.copy()
    yield requests
    requests.update(CountingFileSystem.requests - before)


def clear() -> None:
    CountingFileSystem.store.clear()
    CountingFileSystem.pseudo_dirs[:] = [""]
