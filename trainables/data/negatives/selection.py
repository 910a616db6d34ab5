"""Selects a query's negatives from a scored pool, and scales their scores to weak labels.

See Penha and Hauff (2021), section 3.2.
"""

import math
from typing import NamedTuple

import numpy as np

from trainables.data.negatives.negative_sampler import PoolError
from trainables.utils.arrays import Floats, Ints
from trainables.utils.random import make_generator

MIN_LABEL, MAX_LABEL = 0.01, 0.99
"""Range of weak labels that `scale_min_max` returns."""


class Negatives(NamedTuple):
    """Sampled documents of one query."""

    positions: Ints
    """(n,) Positions in the pool, nearest first, then those drawn at random."""
    n_found: int
    """Number of documents that the sampler found. The others were drawn at random."""


def sample_negatives(query_id: str, order: Floats, excluded: Ints, n: int, replace: bool = False) -> Negatives:
    """Return the n nearest documents that are not excluded.

    If several documents are equally near, the first in the pool is preferred. A document was not found by the sampler
    if its order is not positive. If too few were found, other documents are drawn at random.

    Args:
        query_id: Id of the query, which names the random stream.
        order: Values of shape (documents,), higher is nearer.
        excluded: Distinct positions of the documents that must not be sampled.
        n: Number of documents.
        replace: If True, take the n nearest of all documents and replace each excluded one by a random document, as the
            code of the authors of WSLS does.

    Raises:
        PoolError: If fewer than n documents are left.

    Example:
        >>> negatives = sample_negatives("q1", np.array([0.9, 0.5, 0.0, 0.7]), excluded=np.array([0]), n=2)
        >>> negatives.positions.tolist(), negatives.n_found
        ([3, 1], 2)
    """
    if len(order) - len(excluded) < n:
        raise PoolError(f"{len(order) - len(excluded)} documents are left for {n} negatives")
    near = find_nearest(order, n if replace else n + len(excluded))
    near = near[~np.isin(near, excluded)][:n]
    drawn = _draw_positions(query_id, len(order), set(near.tolist()) | set(excluded.tolist()), n - len(near))
    return Negatives(np.concatenate([near, np.array(drawn, dtype=np.int64)]), len(near))


def exclude_near(excluded: Ints, scores: Floats, relevant: Ints, margin: float | None) -> Ints:
    """Return the excluded documents, and those that score nearly as high as the relevant ones or higher.

    Such a negative is often a relevant document without a label (Moreira et al. 2024, NV-Retriever).

    Args:
        excluded: Positions of the documents that must not be sampled.
        scores: Scores of all documents, shape (documents,).
        relevant: Positions of the relevant documents, at least one; the lowest of their scores counts.
        margin: Share of that score by which a negative must be below it. If None, every document may be sampled.

    Example:
        >>> exclude_near(np.array([0]), np.array([0.8, 0.9, 0.79, 0.7]), relevant=np.array([0]), margin=0.05).tolist()
        [0, 1, 2]
    """
    if margin is None:
        return excluded
    lowest = float(scores[relevant].min())
    return np.union1d(excluded, np.flatnonzero(scores > lowest - margin * abs(lowest)))


def find_nearest(order: Floats, n: int) -> Ints:
    """Return the positions of the n largest positive values, largest first. Equal values keep their order.

    If there are fewer than n positive values, the positions of all of them are returned.

    Example:
        >>> find_nearest(np.array([0.5, 0.0, 0.9, 0.5]), n=3).tolist()
        [2, 0, 3]
    """
    if not len(order):
        return np.empty(0, np.int64)
    blocks = math.isqrt(len(order))
    width = len(order) // blocks
    bound = np.nextafter(0.0, 1.0)
    # The n-th largest of the maxima of blocks is at most the n-th largest value: one pass without sorting.
    if n <= blocks:
        largest = order[: blocks * width].reshape(blocks, width).max(axis=1)
        bound = max(bound, np.partition(largest, blocks - n)[blocks - n])
    near = np.flatnonzero(order >= bound)
    positions: Ints = near[np.argsort(-order[near], kind="stable")][:n]
    return positions


def _draw_positions(query_id: str, size: int, taken: set[int], n: int) -> list[int]:
    """Draw n distinct positions below `size` that are not taken."""
    generator, drawn = make_generator(0, f"back-fill of {query_id}", 0), dict[int, None]()
    while len(drawn) < n:
        drawn |= dict.fromkeys(p for p in generator.integers(size, size=2 * n).tolist() if p not in taken)
    return list(drawn)[:n]


def scale_min_max(scores: Floats) -> Floats:
    """Scale the scores of one query to weak labels in [0.01, 0.99] by their minimum and maximum.

    A single score and equal scores have no range. Their labels are 0.01.

    Example:
        >>> scale_min_max(np.array([2.0, 4.0, 3.0])).round(2).tolist()
        [0.01, 0.99, 0.5]
    """
    if len(scores) == 0 or scores.min() == scores.max():
        return np.full(len(scores), MIN_LABEL)
    share = (scores - scores.min()) / (scores.max() - scores.min())
    labels: Floats = MIN_LABEL + (MAX_LABEL - MIN_LABEL) * share
    return labels


def scale_global_max(scores: Floats) -> Floats:
    """Scale the scores of a whole split to weak labels: score / (1 + largest score).

    This is the definition in the slides of the authors of WSLS. It does not cover negative scores, which count as 0.

    Example:
        >>> scale_global_max(np.array([[3.0, -1.0], [1.0, np.nan]])).tolist()
        [[0.75, 0.0], [0.25, nan]]
    """
    return np.maximum(scores, 0.0) / (np.nanmax(scores, initial=0.0) + 1)
