"""Metrics of probabilities: calibration and probabilistic scores.

A model is calibrated if a share p of the candidates with predicted probability p is relevant. A score is
logit(relevant) - logit(not relevant), and the probability is its sigmoid. Scores of a model are such logits; scores of
BM25 are not. Every function takes scores and relevance, 0 or 1, of the same shape. It raises ValueError if there are no
scores, a score is NaN, the shapes differ, or a label is neither 0 nor 1.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from trainables.utils.arrays import Floats, Ints

N_BINS = 15
"""Number of bins of equal width, as in Guo et al. (2017), "On calibration of modern neural networks"."""


class ReliabilityCurve(NamedTuple):
    """Data of a reliability diagram, (bins,) each; an empty bin has NaN, NaN and 0."""

    probability: Floats  # mean predicted probability in the bin
    relevant: Floats  # share of relevant candidates in the bin
    candidates: Ints  # number of candidates in the bin


def brier_score(scores: ArrayLike, relevant: ArrayLike) -> Floats:
    """Compute the mean squared difference of probability and relevance (Brier, 1950). Lower is better.

    For inputs (..., n) it returns (...): one number for a list, one per query for (queries, candidates).

    Example:
        >>> brier_score([[0.0, 0.0], [9.0, -9.0]], [[1, 0], [1, 0]]).round(3).tolist()
        [0.25, 0.0]
    """
    values, labels = _validate_inputs(scores, relevant)
    score: Floats = np.mean((_sigmoid(values) - labels) ** 2, axis=-1)
    return score


def negative_log_likelihood(scores: ArrayLike, relevant: ArrayLike) -> Floats:
    """Compute the mean negative log-probability of the true labels, in nats. Lower is better.

    It is infinite if an infinite score is wrong. The shapes are those of `brier_score`.

    Example:
        >>> negative_log_likelihood([[0.0, 0.0], [9.0, -9.0]], [[1, 0], [1, 0]]).round(3).tolist()
        [0.693, 0.0]
    """
    values, labels = _validate_inputs(scores, relevant)
    loss: Floats = np.mean(np.logaddexp(0.0, np.where(labels == 1, -values, values)), axis=-1)
    return loss


def expected_calibration_error(scores: ArrayLike, relevant: ArrayLike, bins: int = N_BINS) -> float:
    """Compute the expected calibration error (ECE). Lower is better.

    It is the absolute difference of mean probability and share of relevant candidates, averaged over bins of
    probability, each weighted by its number of candidates. Naeini, Cooper and Hauskrecht (2015), "Obtaining well
    calibrated probabilities using Bayesian binning".

    Example:
        >>> expected_calibration_error([0.0, 0.0, 0.0, 0.0], [1, 0, 0, 0])
        0.25
    """
    values, labels = _validate_inputs(scores, relevant)
    probabilities, indices = _assign_bins(values.ravel(), bins)
    gaps = np.bincount(indices, weights=probabilities - labels.ravel(), minlength=bins)
    return float(np.abs(gaps).sum() / values.size)


def reliability_curve(scores: ArrayLike, relevant: ArrayLike, bins: int = N_BINS) -> ReliabilityCurve:
    """Compute the data of a reliability diagram, with the bins of the expected calibration error.

    That error is the mean of |probability - relevant|, each bin weighted by its number of candidates.

    The bins have equal width over [0, 1]. Each contains its lower edge, the last one both edges.

    Example:
        >>> curve = reliability_curve([-2.0, -2.0, 2.0, 2.0], [0, 0, 1, 0], bins=2)
        >>> curve.probability.round(2).tolist(), curve.relevant.tolist(), curve.candidates.tolist()
        ([0.12, 0.88], [0.0, 0.5], [2, 2])
    """
    values, labels = _validate_inputs(scores, relevant)
    probabilities, indices = _assign_bins(values.ravel(), bins)
    count = np.bincount(indices, minlength=bins)
    sums = (np.bincount(indices, weights=weights, minlength=bins) for weights in (probabilities, labels.ravel()))
    probability, share = (np.where(count > 0, total / np.maximum(count, 1), np.nan) for total in sums)
    return ReliabilityCurve(probability, share, count)


def _validate_inputs(scores: ArrayLike, relevant: ArrayLike) -> tuple[Floats, Floats]:
    values, labels = np.asarray(scores, dtype=np.float64), np.asarray(relevant, dtype=np.float64)
    if not values.size or values.shape != labels.shape or np.isnan(values).any():
        raise ValueError(f"expected as many scores as labels and no NaN, but got {values.shape} and {labels.shape}")
    if not np.isin(labels, (0.0, 1.0)).all():
        raise ValueError("relevant must contain only 0 and 1")
    return values, labels


def _sigmoid(values: Floats) -> Floats:
    """Compute the sigmoid without overflow."""
    probabilities: Floats = 0.5 * (1 + np.tanh(values / 2))
    return probabilities


def _assign_bins(values: Floats, bins: int) -> tuple[Floats, Ints]:
    """Return (n,) probabilities and (n,) indices of their bins."""
    probabilities = _sigmoid(values)
    return probabilities, np.minimum((probabilities * bins).astype(int), bins - 1)
