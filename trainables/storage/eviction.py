"""Eviction of cached checkpoints: keeps a storage within a size limit.

The least recently used checkpoint is removed first; checkpoints that are still needed are never removed.
"""

from collections.abc import Callable, Iterable, Set
from typing import NamedTuple

from trainables.storage.base import RESUME_FOLDER, Storage, StoredFile


class CacheEntry(NamedTuple):
    """A folder that is kept or removed as a whole: a checkpoint, or the resume checkpoints of one run."""

    name: str
    size: int  # bytes
    last_used: float  # seconds since 1970


class EvictionResult(NamedTuple):
    """Result of an eviction: removed and remaining entries."""

    removed: list[str]
    remaining: list[CacheEntry]

    @property
    def remaining_bytes(self) -> int:
        """Bytes of the remaining entries."""
        return sum(entry.size for entry in self.remaining)


def group_entries(files: Iterable[StoredFile]) -> list[CacheEntry]:
    """Return the cache entries that these files belong to, least recently used first.

    Example:
        >>> files = [StoredFile("a/model", 5, 20.0), StoredFile("a/used", 1, 30.0), StoredFile("b/model", 5, 10.0)]
        >>> [(entry.name, entry.size) for entry in group_entries(files)]
        [('b', 5), ('a', 6)]
    """
    entries: dict[str, CacheEntry] = {}
    for file in files:
        parts = file.path.split("/")
        name = "/".join(parts[: 2 if parts[0] == RESUME_FOLDER else 1])
        entry = entries.get(name, CacheEntry(name, 0, 0.0))
        entries[name] = CacheEntry(name, entry.size + file.size, max(entry.last_used, file.modified_at))
    return sorted(entries.values(), key=lambda entry: (entry.last_used, entry.name))


def select_evicted(entries: list[CacheEntry], needed: Set[str], budget: int) -> list[CacheEntry]:
    """Return the entries to remove so that the rest fits into the budget.

    If the needed entries alone exceed the budget, all others are removed.

    Args:
        entries: in the order in which they may be removed.
        needed: names of entries that must stay.
        budget: bytes that the remaining entries may have.

    Example:
        >>> entries = [CacheEntry("a", 6, 1.0), CacheEntry("b", 6, 2.0), CacheEntry("c", 6, 3.0)]
        >>> [entry.name for entry in select_evicted(entries, needed={"a"}, budget=12)]
        ['b']
    """
    total, evicted = sum(entry.size for entry in entries), []
    for entry in entries:
        if total > budget and entry.name not in needed:
            evicted.append(entry)
            total -= entry.size
    return evicted


def evict(storage: Storage, needed: Callable[[], Set[str]], budget: int, headroom: int = 0) -> EvictionResult:
    """Remove the least recently used entries if a storage exceeds its budget.

    Args:
        storage: storage of the checkpoints. Other studies may use it too; they compute a removed checkpoint again.
        needed: returns the names of entries that must stay; called only if the budget is exceeded.
        budget: bytes that the storage may contain.
        headroom: bytes to free below the budget if it is exceeded.
    """
    entries = group_entries(storage.list_files())
    exceeded = sum(entry.size for entry in entries) > budget
    evicted = select_evicted(entries, needed(), budget - headroom) if exceeded else []
    for entry in evicted:
        storage.remove(entry.name)
    removed = {entry.name for entry in evicted}
    return EvictionResult([entry.name for entry in evicted], [entry for entry in entries if entry.name not in removed])
