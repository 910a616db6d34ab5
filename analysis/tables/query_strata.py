"""Groups the queries of a split by turns, domain or difficulty tercile for the error analysis."""

import hashlib
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from records.queries import DIFFICULTY_PREFIX
from trainables.utils.arrays import Floats, Ints

MIN_QUERIES = 20
"""Fewest queries of a group of numbers of turns."""
MAX_GROUPS = 10
"""Most groups of numbers of turns, and most domains that are shown separately."""
_TERCILES = ("0-33 %", "33-66 %", "66-100 %")
_NONE, _OTHER = "none", "other"
_MODEL_SCORE_PREFIX = "BERT_"
"""Prefix of the names of difficulty scores that the scoring run computes."""


class QueryAttribute(NamedTuple):
    """One attribute of the queries and their groups by it, called strata.

    Attributes:
        name: name of the column: turns, domain or difficulty/<score>.
        strata: names of the strata, in the order in which they are shown.
        stratum_indices: (queries,) index of each query's stratum.
    """

    name: str
    strata: list[str]
    stratum_indices: NDArray[np.intp]

    @property
    def is_from_run(self) -> bool:
        """True if it is a difficulty score that a trained run computed."""
        return self.name.startswith(DIFFICULTY_PREFIX + _MODEL_SCORE_PREFIX)

    @property
    def title(self) -> str:
        """Name of the attribute in words."""
        score = self.name.removeprefix(DIFFICULTY_PREFIX)
        return self.name if score == self.name else f"difficulty ({score})"


def group_queries(queries: pd.DataFrame) -> list[QueryAttribute]:
    """Group the queries of a split by each attribute, in the order of the columns.

    Args:
        queries: one row a query, as returned by `records.queries.read_queries`.
    """
    attributes = []
    for name in queries:
        if name == "turns":
            attributes.append(QueryAttribute("turns", *group_by_turns(queries["turns"].to_numpy())))
        elif name == "domain":
            attributes.append(QueryAttribute("domain", *group_by_domain(queries["domain"].tolist())))
        elif str(name).startswith(DIFFICULTY_PREFIX):
            terciles = group_by_difficulty(queries[name].to_numpy(), queries["query_id"].tolist())
            attributes.append(QueryAttribute(str(name), *terciles))
    return attributes


def group_by_turns(turns: Ints) -> tuple[list[str], NDArray[np.intp]]:
    """Group adjacent numbers of turns, from the fewest turns up.

    A group takes the next larger number until it has 20 queries. There are at most 10 groups. The last one takes the
    rest, also if it would be too small for a group.

    Args:
        turns: (queries,) number of turns of each query.

    Returns:
        Names of the groups, such as 1, 2, 3-4, 5 or more; and (queries,) the index of each query's group.

    Example:
        >>> import numpy as np
        >>> names, indices = group_by_turns(np.repeat([1, 2, 3, 4], [25, 5, 15, 30]))
        >>> names
        ['1', '2-3', '4']
    """
    values, counts = np.unique(turns, return_counts=True)
    starts, count_in_group = [int(values[0])], 0
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        if count_in_group >= MIN_QUERIES and len(starts) < MAX_GROUPS:
            starts.append(value)
            count_in_group = 0
        count_in_group += count
    if count_in_group < MIN_QUERIES and len(starts) > 1:
        starts.pop()
    indices = np.searchsorted(starts, turns, side="right") - 1
    ends = [int(turns[indices == index].max()) for index in range(len(starts))]
    names = [str(first) if first == last else f"{first}-{last}" for first, last in zip(starts, ends, strict=True)]
    if starts[-1] != ends[-1]:
        names[-1] = f"{starts[-1]} or more"
    return names, indices


def group_by_domain(domains: list[str]) -> tuple[list[str], NDArray[np.intp]]:
    """Group the 10 most frequent domains separately, and all others together.

    Equally frequent domains are in alphabetical order.

    Args:
        domains: (queries,) domain of each query. An empty name counts as the domain "none".

    Returns:
        Names of the groups, the most frequent first, and (queries,) the index of each query's group.
    """
    named = [domain or _NONE for domain in domains]
    frequent = sorted(set(named), key=lambda name: (-named.count(name), name))[:MAX_GROUPS]
    kept = [name if name in frequent else _OTHER for name in named]
    names = list(dict.fromkeys([*frequent, *([_OTHER] if _OTHER in kept else [])]))
    indices = {name: index for index, name in enumerate(names)}
    return names, np.array([indices[name] for name in kept], dtype=np.intp)


def group_by_difficulty(difficulty: Floats, queries: list[str]) -> tuple[list[str], NDArray[np.intp]]:
    """Group the queries by difficulty into thirds, the easiest first.

    The order of equally difficult queries is that of the SHA-256 of their ids.

    Args:
        difficulty: (queries,) difficulty scores; low is easy.
        queries: (queries,) ids.

    Returns:
        Names of the thirds, and (queries,) the index of each query's third.
    """
    hashed = [hashlib.sha256(name.encode()).digest() for name in queries]
    order = sorted(range(len(queries)), key=lambda index: (difficulty[index], hashed[index]))
    indices = np.empty(len(queries), dtype=np.intp)
    indices[order] = np.arange(len(queries)) * len(_TERCILES) // len(queries)
    return list(_TERCILES), indices
