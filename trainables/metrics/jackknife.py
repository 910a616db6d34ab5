"""What each pair contributes to a rank correlation: jackknife pseudo-values (Quenouille 1956, Tukey 1958).

Levels at .05 of t-tests on their differences between systems that are alike, with 200 or 1,500 pairs and 2, 3, 5 or 10
seeds that vary by a point of a hundred or not at all (400 studies each, `python -m benchmarks.correlation`): of the
two-way test for new pairs and new seeds .035 to .058; of the test over pairs, which asks about these checkpoints alone,
.050 to .077, but .115 to .255 with 1,500 pairs and seeds that vary; of the test over seeds .058 to .512, more with more
seeds: on these very pairs no two methods are quite alike.
"""

import numpy as np
from numpy.typing import ArrayLike

from trainables.metrics.correlation import spearman
from trainables.utils.arrays import Floats, Ints

_Codes = Ints


def spearman_pseudo_values(scores: ArrayLike, grades: ArrayLike) -> Floats:
    """n x (correlation of all) - (n - 1) x (correlation without the pair), exact with ties, in O(n log n).

    They are shifted by their bias, so that their mean is the correlation itself; a t-test on the differences of two
    systems' pseudo-values is one on the difference of their correlations. What remains without a pair counts as
    correlation 0 where all its scores, or all its grades, are equal.

    Args:
        scores: (n,)
        grades: (n,)

    Returns:
        (n,)

    Raises:
        ValueError: as `spearman` does.
    """
    value = spearman(scores, grades)
    x, y = np.ravel(np.asarray(scores, dtype=np.float64)), np.ravel(np.asarray(grades, dtype=np.float64))
    count = len(x)
    pseudo = count * value - (count - 1) * _leave_one_out_correlations(x, y)
    shifted: Floats = pseudo + (value - pseudo.mean())
    return shifted


def _leave_one_out_correlations(scores: Floats, grades: Floats) -> Floats:
    """(n,) the correlation of the others.

    Without pair k the rank of another pair i is less by c(x_i, x_k): 1 where its score is higher, .5 where they tie. So
    the sum of the products of ranks changes by sums of ranks of what lies above k, which are running sums, and by the
    sum over i of c(x_i, x_k) c(y_i, y_k). Spreads follow from the ties alone.
    """
    n = len(scores)
    (x, x_ties), (y, y_ties) = _encode_values(scores), _encode_values(grades)
    first, second = _ranks(x, x_ties), _ranks(y, y_ties)
    products = first @ second - _sum_above(y, first) - _sum_above(x, second) + _sum_both_above(x, x_ties, y)
    products -= (first - 0.5) * (second - 0.5)
    covered = products - (n - 1) * (n / 2) ** 2
    spread = np.sqrt(_leave_one_out_squares(x, x_ties) * _leave_one_out_squares(y, y_ties))
    found: Floats = np.divide(covered, spread, out=np.zeros(n), where=spread > 0)
    return found


def _encode_values(values: Floats) -> tuple[_Codes, _Codes]:
    """(n,) the place of each among the distinct values, and how many have each of these."""
    _, codes, ties = np.unique(values, return_inverse=True, return_counts=True)
    return codes, ties


def _ranks(codes: _Codes, ties: _Codes) -> Floats:
    """(n,) from 1 on, tied values sharing their mean."""
    ranks: Floats = (np.cumsum(ties) - (ties - 1) / 2)[codes]
    return ranks


def _leave_one_out_squares(codes: _Codes, ties: _Codes) -> Floats:
    """(n,) 12 x the sum of squares of the others' ranks about their mean, which is n / 2."""
    left, n = ties[codes].astype(np.float64), float(len(codes))
    sizes = ties.astype(np.float64)
    lost = (sizes**3 - sizes).sum() - 3 * left * (left - 1)
    squares: Floats = (n - 1) ** 3 - (n - 1) - lost
    return squares / 12


def _sum_above(codes: _Codes, weights: Floats) -> Floats:
    """(n,) the sum over i of weight_i c(i, k)."""
    own = np.bincount(codes, weights)
    above: Floats = (weights.sum() - np.cumsum(own) + own / 2)[codes]
    return above


def _sum_both_above(x: _Codes, x_ties: _Codes, y: _Codes) -> Floats:
    """(n,) the sum over i of c(x_i, x_k) c(y_i, y_k): each c is the mean of "above" and "not below"."""
    n, levels = len(x), y[np.argsort(x, kind="stable")]
    start = (np.cumsum(x_ties) - x_ties)[x]
    ends = np.concatenate([start, start, start + x_ties[x], start + x_ties[x]])
    bounds = np.concatenate([y, y + 1, y, y + 1])
    under = np.concatenate([[0], np.cumsum(np.bincount(y))])[bounds]
    found: Floats = (n - ends - under + _count_below(levels, ends, bounds)).reshape(4, n).sum(axis=0) / 4
    return found


def _count_below(levels: _Codes, ends: _Codes, bounds: _Codes) -> _Codes:
    """(queries,) how many of the first `ends` levels are below `bounds`: a wavelet matrix (Claude and Navarro 2012)."""
    count, left, right = np.zeros_like(ends), np.zeros_like(ends), ends
    for bit in reversed(range(int(bounds.max()).bit_length())):
        low = (levels >> bit & 1) == 0
        before = np.concatenate([[0], np.cumsum(low)])
        low_left, low_right = before[left], before[right]
        high = (bounds >> bit & 1) == 1
        count += np.where(high, low_right - low_left, 0)
        left = np.where(high, before[-1] + left - low_left, low_left)
        right = np.where(high, before[-1] + right - low_right, low_right)
        levels = np.concatenate([levels[low], levels[~low]])
    return count
