"""Eviction of cached checkpoints: keeps a storage within a size limit.

The least recently used checkpoint is removed first; checkpoints that are still needed are never removed. Other
files in the storage neither count nor are removed.
"""

from collections.abc import Callable, Iterable, Sequence, Set
from typing import NamedTuple

from trainables.storage.base import MANIFEST, RESUME_FOLDER, STATE_FILE, USED_FILE, Storage, StoredFile
from trainables.utils.hashing import is_hash

_FILES = {MANIFEST, STATE_FILE, USED_FILE}


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

    A folder with another name, or with a file that no checkpoint has, belongs to somebody else and is no entry.

    Example:
        >>> first, second = "0" * 16, "1" * 16
        >>> paths = [f"{first}/state.safetensors", f"{second}/stage.json", f"{first}/stage.json", "mine/thesis.pdf"]
        >>> files = [StoredFile(path, 5, float(place)) for place, path in enumerate(paths)]
        >>> [(entry.name, entry.size) for entry in group_entries(files)]
        [('1111111111111111', 5), ('0000000000000000', 10)]
    """
    entries: dict[str, CacheEntry] = {}
    foreign = set[str]()
    for file in files:
        *folders, file_name = file.path.split("/")
        if not folders or file_name.startswith("."):  # a marker, or .nfs0001, which a system leaves in any folder
            continue
        name = "/".join(folders[: 2 if folders[0] == RESUME_FOLDER else 1])
        if not _is_checkpoint(folders) or file_name not in _FILES:
            foreign.add(name)
        entry = entries.get(name, CacheEntry(name, 0, 0.0))
        entries[name] = CacheEntry(name, entry.size + file.size, max(entry.last_used, file.modified_at))
    own = (entry for name, entry in entries.items() if name not in foreign)
    return sorted(own, key=lambda entry: (entry.last_used, entry.name))


def _is_checkpoint(folders: Sequence[str]) -> bool:
    """Return whether a path has the form of a shared checkpoint's folder or of a resume checkpoint's."""
    match folders:
        case [key]:
            return is_hash(key)
        case [first, run_id, instances]:
            return first == RESUME_FOLDER and is_hash(run_id) and instances.isdigit()
    return False


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
