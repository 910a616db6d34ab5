"""Metrics of candidate lists: R_n@k, ties counted at their expectation, and calibration.

A ranker that gives every candidate the same score has found nothing: its R10@1 is 1/10. Breaking ties in favour of the
relevant document would make it 1, so a tie is worth its mean over all orders of the tied candidates.
"""

import re

import numpy as np
from numpy.typing import ArrayLike, NDArray

MINIMISED = ("ECE",)
"""Metrics of which less is better."""


def recall_at(k: int, scores: ArrayLike, relevant: ArrayLike) -> NDArray[np.float64]:
    """Share of the relevant documents that are ranked in the first k, in expectation over a random order of ties.

    With g candidates scored above a relevant document and t candidates of its score, itself included, it stands in the
    first k with probability (k - g) / t, clipped to [0, 1].

    Args:
        k: cut-off, at least 1.
        scores: (queries, candidates), higher is better; infinite scores are ordinary scores.
        relevant: (queries, candidates), 1 where the candidate is relevant and 0 elsewhere.

    Returns:
        (queries,) recall of each query, in [0, 1].

    Raises:
        ValueError: for k below 1, shapes that differ or are not two-dimensional, a NaN score, a label other than 0 and
            1, or a query without a relevant document, whose recall is undefined.
    """
    values, labels = np.asarray(scores, dtype=np.float64), np.asarray(relevant, dtype=np.float64)
    if k < 1:
        raise ValueError(f"k must be at least 1 but is {k}")
    if values.ndim != 2 or values.shape != labels.shape:
        raise ValueError(
            f"scores and relevant must both be (queries, candidates) but are {values.shape}, {labels.shape}"
        )
    if np.isnan(values).any():
        raise ValueError(f"{np.isnan(values).any(axis=1).sum()} queries have a NaN score")
    if not np.isin(labels, (0.0, 1.0)).all():
        raise ValueError("relevant must hold only 0 and 1")
    if (labels.sum(axis=1) == 0).any():
        raise ValueError(f"{(labels.sum(axis=1) == 0).sum()} queries have no relevant document")
    order = np.argsort(-values, axis=1, kind="stable")
    ranked = np.take_along_axis(values, order, axis=1)
    above, tied = _ties(ranked)
    found = np.clip((k - above) / tied, 0.0, 1.0)
    hits: NDArray[np.float64] = np.sum(np.take_along_axis(labels, order, axis=1) * found, axis=1)
    recall: NDArray[np.float64] = np.minimum(hits / labels.sum(axis=1), 1.0)
    return recall


def metric(name: str) -> tuple[int, int]:
    """(n, k) of a metric's name: "R10@1" is (10, 1), recall at 1 among 10 candidates.

    Raises:
        ValueError: if the name is not R<n>@<k> with 1 <= k <= n.
    """
    match = re.fullmatch(r"R([1-9]\d*)@([1-9]\d*)", name)
    if match is None or int(match[2]) > int(match[1]):
        raise ValueError(f"{name!r} is not a metric; expected R<n>@<k> with k at most n, such as R10@1")
    return int(match[1]), int(match[2])


def _ties(ranked: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(queries, candidates) how many score higher, and how many the same, given scores in descending order."""
    candidates = ranked.shape[1]
    position = np.arange(candidates)
    first = np.ones(ranked.shape, dtype=bool)
    first[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
    last = np.ones(ranked.shape, dtype=bool)
    last[:, :-1] = first[:, 1:]
    start = np.maximum.accumulate(np.where(first, position, 0), axis=1)
    end = np.minimum.accumulate(np.where(last, position, candidates)[:, ::-1], axis=1)[:, ::-1]
    return start, end - start + 1


def expected_calibration_error(scores: ArrayLike, relevant: ArrayLike, bins: int = 15) -> float:
    """How far the probability of relevance is from the share that is relevant, averaged over bins of probability.

    Naeini, Cooper and Hauskrecht (2015), "Obtaining well calibrated probabilities using Bayesian binning"; 15 bins of
    equal width as in Guo et al. (2017). Less is better.

    Args:
        scores: (n,) logit(relevant) - logit(not relevant); the probability is its sigmoid.
        relevant: (n,) 0 or 1.
        bins: of equal width over [0, 1].

    Returns:
        In [0, 1].

    Raises:
        ValueError: for no scores, a NaN among them, or shapes that differ.
    """
    values, labels = np.asarray(scores, dtype=np.float64).ravel(), np.asarray(relevant, dtype=np.float64).ravel()
    if not len(values) or values.shape != labels.shape or np.isnan(values).any():
        raise ValueError(f"expected as many scores as labels and no NaN, but got {values.shape} and {labels.shape}")
    probabilities = 0.5 * (1 + np.tanh(values / 2))  # the sigmoid, without overflow
    places = np.minimum((probabilities * bins).astype(int), bins - 1)
    gaps = np.bincount(places, weights=probabilities - labels, minlength=bins)
    return float(np.abs(gaps).sum() / len(values))
