"""Rank correlation of scores with grades."""

import numpy as np
from numpy.typing import ArrayLike

from trainables.utils.arrays import Floats


def spearman(scores: ArrayLike, grades: ArrayLike) -> float:
    """Compute Spearman's rank correlation over all pairs; tied values share their mean rank.

    Sentence encoders are evaluated with it (Gao et al. 2021, Wu et al. 2021): the cosine of each sentence pair is
    compared with its gold similarity, and the subsets of a year are concatenated. The papers report it times 100.

    Args:
        scores: (n,), or any shape, which is flattened.
        grades: the same shape; gold similarities, weak labels, or relevance as 0 and 1.

    Returns:
        A number in [-1, 1]. It is 0 if all scores are equal, which is the mean over all orders of the tied scores.

    Raises:
        ValueError: there are fewer than two pairs, a value is NaN, the shapes differ, or all grades are equal.

    Example:
        >>> round(spearman([0.1, 0.4, 0.9], [1.0, 2.0, 5.0]), 6)
        1.0
        >>> round(spearman([0.1, 0.4, 0.9, 0.3], [0, 1, 1, 1]), 6)
        0.774597
    """
    values, labels = np.asarray(scores, dtype=np.float64), np.asarray(grades, dtype=np.float64)
    if values.shape != labels.shape or values.size < 2 or np.isnan(values).any() or np.isnan(labels).any():
        raise ValueError(f"expected two pairs or more and no NaN, but got {values.shape} and {labels.shape}")
    centre = (values.size + 1) / 2
    ranks, gold_ranks = rank(values) - centre, rank(labels) - centre
    if not gold_ranks.any():
        raise ValueError("all grades are equal, so their rank correlation is undefined")
    if not ranks.any():
        return 0.0
    return float(ranks @ gold_ranks / np.sqrt((ranks @ ranks) * (gold_ranks @ gold_ranks)))


def rank(values: ArrayLike) -> Floats:
    """Return (n,) ranks from 1; tied values share their mean rank."""
    _, codes, ties = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(ties) - (ties - 1) / 2)[codes.ravel()]
    return ranks
