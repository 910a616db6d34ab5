"""Metrics of probabilities: whether what is said to be relevant with probability p is so in a share p of the cases.

A score is logit(relevant) - logit(not relevant), and the probability its sigmoid. Only a model's scores are that; those
of BM25 are not.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from trainables.utils.arrays import Floats, Ints

N_BINS = 15
"""Of equal width, as in Guo et al. (2017), "On calibration of modern neural networks"."""


class ReliabilityCurve(NamedTuple):
    """A reliability diagram's data, (bins,) each: NaN, NaN and 0 where a bin is empty."""

    probability: Floats  # mean over the bin
    relevant: Floats  # share of the bin
    candidates: Ints


def brier_score(scores: ArrayLike, relevant: ArrayLike) -> Floats:
    """Mean squared distance of the probability from what is so (Brier, 1950). Less is better.

    Args:
        scores: (..., n).
        relevant: (..., n) 0 or 1.

    Returns:
        (...), in [0, 1]: of one list (n,) a number, of (queries, candidates) one for each query.

    Raises:
        ValueError: for no scores, a NaN among them, shapes that differ, or a label other than 0 and 1.
    """
    values, labels = _validate_inputs(scores, relevant)
    score: Floats = np.mean((_sigmoid(values) - labels) ** 2, axis=-1)
    return score


def negative_log_likelihood(scores: ArrayLike, relevant: ArrayLike) -> Floats:
    """Mean of -log of the probability given to what is so, in nats. Less is better.

    It is infinite where an infinite score is wrong.

    Args:
        scores: (..., n).
        relevant: (..., n) 0 or 1.

    Returns:
        (...), at least 0: of one list (n,) a number, of (queries, candidates) one for each query.

    Raises:
        ValueError: as for brier_score.
    """
    values, labels = _validate_inputs(scores, relevant)
    loss: Floats = np.mean(np.logaddexp(0.0, np.where(labels == 1, -values, values)), axis=-1)
    return loss


def expected_calibration_error(scores: ArrayLike, relevant: ArrayLike, bins: int = N_BINS) -> float:
    """How far the probability of relevance is from the share that is relevant, averaged over bins of probability.

    Naeini, Cooper and Hauskrecht (2015), "Obtaining well calibrated probabilities using Bayesian binning". Less is
    better.

    Args:
        scores: (n,) logit(relevant) - logit(not relevant); the probability is its sigmoid.
        relevant: (n,) 0 or 1.
        bins: of equal width over [0, 1].

    Returns:
        In [0, 1].

    Raises:
        ValueError: as for brier_score.
    """
    values, labels = _validate_inputs(scores, relevant)
    probabilities, places = _assign_bins(values.ravel(), bins)
    gaps = np.bincount(places, weights=probabilities - labels.ravel(), minlength=bins)
    return float(np.abs(gaps).sum() / values.size)


def reliability_curve(scores: ArrayLike, relevant: ArrayLike, bins: int = N_BINS) -> ReliabilityCurve:
    """What a reliability diagram shows, over the bins of the expected calibration error.

    That error is the mean of |probability - relevant|, each bin counting as often as it has candidates.

    Args:
        scores: (n,).
        relevant: (n,) 0 or 1.
        bins: of equal width over [0, 1]; each holds its lower edge, the last both.

    Raises:
        ValueError: as for brier_score.
    """
    values, labels = _validate_inputs(scores, relevant)
    probabilities, places = _assign_bins(values.ravel(), bins)
    count = np.bincount(places, minlength=bins)
    sums = (np.bincount(places, weights=one, minlength=bins) for one in (probabilities, labels.ravel()))
    probability, share = (np.where(count > 0, total / np.maximum(count, 1), np.nan) for total in sums)
    return ReliabilityCurve(probability, share, count)


def _validate_inputs(scores: ArrayLike, relevant: ArrayLike) -> tuple[Floats, Floats]:
    values, labels = np.asarray(scores, dtype=np.float64), np.asarray(relevant, dtype=np.float64)
    if not values.size or values.shape != labels.shape or np.isnan(values).any():
        raise ValueError(f"expected as many scores as labels and no NaN, but got {values.shape} and {labels.shape}")
    if not np.isin(labels, (0.0, 1.0)).all():
        raise ValueError("relevant must hold only 0 and 1")
    return values, labels


def _sigmoid(values: Floats) -> Floats:
    """Without overflow."""
    probabilities: Floats = 0.5 * (1 + np.tanh(values / 2))
    return probabilities


def _assign_bins(values: Floats, bins: int) -> tuple[Floats, Ints]:
    """(n,) probabilities, and the bin of each."""
    probabilities = _sigmoid(values)
    return probabilities, np.minimum((probabilities * bins).astype(int), bins - 1)
