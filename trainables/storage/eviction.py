"""Keeps a storage of states within a budget: what was used longest ago goes first, what is still needed never."""

from collections.abc import Callable, Iterable, Set
from typing import NamedTuple

from trainables.storage.base import RESUME_FOLDER, Storage, StoredFile


class CacheEntry(NamedTuple):
    """What is kept or removed as a whole: a stage, or the slot of an unfinished run."""

    name: str
    size: int
    last_used: float  # seconds since 1970


class EvictionResult(NamedTuple):
    """What an eviction did."""

    removed: list[str]
    remaining: list[CacheEntry]

    @property
    def remaining_bytes(self) -> int:
        """Bytes of what stays."""
        return sum(unit.size for unit in self.remaining)


def group_entries(files: Iterable[StoredFile]) -> list[CacheEntry]:
    """The units that these files make up, the one used longest ago first."""
    found: dict[str, CacheEntry] = {}
    for file in files:
        parts = file.path.split("/")
        name = "/".join(parts[: 2 if parts[0] == RESUME_FOLDER else 1])
        known = found.get(name, CacheEntry(name, 0, 0.0))
        found[name] = CacheEntry(name, known.size + file.size, max(known.last_used, file.modified_at))
    return sorted(found.values(), key=lambda unit: (unit.last_used, unit.name))


def select_evicted(entries: list[CacheEntry], needed: Set[str], budget: int) -> list[CacheEntry]:
    """What must go, of units in the order in which they may, so that the rest takes at most `budget` bytes.

    Where the needed alone takes more, everything else goes.
    """
    total, going = sum(unit.size for unit in entries), []
    for unit in entries:
        if total > budget and unit.name not in needed:
            going.append(unit)
            total -= unit.size
    return going


def evict(storage: Storage, needed: Callable[[], Set[str]], budget: int, headroom: int = 0) -> EvictionResult:
    """Removes what exceeds the budget.

    Args:
        storage: of the states; other studies may be using it, and compute again what they miss.
        needed: names of units that must stay; asked only when the budget is exceeded.
        budget: bytes.
        room: bytes below the budget that are freed as well when it is exceeded.
    """
    found = group_entries(storage.list_files())
    exceeded = sum(unit.size for unit in found) > budget
    going = select_evicted(found, needed(), budget - headroom) if exceeded else []
    for unit in going:
        storage.remove(unit.name)
    gone = {unit.name for unit in going}
    return EvictionResult([unit.name for unit in going], [unit for unit in found if unit.name not in gone])
