"""Wrong labels in training, drawn on purpose: robustness to them is what label smoothing is expected to give.

Whether smoothing helps with wrong labels is studied by Lukasik et al. (2020), "Does label smoothing mitigate label
noise?". Only the labels that the loss sees change. The sampled documents, the dev and test splits and the prepared data
do not.
"""

from typing import TYPE_CHECKING

import numpy as np

from trainables.data.negatives.selection import MAX_LABEL, MIN_LABEL
from trainables.data.query_groups import QueryGroups
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
        relevant: true labels of shape (candidates,), 0 or 1, of one query after the other, each with its relevant
            documents first.
        share: probability of a wrong label, in [0, 1).
        kind: "hidden" if relevant documents may count as not relevant; "flipped" if every label may be exchanged
            (symmetric noise, Natarajan et al. 2013, "Learning with noisy labels").
        seed: seed of the run.

    Returns:
        Labels of the same shape and type.

    Example:
        >>> relevant = np.array([1, 0, 0] * 4)
        >>> draw_noisy_labels(relevant, 0.5, "hidden", seed=1).tolist()
        [0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0]
    """
    wrong = _draw_by_place(seed, "label noise", QueryGroups.from_relevant(relevant)) < share
    if kind == "hidden":
        wrong &= relevant == 1
    return np.where(wrong, 1 - relevant, relevant)


def _draw_by_place(seed: int, purpose: str, rows: QueryGroups) -> Floats:
    """Return uniform draws of shape (rows,), which depend on the number of the query and the place of the row."""
    draws = np.empty(len(rows.queries))
    for place in range(int(rows.sizes.max())):
        chosen = rows.starts[:-1][rows.sizes > place] + place
        draws[chosen] = make_generator(seed, purpose, place).random(len(rows))[rows.sizes > place]
    return draws


def compute_hidden_weak_labels(candidates: "pd.DataFrame", settings: SamplerSettings) -> Floats:
    """Return the weak labels that relevant documents have where noise makes them negatives.

    They are what the negative sampler would give: the normalised score of the document, with the minimum and maximum of
    the negatives of its query. A score outside that range counts as the nearest one inside it. With `weak_label` =
    "uniform" they are drawn. The weak labels of the negatives stay as they are.

    Args:
        candidates: candidates of a split with the columns relevant, score, weak_label and bm25, see
            `RankingDataset.read_candidates`.
        settings: settings of the negative sampler of the split.

    Returns:
        Weak labels of shape (candidates,). NaN if the document is not relevant or its score is unknown.
    """
    relevant = candidates["relevant"].to_numpy()
    rows = QueryGroups.from_relevant(relevant)
    if settings.weak_label == "uniform":
        labels = MAX_LABEL * _draw_by_place(0, "weak labels of hidden documents", rows)
    else:
        scores, weak_labels = (candidates[name].to_numpy(dtype=float) for name in (settings.weak_label, "weak_label"))
        found = weak_labels > 0  # a negative that was drawn at random has 0
        labels = _normalise_among(scores, found, rows, settings)
    return np.where(relevant == 1, labels, np.nan)


def _normalise_among(scores: Floats, found: Bools, rows: QueryGroups, settings: SamplerSettings) -> Floats:
    """Return the scores normalised as those of the negatives that the sampler found, and cut off at their range."""
    if settings.protocol.normalisation == "global-max":
        largest = float(scores[found].max(initial=0.0))
        return np.asarray(np.clip(scores, 0.0, largest) / (largest + 1))
    low = np.minimum.reduceat(np.where(found, scores, np.inf), rows.starts[:-1])[rows.queries]
    high = np.maximum.reduceat(np.where(found, scores, -np.inf), rows.starts[:-1])[rows.queries]
    share = np.divide(np.clip(scores, low, high) - low, high - low, out=np.zeros_like(scores), where=high > low)
    return np.where(np.isnan(scores), np.nan, MIN_LABEL + (MAX_LABEL - MIN_LABEL) * share)
