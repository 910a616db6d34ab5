"""The distributions that a hard target is mixed with, for pairs and for the candidates of a query.

The schedules of the strength are in `trainables.smoothing.schedules`. Penha and Hauff (2021), "Weakly Supervised Label
Smoothing", sections 2 and 3.
"""

import numpy as np

from trainables.utils.arrays import Floats


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
