"""What the queries of a split differ in, and their division by it: strata, of which each query is in one."""

import hashlib
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.data.query_attributes import DIFFICULTY_PREFIX
from trainables.utils.arrays import Floats, Ints

MIN_QUERIES = 20
"""Queries that a class of numbers of turns has at least."""
MAX_GROUPS = 10
"""Classes of numbers of turns, and domains that are not among the others."""
_TERCILES = ("0-33 %", "33-66 %", "66-100 %")
_NONE, _OTHER = "none", "other"
_MODEL_SCORE_PREFIX = "BERT_"
"""What the names of scores begin with that a trained run makes."""


class QueryAttribute(NamedTuple):
    """One attribute.

    Attributes:
        name: turns, domain or difficulty/<score>, as the column.
        strata: their names, in the order in which they are shown.
        of: (queries,) the place of each query's stratum among these.
    """

    name: str
    strata: list[str]
    stratum_indices: NDArray[np.intp]

    @property
    def is_from_run(self) -> bool:
        """Whether it is a difficulty that a trained run has found."""
        return self.name.startswith(DIFFICULTY_PREFIX + _MODEL_SCORE_PREFIX)

    @property
    def title(self) -> str:
        """In words."""
        score = self.name.removeprefix(DIFFICULTY_PREFIX)
        return self.name if score == self.name else f"difficulty ({score})"


def group_queries(queries: pd.DataFrame) -> list[QueryAttribute]:
    """All that a split's queries have, in the order of the columns.

    Args:
        queries: a row a query, as `analysis.data.query_attributes.read_queries` has it.
    """
    found = []
    for name in queries:
        if name == "turns":
            found.append(QueryAttribute("turns", *group_by_turns(queries["turns"].to_numpy())))
        elif name == "domain":
            found.append(QueryAttribute("domain", *group_by_domain(queries["domain"].tolist())))
        elif str(name).startswith(DIFFICULTY_PREFIX):
            terciles = group_by_difficulty(queries[name].to_numpy(), queries["query_id"].tolist())
            found.append(QueryAttribute(str(name), *terciles))
    return found


def group_by_turns(turns: Ints) -> tuple[list[str], NDArray[np.intp]]:
    """Classes of adjacent numbers of turns, from the fewest turns up.

    A class takes in the next larger number until it has 20 queries. There are 10 classes at most, and the last takes in
    whatever is left, and also what at the end is too little for a class.

    Args:
        turns: (queries,) of each query.

    Returns:
        Names of the classes, such as 1, 2, 3-4, 5 or more; and (queries,) the place of each query's class.
    """
    values, counts = np.unique(turns, return_counts=True)
    starts, held = [int(values[0])], 0
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        if held >= MIN_QUERIES and len(starts) < MAX_GROUPS:
            starts.append(value)
            held = 0
        held += count
    if held < MIN_QUERIES and len(starts) > 1:
        starts.pop()
    indices = np.searchsorted(starts, turns, side="right") - 1
    ends = [int(turns[indices == place].max()) for place in range(len(starts))]
    names = [str(first) if first == last else f"{first}-{last}" for first, last in zip(starts, ends, strict=True)]
    if starts[-1] != ends[-1]:
        names[-1] = f"{starts[-1]} or more"
    return names, indices


def group_by_domain(domains: list[str]) -> tuple[list[str], NDArray[np.intp]]:
    """The 10 most frequent domains, of equally frequent ones those first by the alphabet; then all others together.

    Args:
        domains: (queries,) of each query; empty: it has none, which counts as a domain.

    Returns:
        Their names, the most frequent first, and (queries,) the place of each query's domain.
    """
    named = [domain or _NONE for domain in domains]
    frequent = sorted(set(named), key=lambda name: (-named.count(name), name))[:MAX_GROUPS]
    kept = [name if name in frequent else _OTHER for name in named]
    names = list(dict.fromkeys([*frequent, *([_OTHER] if _OTHER in kept else [])]))
    places = {name: place for place, name in enumerate(names)}
    return names, np.array([places[name] for name in kept], dtype=np.intp)


def group_by_difficulty(difficulty: Floats, queries: list[str]) -> tuple[list[str], NDArray[np.intp]]:
    """Thirds of the queries, the easiest first; among equally difficult ones the SHA-256 of the query's id decides.

    Args:
        difficulty: (queries,) low is easy.
        queries: (queries,) their ids.

    Returns:
        Names of the thirds, and (queries,) the place of each query's third.
    """
    hashed = [hashlib.sha256(name.encode()).digest() for name in queries]
    order = sorted(range(len(queries)), key=lambda place: (difficulty[place], hashed[place]))
    indices = np.empty(len(queries), dtype=np.intp)
    indices[order] = np.arange(len(queries)) * len(_TERCILES) // len(queries)
    return list(_TERCILES), indices
