"""Splits datasets that come without the three splits, in the same way for every run."""

import hashlib
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def split_by_hash(query_id: str) -> str:
    """Return the split of a query by the SHA-256 of its id: 80/10/10 %.

    The split does not depend on the other queries.

    Example:
        >>> [split_by_hash(query_id) for query_id in ("q5", "q6", "q7")]
        ['train', 'dev', 'test']
    """
    tenth = int.from_bytes(hashlib.sha256(query_id.encode()).digest()) % 10
    return "train" if tenth < 8 else "dev" if tenth == 8 else "test"


def choose_split(split: str, query_id: str, dev_share: float | None) -> str:
    """Return the split of a query that a collection has in `split`.

    The given share of the training queries is put into the dev split, by the SHA-256 of "dev ID". It depends neither on
    the other queries nor on the hash of the id alone, which `split_by_hash` and the limits of queries go by. A larger
    share contains a smaller one.

    Example:
        >>> [choose_split("train", query_id, dev_share=0.2) for query_id in ("q3", "q4", "q5")]
        ['train', 'dev', 'train']
    """
    if split != "train" or dev_share is None:
        return split
    value = int.from_bytes(hashlib.sha256(f"dev {query_id}".encode()).digest()[:8])
    return "dev" if value < dev_share * 2**64 else "train"


def split_in_order(count: int) -> list[str]:
    """Return the splits of `count` rows: the first 80 % train, the next 10 % dev, the last 10 % test.

    Example:
        >>> split_in_order(10)[6:]
        ['train', 'train', 'dev', 'test']
    """
    ends = count * 8 // 10, count * 9 // 10
    return ["train" if i < ends[0] else "dev" if i < ends[1] else "test" for i in range(count)]


def split_in_half(rows: Sequence[T], topic: Callable[[T], str]) -> tuple[list[T], list[T]]:
    """Sort rows by topic and split them in half.

    The rows of a topic stay together: if the middle is within a topic, all its rows are in the first half.

    Topics are sorted as numbers if all of them are decimal.

    Example:
        >>> split_in_half(["10", "9", "9", "8"], lambda row: row)
        (['8', '9', '9'], ['10'])
    """
    numbers = all(topic(row).isdecimal() for row in rows)
    ordered = sorted(rows, key=lambda row: (int(topic(row)) if numbers else 0, topic(row)))
    middle = len(ordered) // 2
    while 0 < middle < len(ordered) and topic(ordered[middle]) == topic(ordered[middle - 1]):
        middle += 1
    return ordered[:middle], ordered[middle:]
