"""The distributions that a hard target is mixed with, for pairs and for the candidates of a query.

The schedules of the strength are in `trainables.smoothing.schedules`. Penha and Hauff (2021), "Weakly Supervised Label
Smoothing", sections 2 and 3.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from trainables.smoothing import DISTRIBUTIONS
from trainables.utils.arrays import Floats
from trainables.utils.registry import load_object


def smooth_uniformly(labels: Floats, weak_labels: Floats) -> Floats:
    """Return 1/2 for every label, (n,)."""
    return np.full_like(labels, 0.5)


def smooth_by_weak_labels(labels: Floats, weak_labels: Floats) -> Floats:
    """Return 1/2 for a relevant document and the weak label for any other, (n,).

    Args:
        labels: (n,) 1 for relevant and 0 for not relevant.
        weak_labels: (n,) normalised sampler scores in [0, 1], NaN for relevant documents.

    Raises:
        ValueError: if a document that is not relevant has no weak label, or one outside [0, 1].
    """
    missing = np.isnan(weak_labels) & (labels == 0)
    if missing.any():
        raise ValueError(
            f"weak supervision needs a weak label for every non-relevant document; {missing.sum()} have none"
        )
    outside = weak_labels[(labels == 0) & ((weak_labels < 0) | (weak_labels > 1))]
    if len(outside):
        raise ValueError(f"weak labels must be in [0, 1] but got {outside[0]}")
    return np.where(labels == 1, 0.5, np.nan_to_num(weak_labels))


def score_equally(scores: Floats) -> Floats:
    """Return 0 for every candidate, in the shape of `scores`: all rankings are equally good."""
    return np.zeros_like(scores)


def keep_scores(scores: Floats) -> Floats:
    """Return the sampler's scores, (queries, candidates).

    Raises:
        ValueError: if a candidate has no score.
    """
    missing = np.isnan(scores)
    if missing.any():
        raise ValueError(f"weak supervision needs a sampler score for every candidate; {missing.sum()} have none")
    return scores


def target_distribution(
    labels: npt.ArrayLike, weak_labels: npt.ArrayLike | None, epsilon: float, distribution: str
) -> Floats:
    """Return the distribution over (not relevant, relevant) that is the target of the cross-entropy.

    q'(k | x) = (1 - epsilon) delta(k, y) + epsilon u(k | x), Penha and Hauff (2021), sections 2 and 3. With weak
    supervision, u is (1 - s, s) for a non-relevant document and uniform for a relevant one.

    Args:
        labels: labels of shape (n,), 1 for relevant and 0 for not relevant.
        weak_labels: normalised sampler scores s in [0, 1] of shape (n,), NaN for relevant documents. None if the
            distribution does not need them.
        epsilon: strength of the smoothing, in [0, 1].
        distribution: name in `trainables.smoothing.DISTRIBUTIONS`.

    Returns:
        Array of shape (n, 2) with the columns (not relevant, relevant). Each row sums to 1.

    Raises:
        KeyError: if there is no such distribution; the message lists the names.
        ValueError: if epsilon is outside [0, 1], if a label is neither 0 nor 1, or if a weak label that is needed is
            missing or outside [0, 1].

    Example:
        >>> target_distribution([1, 0], None, epsilon=0.2, distribution="uniform")
        array([[0.1, 0.9],
               [0.9, 0.1]])
        >>> target_distribution([0, 0], [0.75, 0.0], epsilon=0.2, distribution="weak_supervision")
        array([[0.85, 0.15],
               [1.  , 0.  ]])
    """
    if not 0 <= epsilon <= 1:
        raise ValueError(f"epsilon must be in [0, 1] but got {epsilon}")
    hard = np.asarray(labels, dtype=np.float64)
    if len(wrong := hard[~np.isin(hard, (0, 1))]):
        raise ValueError(f"labels must be 0 or 1 but got {wrong[0]}")
    weak = np.full_like(hard, np.nan) if weak_labels is None else np.asarray(weak_labels, dtype=np.float64)
    reference = DISTRIBUTIONS[distribution].relevance
    if epsilon == 0 or reference is None:
        return np.stack([1 - hard, hard], axis=1)
    relevance: Callable[[Floats, Floats], Floats] = load_object(reference)
    relevant = (1 - epsilon) * hard + epsilon * relevance(hard, weak)
    return np.stack([1 - relevant, relevant], axis=1)
