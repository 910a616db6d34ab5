"""Two seeds of one system, and how often the usual test calls them different."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from trainables.utils.arrays import Bools, Floats

MIN_SEEDS = 4
"""Fewest seeds of a system that is examined."""
LEVEL = 0.05
"""Level of the usual test."""
_SIZES = (50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
_DRAWS = 20
_ROUNDING = 1e-12
_T = TypeVar("_T", bound=np.generic)


@dataclass(frozen=True)
class EqualRankers:
    """Decisions of the usual test, the paired t-test over queries at .05, about any two seeds of a system.

    Attributes:
        rates: share of the pairs of seeds that it calls different, by system.
        rate: share of all of them.
        distance: median distance between the means of two seeds.
        curve: the share for random parts of the queries, by their number; the last is that of all queries.
    """

    rates: dict[str, float]
    pairs: int
    rate: float
    distance: float
    curve: dict[int, float]

    def describe(self) -> str:
        """Return the finding in one sentence.

        Example:
            >>> EqualRankers({"BERT": 0.3}, 10, 0.3, 0.0123, {1000: 0.3}).describe().partition(";")[0]
            'The usual test over queries calls two seeds of BERT different in 30 % of 10 pairs'
        """
        what = "one system" if len(self.rates) > 1 else next(iter(self.rates))
        return (
            f"The usual test over queries calls two seeds of {what} different in {100 * self.rate:.0f} % of "
            f"{self.pairs:,} pairs; their median distance is {self.distance:.4f}."
        )


def examine_equal_rankers(values: Mapping[str, Floats]) -> EqualRankers | None:
    """Test any two seeds of a system against each other, as if they were two systems.

    Args:
        values: (seeds, queries) metric of each complete system. Left out are systems with fewer than four seeds, or
            with the same scores for every seed.

    Returns:
        None if no system is left, or if there is one query.
    """
    seeded = {name: own for name, own in values.items() if len(own) >= MIN_SEEDS and np.ptp(own, axis=0).any()}
    queries = max((own.shape[1] for own in seeded.values()), default=0)
    if queries < 2:
        return None
    different = {name: list_pairs(call_different(own)) for name, own in seeded.items()}
    means = [own.mean(axis=1) for own in seeded.values()]
    rate = float(np.concatenate([*different.values()]).mean())
    return EqualRankers(
        rates={name: float(own.mean()) for name, own in different.items()},
        pairs=sum(map(len, different.values())),
        rate=rate,
        distance=float(np.median(np.concatenate([list_pairs(abs(np.subtract.outer(own, own))) for own in means]))),
        curve=draw_curve([*seeded.values()], [size for size in _SIZES if size < queries]) | {queries: rate},
    )


def call_different(values: Floats) -> Bools:
    """Return a (runs, runs) matrix: True where a paired t-test over queries has p below .05.

    Args:
        values: (runs, queries) metric.
    """
    from scipy import stats

    queries, means, covariance = values.shape[1], values.mean(axis=1), np.cov(values)
    own = covariance.diagonal()
    error = np.sqrt(np.maximum(own[:, None] + own - 2 * covariance, 0) / queries)
    different: Bools = abs(np.subtract.outer(means, means)) > stats.t.isf(LEVEL / 2, queries - 1) * error + _ROUNDING
    return different


def draw_curve(values: list[Floats], sizes: list[int]) -> dict[int, float]:
    """Return the share of pairs of runs that are called different on random parts of the queries, by their size.

    Args:
        values: (runs, queries) metric of each system, on the same queries.
        sizes: numbers of queries. The shares of several parts of a size are averaged.
    """
    curve = {}
    for size in sizes:
        drawn = [np.random.default_rng([size, draw]).permutation(values[0].shape[1])[:size] for draw in range(_DRAWS)]
        found = [list_pairs(call_different(own[:, part])) for own in values for part in drawn]
        curve[size] = float(np.concatenate(found).mean())
    return curve


def list_pairs(matrix: npt.NDArray[_T]) -> npt.NDArray[_T]:
    """Return the entries of a symmetric matrix above its diagonal, one for each pair.

    Example:
        >>> list_pairs(np.array([[0.0, 1.0], [1.0, 0.0]])).tolist()
        [1.0]
    """
    return matrix[np.triu_indices(len(matrix), 1)]
