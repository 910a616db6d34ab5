"""Which documents of a scored pool become a query's negatives, and the weak labels made of their scores.

Penha and Hauff (2021), section 3.2.
"""

import math
from typing import NamedTuple

import numpy as np

from trainables.data.negatives.base import PoolError
from trainables.utils.arrays import Floats, Ints
from trainables.utils.random import make_generator

MIN_LABEL, MAX_LABEL = 0.01, 0.99


class Negatives(NamedTuple):
    """One query's sampled documents."""

    positions: Ints
    """(n,) positions in the pool, nearest first, then those drawn at random."""
    n_found: int
    """How many the sampler found; the others were drawn."""


def sample_negatives(query_id: str, order: Floats, excluded: Ints, n: int, replace: bool = False) -> Negatives:
    """The nearest n documents that are not excluded.

    Ties go to the first in the pool. A document whose order is not positive was not found; missing ones are drawn at
    random, a draw named by the query's id.

    Args:
        query_id: names the draw.
        order: (documents,) higher is nearer.
        excluded: positions of documents that must not be sampled.
        n: how many.
        replace: take the nearest n of all, and draw a document for each of them that is excluded, as the authors do.

    Raises:
        PoolError: fewer than n documents are left.
    """
    if len(order) - len(excluded) < n:
        raise PoolError(f"{len(order) - len(excluded)} documents are left for {n} negatives")
    near = find_nearest(order, n if replace else n + len(excluded))
    near = near[~np.isin(near, excluded)][:n]
    drawn = _draw_positions(query_id, len(order), set(near.tolist()) | set(excluded.tolist()), n - len(near))
    return Negatives(np.concatenate([near, np.array(drawn, dtype=np.int64)]), len(near))


def find_nearest(order: Floats, n: int) -> Ints:
    """Positions of the n largest positive values, or of all if there are fewer; the first of equals first."""
    blocks = math.isqrt(len(order))
    width = len(order) // blocks
    bound = np.nextafter(0.0, 1.0)
    if n <= blocks:  # the n-th largest of the blocks' largest is at most the n-th largest of all: one pass, no sorting
        largest = order[: blocks * width].reshape(blocks, width).max(axis=1)
        bound = max(bound, np.partition(largest, blocks - n)[blocks - n])
    enough = np.flatnonzero(order >= bound)
    positions: Ints = enough[np.argsort(-order[enough], kind="stable")][:n]
    return positions


def _draw_positions(query_id: str, size: int, taken: set[int], n: int) -> list[int]:
    """n distinct positions below `size` that are not taken."""
    draws, drawn = make_generator(0, f"back-fill of {query_id}", 0), dict[int, None]()
    while len(drawn) < n:
        drawn |= dict.fromkeys(p for p in draws.integers(size, size=2 * n).tolist() if p not in taken)
    return list(drawn)[:n]


def scale_min_max(scores: Floats) -> Floats:
    """(n,) min-max of one query's scores into [0.01, 0.99]; a lone score or equal scores have no range: 0.01."""
    if len(scores) == 0 or scores.min() == scores.max():
        return np.full(len(scores), MIN_LABEL)
    share = (scores - scores.min()) / (scores.max() - scores.min())
    labels: Floats = MIN_LABEL + (MAX_LABEL - MIN_LABEL) * share
    return labels


def scale_global_max(scores: Floats) -> Floats:
    """Scores of a whole set, NaN among them, as shares of what is one above the largest (slides of WSLS's authors).

    A score below 0, which that definition does not foresee, counts as 0.
    """
    return np.maximum(scores, 0.0) / (np.nanmax(scores, initial=0.0) + 1)
