"""Jackknife pseudo-values of a rank correlation (Quenouille 1956, Tukey 1958).

A pseudo-value is the contribution of one pair to the correlation, so t-tests can use the differences of two systems.

Measured type-I error at .05 for equal systems (600 studies each, `python -m benchmarks.correlation`). The studies have
200 or 1,500 pairs and 2, 3, 5 or 10 seeds. The seeds vary by 1 of 100 points or not at all.

- two-way test, for new pairs and new seeds: .033 to .060;
- test over pairs, for these checkpoints only: .047 to .073, but .118 to .250 with 1,500 pairs and seeds that vary;
- test over seeds: .057 to .525, and higher with more seeds, because no two methods are exactly equal on these pairs.
"""

import numpy as np
from numpy.typing import ArrayLike

from trainables.metrics.correlation import rank, spearman
from trainables.utils.arrays import Floats, Ints


def spearman_pseudo_values(scores: ArrayLike, grades: ArrayLike) -> Floats:
    """Compute the jackknife pseudo-value of each pair, exact with ties, in O(n x distinct grades).

    The pseudo-value of a pair is n x (correlation of all pairs) - (n - 1) x (correlation without this pair). The values
    are shifted by their bias, so that their mean is the correlation itself. A t-test on the differences of the
    pseudo-values of two systems is therefore a test of the difference of their correlations. A correlation without one
    pair counts as 0 if the remaining scores, or the remaining grades, are all equal.

    All arrays are (n,). It raises what `spearman` raises.

    Example:
        >>> scores, grades = [0.1, 0.4, 0.9, 0.3], [1.0, 3.0, 2.0, 1.5]
        >>> values = spearman_pseudo_values(scores, grades)
        >>> len(values), round(float(values.mean()), 6) == round(spearman(scores, grades), 6)
        (4, True)
    """
    value = spearman(scores, grades)
    x, y = np.ravel(np.asarray(scores, dtype=np.float64)), np.ravel(np.asarray(grades, dtype=np.float64))
    count = len(x)
    pseudo = count * value - (count - 1) * _leave_one_out_correlations(x, y)
    shifted: Floats = pseudo + (value - pseudo.mean())
    return shifted


def _leave_one_out_correlations(scores: Floats, grades: Floats) -> Floats:
    """Return (n,) correlations, each without one pair.

    Without pair k, the rank of another pair i decreases by c(x_i, x_k): 1 if its score is higher, .5 if they tie. The
    sum of the products of ranks therefore changes by two terms. One is a sum of ranks above k, which is a running sum.
    The other is the sum over i of c(x_i, x_k) c(y_i, y_k). The standard deviations depend only on the ties.
    """
    n = len(scores)
    # Indices into the sorted distinct values, and the number of times that each occurs.
    _, x, x_ties = np.unique(scores, return_inverse=True, return_counts=True)
    _, y, y_ties = np.unique(grades, return_inverse=True, return_counts=True)
    first, second = rank(scores), rank(grades)
    products = first @ second - _sum_above(y, first) - _sum_above(x, second) + _sum_both_above(x, y)
    products -= (first - 0.5) * (second - 0.5)
    covariance = products - (n - 1) * (n / 2) ** 2
    scale = np.sqrt(_leave_one_out_squares(x, x_ties) * _leave_one_out_squares(y, y_ties))
    correlations: Floats = np.divide(covariance, scale, out=np.zeros(n), where=scale > 0)
    return correlations


def _leave_one_out_squares(codes: Ints, ties: Ints) -> Floats:
    """Return (n,) sums of squared deviations of the other ranks from their mean n / 2."""
    own_ties, n = ties[codes].astype(np.float64), float(len(codes))
    sizes = ties.astype(np.float64)
    lost = (sizes**3 - sizes).sum() - 3 * own_ties * (own_ties - 1)
    squares: Floats = (n - 1) ** 3 - (n - 1) - lost
    return squares / 12


def _sum_above(codes: Ints, weights: Floats) -> Floats:
    """Return (n,) sums over i of weight_i c(i, k)."""
    by_code = np.bincount(codes, weights)
    above: Floats = (weights.sum() - np.cumsum(by_code) + by_code / 2)[codes]
    return above


def _sum_both_above(x: Ints, y: Ints) -> Floats:
    """Return (n,) sums over i of c(x_i, x_k) c(y_i, y_k), one distinct y_k after another.

    All terms are quarters, so the sums are exact.
    """
    sums = np.empty(len(x))
    for level in range(y.max() + 1):
        own = y == level
        sums[own] = _sum_above(x, (y > level) + own / 2)[own]
    return sums
