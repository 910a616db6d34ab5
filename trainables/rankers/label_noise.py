"""Wrong labels in training, drawn on purpose: robustness to them is what label smoothing is expected to give.

Whether smoothing helps with wrong labels is studied by Lukasik et al. (2020), "Does label smoothing mitigate label
noise?". Only the labels that the loss sees change. The sampled documents, the dev and test splits and the prepared data
do not.
"""

from typing import TYPE_CHECKING

import numpy as np

from trainables.data.negatives.selection import MAX_LABEL, MIN_LABEL
from trainables.specs.ranking_task import LabelNoiseKind, SamplerSettings
from trainables.utils.arrays import Bools, Floats, Ints
from trainables.utils.random import make_generator

if TYPE_CHECKING:
    import pandas as pd


def draw_noisy_labels(relevant: Ints, share: float, kind: LabelNoiseKind, seed: int) -> Ints:
    """Return the labels with noise.

    Each pair has one uniform draw, and its label may be wrong if the draw is below `share`. A larger share therefore
    contains the wrong labels of a smaller one, and "flipped" those of "hidden". A draw depends on the seed, the number
    of the query and the place of the document among the candidates of the query. It stays the same if there are more
    queries or more candidates.

    Args:
        relevant: true labels of shape (queries, candidates), 0 or 1.
        share: probability of a wrong label, in [0, 1).
        kind: "hidden" if relevant documents may count as not relevant; "flipped" if every label may be exchanged
            (symmetric noise, Natarajan et al. 2013, "Learning with noisy labels").
        seed: seed of the run.

    Returns:
        Labels of the same shape and type.

    Example:
        >>> relevant = np.array([[1, 0, 0]] * 4)
        >>> draw_noisy_labels(relevant, 0.5, "hidden", seed=1).tolist()
        [[0, 0, 0], [0, 0, 0], [1, 0, 0], [1, 0, 0]]
    """
    queries, candidates = relevant.shape
    draws = [make_generator(seed, "label noise", place).random(queries) for place in range(candidates)]
    wrong = np.stack(draws, axis=1) < share
    if kind == "hidden":
        wrong &= relevant == 1
    return np.where(wrong, 1 - relevant, relevant)


def compute_hidden_weak_labels(candidates: "pd.DataFrame", n_candidates: int, settings: SamplerSettings) -> Floats:
    """Return the weak labels that relevant documents have where noise makes them negatives.

    They are what the negative sampler would give: the normalised score of the document, with the minimum and maximum of
    the negatives of its query. A score outside that range counts as the nearest one inside it. With `weak_label` =
    "uniform" they are drawn. The weak labels of the negatives stay as they are.

    Args:
        candidates: candidates of a split with the columns relevant, score, weak_label and bm25, see
            `RankingDataset.read_candidates`.
        n_candidates: candidates per query.
        settings: settings of the negative sampler of the split.

    Returns:
        Weak labels of shape (queries, candidates). NaN if the document is not relevant or its score is unknown.
    """
    shape = -1, n_candidates
    relevant = candidates["relevant"].to_numpy().reshape(shape) == 1
    if settings.weak_label == "uniform":
        draws = [make_generator(0, "weak labels of hidden documents", place) for place in range(n_candidates)]
        labels = MAX_LABEL * np.stack([draw.random(len(relevant)) for draw in draws], axis=1)
    else:
        scores = candidates[settings.weak_label].to_numpy(dtype=float).reshape(shape)
        weak_labels = candidates["weak_label"].to_numpy(dtype=float).reshape(shape)
        labels = _normalise_among(scores, weak_labels > 0, settings)  # a negative that was drawn at random has 0
    return np.where(relevant, labels, np.nan)


def _normalise_among(scores: Floats, found: Bools, settings: SamplerSettings) -> Floats:
    """Return the scores normalised as those of the negatives that the sampler found, and cut off at their range."""
    if settings.normalisation == "global-max":
        largest = float(scores[found].max(initial=0.0))
        return np.asarray(np.clip(scores, 0.0, largest) / (largest + 1))
    low = np.where(found, scores, np.inf).min(axis=1, keepdims=True)
    high = np.where(found, scores, -np.inf).max(axis=1, keepdims=True)
    has_range = np.broadcast_to(high > low, scores.shape)
    share = np.divide(np.clip(scores, low, high) - low, high - low, out=np.zeros_like(scores), where=has_range)
    return np.where(np.isnan(scores), np.nan, MIN_LABEL + (MAX_LABEL - MIN_LABEL) * share)
