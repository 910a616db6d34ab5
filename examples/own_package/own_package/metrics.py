"""A metric of your own: rank-biased precision (Moffat and Zobel 2008) with persistence 0.8.

A reader looks at rank r with probability 0.8^(r - 1). A tie counts as its mean over all orders of the tied candidates,
as in every metric of the project: `analysis.metric = "RBP"`.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trainables.metrics import METRICS, Measure

PERSISTENCE = 0.8


def rank_biased_precision(scores: ArrayLike, relevant: ArrayLike) -> NDArray[np.float64]:
    """Compute the sum of 0.2 x 0.8^(rank - 1) over the relevant candidates.

    Args:
        scores: (queries, candidates), higher is better.
        relevant: (queries, candidates) 0 or 1.

    Returns:
        (queries,) in (0, 1).

    Example:
        >>> rank_biased_precision([[3.0, 2.0, 1.0], [2.0, 2.0, 1.0]], [[0, 1, 0], [1, 0, 0]]).round(2).tolist()
        [0.16, 0.18]
    """
    values, labels = np.asarray(scores, np.float64), np.asarray(relevant, np.float64)
    above = (values[:, None, :] > values[:, :, None]).sum(axis=2)  # candidates with a higher score
    tied = (values[:, None, :] == values[:, :, None]).sum(axis=2)  # candidates with the same score, itself included
    weight = PERSISTENCE**above * (1 - PERSISTENCE**tied) / tied  # the mean weight of the ranks of its tie
    return np.sum(labels * weight, axis=1)


METRICS.register("RBP", "rank-biased precision", "Moffat and Zobel (2008)")(Measure("RBP", rank_biased_precision))
