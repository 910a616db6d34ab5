"""Metrics of ranked lists, each tie counted at its expectation over all orders of the tied candidates.

A ranker that gives every candidate the same score has found nothing: its R10@1 is 1/10. Breaking ties in favour of the
relevant document would make it 1, so a tie is worth its mean over all orders. The closed forms are those of McSherry
and Najork (2008), "Computing information retrieval performance measures efficiently in the presence of tied scores".

Every function takes

    scores: (queries, candidates), higher is better; infinite scores are ordinary scores;
    relevant: (queries, candidates), 1 where the candidate is relevant and 0 elsewhere;

gives (queries,), and raises ValueError for shapes that differ or are not two-dimensional, a NaN score, a label other
than 0 and 1, or a query without a relevant document, whose value is undefined.
"""

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from trainables.utils.arrays import Floats, Ints

RERANKING_NOTE = (
    "The candidates of every query contain its relevant documents: these figures are of re-ranking such candidates, "
    "and cannot be compared with figures of retrieval from a whole collection."
)
"""Of every metric of ranked lists here."""


def recall_at(k: int, scores: ArrayLike, relevant: ArrayLike) -> Floats:
    """Share of the relevant documents that are ranked in the first k.

    With g candidates scored above a relevant document and t candidates of its score, itself included, it stands in the
    first k with probability (k - g) / t, clipped to [0, 1].

    Args:
        k: cut-off, at least 1.
        scores: as the module says.
        relevant: as the module says.

    Returns:
        (queries,) recall of each query, in [0, 1].

    Raises:
        ValueError: for k below 1, and as the module says.
    """
    _check_cutoff(k)
    lists = _rank_candidates(scores, relevant)
    found = np.clip((k - lists.above) / lists.tied, 0.0, 1.0)
    hits: Floats = np.sum(lists.labels * found, axis=1)
    recall: Floats = np.minimum(hits / lists.labels.sum(axis=1), 1.0)
    return recall


def average_precision(scores: ArrayLike, relevant: ArrayLike) -> Floats:
    """Mean, over the relevant documents, of the precision at their rank; its mean over queries is MAP.

    Among t tied candidates, r of them relevant, below R relevant ones, each place holds a relevant document with
    probability r / t, and the j-th place then has R + 1 + (j - 1) (r - 1) / (t - 1) up to it.

    Returns:
        (queries,) in (0, 1].
    """
    lists = _rank_candidates(scores, relevant)
    within, inside = lists.labels_in_tie, lists.ranks - lists.above - 1  # of the same score, before this place
    found = lists.labels_above + 1 + inside * (within - 1) / np.maximum(lists.tied - 1, 1)
    precision = within / lists.tied * found / lists.ranks
    average: Floats = precision.sum(axis=1) / lists.labels.sum(axis=1)
    return average


def reciprocal_rank(scores: ArrayLike, relevant: ArrayLike) -> Floats:
    """One over the rank of the first relevant document; its mean over queries is MRR.

    Only the best-scored tie that holds a relevant document counts. Of its t candidates r are relevant: the first of
    these stands at its j-th place with a probability that is r / t for j = 1, and from each place to the next changes
    by the factor (t - j - r + 1) / (t - j).

    Returns:
        (queries,) in (0, 1].
    """
    lists = _rank_candidates(scores, relevant)
    above, tied, within = (values[:, None] for values in lists.find_first_relevant_tie())
    place = np.arange(1, lists.labels.shape[1])
    factors = np.maximum(tied - place - within + 1, 0) / np.maximum(tied - place, 1)
    chances = np.cumprod(np.concatenate([within / tied, factors], axis=1), axis=1)
    expected: Floats = (chances / (above + lists.ranks)).sum(axis=1)
    return expected


def rank_of_first_relevant(scores: ArrayLike, relevant: ArrayLike) -> Floats:
    """Rank of the first relevant document, 1 being the best: less is better.

    The first of r relevant ones among t tied candidates stands at (t + 1) / (r + 1). The slides on WSLS with hard
    negatives report, of 10 candidates, 10 minus the mean of this.

    Returns:
        (queries,) from 1 to the number of candidates.
    """
    above, tied, within = _rank_candidates(scores, relevant).find_first_relevant_tie()
    expected: Floats = above + (tied + 1) / (within + 1)
    return expected


