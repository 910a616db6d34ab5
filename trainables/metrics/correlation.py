"""Correlation of scores with grades."""

import numpy as np
from numpy.typing import ArrayLike

from trainables.utils.arrays import Floats


def spearman(scores: ArrayLike, grades: ArrayLike) -> float:
    """Spearman's rank correlation over all pairs together, tied values sharing their mean rank.

    This is how sentence encoders are judged (Gao et al. 2021, Wu et al. 2021): the cosine of each pair of sentences
    against its gold similarity, the subsets of a year concatenated. The papers report it times 100.

    Args:
        scores: (n,) or any shape, taken as one list.
        grades: the same shape; gold similarities, weak labels, or relevance as 0 and 1.

    Returns:
        In [-1, 1]. 0 where all scores are equal: that is the mean over all orders of the tied scores.

    Raises:
        ValueError: for fewer than two pairs, a NaN, shapes that differ, or grades that are all equal: there is nothing
            to agree with.
    """
    values, labels = np.asarray(scores, dtype=np.float64), np.asarray(grades, dtype=np.float64)
    if values.shape != labels.shape or values.size < 2 or np.isnan(values).any() or np.isnan(labels).any():
        raise ValueError(f"expected two pairs or more and no NaN, but got {values.shape} and {labels.shape}")
    own, gold = _ranks(values.ravel()), _ranks(labels.ravel())
    if not gold.any():
        raise ValueError("all grades are equal, so that nothing correlates with them")
    return float(own @ gold / np.sqrt((own @ own) * (gold @ gold))) if own.any() else 0.0


def _ranks(values: Floats) -> Floats:
    """(n,) mean ranks, less their mean."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    centred: Floats = ranks[inverse] - (len(values) + 1) / 2
    return centred
