"""Keeps a storage of states within a budget: what was used longest ago goes first, what is still needed never."""

from collections.abc import Callable, Iterable, Set
from typing import NamedTuple

from trainables.storage.base import RESUME, File, Storage


class Unit(NamedTuple):
    """What is kept or removed as a whole: a stage, or the slot of an unfinished run."""

    name: str
    bytes: int
    used: float  # seconds since 1970


class Eviction(NamedTuple):
    """What an eviction did."""

    removed: list[str]
    staying: list[Unit]

    @property
    def left(self) -> int:
        """Bytes of what stays."""
        return sum(unit.bytes for unit in self.staying)


def units(files: Iterable[File]) -> list[Unit]:
    """The units that these files make up, the one used longest ago first."""
    found: dict[str, Unit] = {}
    for file in files:
        parts = file.path.split("/")
        name = "/".join(parts[: 2 if parts[0] == RESUME else 1])
        known = found.get(name, Unit(name, 0, 0.0))
        found[name] = Unit(name, known.bytes + file.bytes, max(known.used, file.modified))
    return sorted(found.values(), key=lambda unit: (unit.used, unit.name))


def excess(found: list[Unit], needed: Set[str], budget: int) -> list[Unit]:
    """What must go, of units in the order in which they may, so that the rest takes at most `budget` bytes.

    Where the needed alone takes more, everything else goes.
    """
    total, going = sum(unit.bytes for unit in found), []
    for unit in found:
        if total > budget and unit.name not in needed:
            going.append(unit)
            total -= unit.bytes
    return going


def evict(storage: Storage, needed: Callable[[], Set[str]], budget: int, room: int = 0) -> Eviction:
    """Removes what exceeds the budget.

    Args:
        storage: of the states; other studies may be using it, and compute again what they miss.
        needed: names of units that must stay; asked only when the budget is exceeded.
        budget: bytes.
        room: bytes below the budget that are freed as well when it is exceeded.
    """
    found = units(storage.files())
    exceeded = sum(unit.bytes for unit in found) > budget
    going = excess(found, needed(), budget - room) if exceeded else []
    for unit in going:
        storage.remove(unit.name)
    gone = {unit.name for unit in going}
    return Eviction([unit.name for unit in going], [unit for unit in found if unit.name not in gone])