def ndcg_at(k: int, scores: ArrayLike, gains: ArrayLike) -> Floats:
    """Discounted cumulative gain of the first k, over that of the best order (Järvelin and Kekäläinen, 2002).

    The gain is linear and the discount log2(1 + rank), as in trec_eval. The best order is that of these candidates.

    Args:
        k: cut-off, at least 1; beyond the number of candidates it cuts nothing.
        scores: as the module says.
        gains: (queries, candidates) grades, 0 for not relevant; 0 and 1 where relevance has no grades, as in a study's
            scores.

    Returns:
        (queries,) in [0, 1].

    Raises:
        ValueError: for k below 1, a grade that is negative or not finite, and as the module says.
    """
    _check_cutoff(k)
    lists = _rank_candidates(scores, gains, graded=True)
    discounts = np.where(lists.ranks <= k, 1 / np.log2(1 + lists.ranks), 0.0)
    best = np.sort(lists.labels, axis=1)[:, ::-1]
    share: Floats = np.sum(lists.labels_in_tie / lists.tied * discounts, axis=1) / np.sum(best * discounts, axis=1)
    return np.minimum(share, 1.0)


def parse_recall_name(name: str) -> tuple[int, int]:
    """(n, k) of a metric's name: "R10@1" is (10, 1), recall at 1 among 10 candidates.

    Raises:
        ValueError: if the name is not R<n>@<k> with 1 <= k <= n.
    """
    match = re.fullmatch(r"R([1-9]\d*)@([1-9]\d*)", name)
    if match is None or int(match[2]) > int(match[1]):
        raise ValueError(f"{name!r} is not a metric; expected R<n>@<k> with k at most n, such as R10@1")
    return int(match[1]), int(match[2])


class _RankedLists(NamedTuple):
    """Lists in descending order of score, (queries, candidates) each; the order within a tie is of no account."""

    labels: Floats
    above: Ints  # candidates that score higher
    tied: Ints  # candidates of the same score, itself included

    @property
    def ranks(self) -> Ints:
        """(candidates,) from 1."""
        return np.arange(1, self.labels.shape[1] + 1)

    @property
    def labels_in_tie(self) -> Floats:
        """(queries, candidates) sum of the labels in each candidate's tie."""
        ties: Floats = np.take_along_axis(self._cumulative_labels, self.above + self.tied, 1) - self.labels_above
        return ties

    @property
    def labels_above(self) -> Floats:
        """(queries, candidates) sum of the labels above each candidate's tie."""
        return np.take_along_axis(self._cumulative_labels, self.above, 1)

    @property
    def _cumulative_labels(self) -> Floats:
        """(queries, candidates + 1) of the labels so far, beginning with 0."""
        return np.concatenate([np.zeros((len(self.labels), 1)), np.cumsum(self.labels, axis=1)], axis=1)

    def find_first_relevant_tie(self) -> tuple[Ints, Ints, Floats]:
        """(queries,) each, of the best-scored tie with a relevant candidate: above, tied and relevant in it."""
        within = self.labels_in_tie
        place = np.argmax(within > 0, axis=1)[:, None]
        above, tied = (np.take_along_axis(counts, place, 1)[:, 0] for counts in (self.above, self.tied))
        return above, tied, np.take_along_axis(within, place, 1)[:, 0]


def _check_cutoff(k: int) -> None:
    if k < 1:
        raise ValueError(f"k must be at least 1 but is {k}")


def _rank_candidates(scores: ArrayLike, relevant: ArrayLike, graded: bool = False) -> _RankedLists:
    values, labels = np.asarray(scores, dtype=np.float64), np.asarray(relevant, dtype=np.float64)
    if values.ndim != 2 or values.shape != labels.shape:
        raise ValueError(
            f"scores and relevant must both be (queries, candidates) but are {values.shape}, {labels.shape}"
        )
    if np.isnan(values).any():
        raise ValueError(f"{np.isnan(values).any(axis=1).sum()} queries have a NaN score")
    if graded and not (np.isfinite(labels) & (labels >= 0)).all():
        raise ValueError("gains must be finite and at least 0")
    if not graded and not np.isin(labels, (0.0, 1.0)).all():
        raise ValueError("relevant must hold only 0 and 1")
    if (labels.sum(axis=1) == 0).any():
        raise ValueError(f"{(labels.sum(axis=1) == 0).sum()} queries have no relevant document")
    order = np.argsort(-values, axis=1, kind="stable")
    above, tied = _count_ties(np.take_along_axis(values, order, axis=1))
    return _RankedLists(np.take_along_axis(labels, order, axis=1), above, tied)


def _count_ties(ranked: Floats) -> tuple[Ints, Ints]:
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
