"""How a collection that comes without the three splits is split, so that every run sees the same."""

import hashlib
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def split_by_hash(query_id: str) -> str:
    """The split of a query by the SHA-256 of its id: 80/10/10 %, whatever else the collection holds."""
    tenth = int.from_bytes(hashlib.sha256(query_id.encode()).digest()) % 10
    return "train" if tenth < 8 else "dev" if tenth == 8 else "test"


def split_in_order(count: int) -> list[str]:
    """The splits of that many rows: the first 80 % train, the next 10 % dev, the last 10 % test."""
    ends = count * 8 // 10, count * 9 // 10
    return ["train" if i < ends[0] else "dev" if i < ends[1] else "test" for i in range(count)]


def split_in_half(rows: Sequence[T], topic: Callable[[T], str]) -> tuple[list[T], list[T]]:
    """Rows sorted by topic, numerically if all are numbers, and halved.

    A topic is never cut in two: its rows all stay in the first half, which is larger by them.
    """
    numbers = all(topic(row).isdecimal() for row in rows)
    ordered = sorted(rows, key=lambda row: (int(topic(row)) if numbers else 0, topic(row)))
    middle = len(ordered) // 2
    while 0 < middle < len(ordered) and topic(ordered[middle]) == topic(ordered[middle - 1]):
        middle += 1
    return ordered[:middle], ordered[middle:]
