"""Rows of the candidates of each query: queries may have different numbers of relevant documents."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from trainables.utils.arrays import Floats, Ints


@dataclass(frozen=True)
class QueryGroups:
    """Consecutive rows of queries, each with its relevant documents before the others.

    Example:
        >>> groups = QueryGroups.from_relevant(np.array([1, 0, 0, 1, 1, 0, 0]))
        >>> groups.starts.tolist(), groups.n_relevant.tolist(), groups.n_others.tolist()
        ([0, 3, 7], [1, 2], [2, 2])
    """

    starts: Ints
    """(queries + 1,) First row of each query, and the number of all rows."""
    n_relevant: Ints
    """(queries,) Number of relevant documents."""

    @classmethod
    def from_relevant(cls, relevant: Ints) -> "QueryGroups":
        """Return the groups of rows in which every query has relevant documents first, then others."""
        is_relevant = np.asarray(relevant) == 1
        is_first = is_relevant & ~np.concatenate([[False], is_relevant[:-1]])
        starts = np.append(np.flatnonzero(is_first), len(is_relevant)).astype(np.int64)
        assert starts[0] == 0  # the relevant ones first
        return cls(starts, np.add.reduceat(is_relevant, starts[:-1], dtype=np.int64))

    def __len__(self) -> int:
        return len(self.n_relevant)

    @cached_property
    def sizes(self) -> Ints:
        """(queries,) Number of rows of each query."""
        sizes: Ints = np.diff(self.starts)
        return sizes

    @cached_property
    def n_others(self) -> Ints:
        """(queries,) Number of documents that are not relevant."""
        others: Ints = self.sizes - self.n_relevant
        return others

    @cached_property
    def queries(self) -> Ints:
        """(rows,) Number of the query of each row."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @property
    def places(self) -> Ints:
        """(rows,) Place of each row among those of its query."""
        return np.arange(self.starts[-1]) - self.starts[self.queries]

    def reduce(self, function: Callable[..., Floats], *values: np.ndarray[Any, Any]) -> Floats:
        """Return a value for each query.

        Args:
            function: Called for all queries with the same number of rows at once, with arrays of shape (queries,
                rows of a query). Returns an array of shape (queries,).
            values: Arguments of the function, each of shape (rows,).

        Example:
            >>> groups = QueryGroups.from_relevant(np.array([1, 0, 1, 1, 0]))
            >>> groups.reduce(lambda scores: scores.mean(axis=1), np.array([1.0, 2.0, 3.0, 4.0, 5.0])).tolist()
            [1.5, 4.0]
        """
        reduced = np.empty(len(self))
        for size in np.unique(self.sizes):
            queries = np.flatnonzero(self.sizes == size)
            rows = self.starts[queries, None] + np.arange(size)
            reduced[queries] = function(*(value[rows] for value in values))
        return reduced
