"""Metrics of ranked lists; a tie counts as its mean over all orders of the tied candidates.

A ranker that gives all candidates the same score has found nothing: its R10@1 is 1/10. Breaking ties in favour of the
relevant document would make it 1. The closed forms are those of McSherry and Najork (2008), "Computing information
retrieval performance measures efficiently in the presence of tied scores".

A document with the score -inf was not retrieved: it has no rank and is in no numerator, but counts where all relevant
documents count, as in trec_eval. These are the denominators of recall and average precision and the ideal of nDCG.

Every function takes

    scores: (queries, candidates), higher is better; -inf if not retrieved; +inf is an ordinary score;
    relevant: (queries, candidates), 1 if the candidate is relevant and 0 otherwise;

and some a cut-off k, and returns (queries,), in [0, 1] unless it is a rank. It raises ValueError if k is below 1, the
shapes differ or are not two-dimensional, a score is NaN, or a label is neither 0 nor 1. It also raises ValueError if a
query has no relevant document, retrieved or not, since its value is undefined; only `judged_at` needs none.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from trainables.utils.arrays import Floats, Ints


def recall_at(k: int, scores: ArrayLike, relevant: ArrayLike) -> Floats:
    """Compute the share of the relevant documents that are among the first k.

    Relevant documents that were not retrieved are in the denominator alone.

    Suppose that g candidates have a higher score than a relevant document, and t candidates, including itself, the same
    score. It is among the first k with probability (k - g) / t, clipped to [0, 1].

    Example:
        >>> recall_at(1, [[3.0, 2.0, 1.0], [1.0, 2.0, 2.0]], [[1, 0, 0], [0, 0, 1]]).tolist()
        [1.0, 0.5]
    """
    _check_cutoff(k)
    lists = _rank_candidates(scores, relevant)
    recall: Floats = np.minimum(lists.expect_hits(k) / lists.total, 1.0)
    return recall


def precision_at(k: int, scores: ArrayLike, relevant: ArrayLike) -> Floats:
    """Compute the number of relevant documents among the first k, divided by k, as trec_eval does.

    Documents that were not retrieved are not among the first k, and k is the divisor even if fewer were retrieved.

    Example:
        >>> precision_at(2, [[3.0, 2.0, 1.0], [3.0, 1.0, 1.0], [3.0, -np.inf, -np.inf]], [[1, 0, 0]] * 3).tolist()
        [0.5, 0.5, 0.5]
        >>> precision_at(4, [[2.0, 2.0, -np.inf]], [[1, 1, 1]]).tolist()
        [0.5]
    """
    _check_cutoff(k)
    precision: Floats = np.minimum(_rank_candidates(scores, relevant).expect_hits(k) / k, 1.0)
    return precision


def judged_at(k: int, scores: ArrayLike, judged: ArrayLike) -> Floats:
    """Compute the share of judged documents among the first k, as ir_measures does.

    Documents that were not retrieved do not count. If fewer than k were retrieved, the share is that of these.

    `judged` is 1 if someone judged the candidate, relevant or not. The share is 0 if nothing was retrieved.

    Example:
        >>> judged_at(2, [[3.0, 2.0, 1.0], [3.0, -np.inf, -np.inf]], [[1, 0, 1], [1, 1, 1]]).tolist()
        [0.5, 1.0]
    """
    _check_cutoff(k)
    lists = _rank_candidates(scores, judged, name="judged", allow_zeros=True)
    share: Floats = np.minimum(lists.expect_hits(k) / np.clip(lists.retrieved, 1, k), 1.0)
    return share


def average_precision(scores: ArrayLike, relevant: ArrayLike) -> Floats:
    """Compute the mean precision at the ranks of the relevant documents; its mean over queries is MAP.

    Consider t tied candidates, r of them relevant, below R relevant ones. Each place in the tie has a relevant document
    with probability r / t. If the j-th place has one, R + 1 + (j - 1) (r - 1) / (t - 1) are expected up to that place.

    The precision of a relevant document that was not retrieved is 0.

    Example:
        >>> average_precision([[4.0, 3.0, 2.0, 1.0], [4.0, 3.0, 2.0, -np.inf]], [[1, 0, 0, 1]] * 2).tolist()
        [0.75, 0.5]
    """
    lists = _rank_candidates(scores, relevant)
    within, before = lists.labels_in_tie, lists.ranks - lists.above - 1  # before: candidates of the tie above this one
    relevant_so_far = lists.labels_above + 1 + before * (within - 1) / np.maximum(lists.tied - 1, 1)
    precision = within / lists.tied * relevant_so_far / lists.ranks
    average: Floats = precision.sum(axis=1) / lists.total
    return average


def reciprocal_rank(scores: ArrayLike, relevant: ArrayLike) -> Floats:
    """Compute one over the rank of the first relevant document; its mean over queries is MRR.

    Only the highest-scored tie with a relevant document counts. It has t candidates, and r are relevant. The first of
    these is at place j of the tie with a probability that is r / t for j = 1. From place j to the next, the probability
    changes by the factor (t - j - r + 1) / (t - j).

    The value is 0 if no relevant document was retrieved.

    Example:
        >>> reciprocal_rank([[3.0, 2.0, 1.0], [2.0, 2.0, 1.0], [1.0, 0.0, -np.inf]], np.eye(3)[[1, 0, 2]]).tolist()
        [0.5, 0.75, 0.0]
    """
    return _expect_reciprocal_rank(_rank_candidates(scores, relevant), np.inf)


def reciprocal_rank_at(k: int, scores: ArrayLike, relevant: ArrayLike) -> Floats:
    """Compute one over the rank of the first relevant document, or 0 if that rank is beyond k; its mean is MRR@k.

    In a tie, ranks beyond k count 0, each with its probability, see `reciprocal_rank`. The value is 0 if no relevant
    document was retrieved.

    Example:
        >>> reciprocal_rank_at(1, [[3.0, 2.0, 1.0], [2.0, 2.0, 1.0]], [[0, 1, 0], [1, 0, 0]]).tolist()
        [0.0, 0.5]
    """
    _check_cutoff(k)
    return _expect_reciprocal_rank(_rank_candidates(scores, relevant), k)


def rank_of_first_relevant(scores: ArrayLike, relevant: ArrayLike) -> Floats:
    """Compute the rank of the first relevant document; 1 is the best. Lower is better.

    The first of r relevant documents among t tied candidates is expected at place (t + 1) / (r + 1) of the tie. The
    slides on WSLS with hard negatives report 10 minus the mean of this rank, for 10 candidates. It is undefined if no
    relevant document was retrieved.

    Raises:
        ValueError: no relevant document of a query was retrieved.

    Example:
        >>> rank_of_first_relevant([[3.0, 2.0, 1.0], [2.0, 2.0, 1.0]], [[0, 1, 0], [1, 0, 0]]).tolist()
        [2.0, 1.5]
    """
    above, tied, within = _rank_candidates(scores, relevant).find_first_relevant_tie()
    if not within.all():
        raise ValueError(f"no relevant document of {(within == 0).sum()} queries was retrieved, so it has no rank")
    expected: Floats = above + (tied + 1) / (within + 1)
    return expected


def ndcg_at(k: int, scores: ArrayLike, gains: ArrayLike) -> Floats:
    """Compute the normalised discounted cumulative gain of the first k (Järvelin and Kekäläinen, 2002).

    The gain is linear and the discount is log2(1 + rank), as in trec_eval. It is normalised by the gain of the best
    order of these candidates, including those that were not retrieved. The gains are grades, at least 0.

    Example:
        >>> ndcg_at(10, [[3.0, 2.0, 1.0]], [[0, 2, 1]]).round(4).tolist()
        [0.6697]
        >>> ndcg_at(10, [[3.0, -np.inf, 1.0]], [[0, 2, 1]]).round(4).tolist()
        [0.2398]
    """
    _check_cutoff(k)
    lists = _rank_candidates(scores, gains, graded=True)
    discounts = np.where(lists.ranks <= k, 1 / np.log2(1 + lists.ranks), 0.0)
    best = np.sort(lists.all_labels, axis=1)[:, ::-1]
    share: Floats = np.sum(lists.labels_in_tie / lists.tied * discounts, axis=1) / np.sum(best * discounts, axis=1)
    return np.minimum(share, 1.0)


class _RankedLists(NamedTuple):
    """Lists in descending order of score, (queries, candidates) each; the order within a tie is arbitrary."""

    labels: Floats  # 0 if not retrieved
    all_labels: Floats  # also of documents that were not retrieved
    above: Ints  # candidates with a higher score
    tied: Ints  # candidates with the same score, including itself
    retrieved: Ints  # (queries,) number of documents that were retrieved

    @property
    def total(self) -> Floats:
        """Sum of all labels, (queries,)."""
        total: Floats = self.all_labels.sum(axis=1)
        return total

    @property
    def ranks(self) -> Ints:
        """Ranks from 1, (candidates,)."""
        return np.arange(1, self.labels.shape[1] + 1)

    @property
    def labels_in_tie(self) -> Floats:
        """Sum of the labels in the tie of each candidate, (queries, candidates)."""
        ties: Floats = np.take_along_axis(self._cumulative_labels, self.above + self.tied, 1) - self.labels_above
        return ties

    @property
    def labels_above(self) -> Floats:
        """Sum of the labels above the tie of each candidate, (queries, candidates)."""
        return np.take_along_axis(self._cumulative_labels, self.above, 1)

    @property
    def _cumulative_labels(self) -> Floats:
        """Cumulative sums of the labels, starting with 0, (queries, candidates + 1)."""
        return np.concatenate([np.zeros((len(self.labels), 1)), np.cumsum(self.labels, axis=1)], axis=1)

    def expect_hits(self, k: int) -> Floats:
        """Compute the expected sum of the labels among the first k, (queries,)."""
        probability = np.clip((k - self.above) / self.tied, 0.0, 1.0)
        hits: Floats = np.sum(self.labels * probability, axis=1)
        return hits

    def find_first_relevant_tie(self) -> tuple[Ints, Ints, Floats]:
        """Find the highest-scored tie with a relevant candidate, for each query.

        Returns:
            (queries,) candidates above the tie, (queries,) candidates in it, and (queries,) relevant ones in it, which
            are 0 if no relevant document was retrieved.
        """
        within = self.labels_in_tie
        place = np.argmax(within > 0, axis=1)[:, None]
        above, tied = (np.take_along_axis(counts, place, 1)[:, 0] for counts in (self.above, self.tied))
        return above, tied, np.take_along_axis(within, place, 1)[:, 0]


def _check_cutoff(k: int) -> None:
    if k < 1:
        raise ValueError(f"k must be at least 1 but is {k}")


def _expect_reciprocal_rank(lists: _RankedLists, cutoff: float) -> Floats:
    above, tied, within = (values[:, None] for values in lists.find_first_relevant_tie())
    place = np.arange(1, lists.labels.shape[1])
    factors = np.maximum(tied - place - within + 1, 0) / np.maximum(tied - place, 1)
    chances = np.cumprod(np.concatenate([within / tied, factors], axis=1), axis=1)
    ranks = above + lists.ranks
    expected: Floats = np.where(ranks <= cutoff, chances / ranks, 0.0).sum(axis=1)
    return expected


def _rank_candidates(
    scores: ArrayLike, relevant: ArrayLike, graded: bool = False, name: str = "relevant", allow_zeros: bool = False
) -> _RankedLists:
    values, labels = np.asarray(scores, dtype=np.float64), np.asarray(relevant, dtype=np.float64)
    if values.ndim != 2 or values.shape != labels.shape:
        raise ValueError(f"scores and {name} must both be (queries, candidates) but are {values.shape}, {labels.shape}")
    if np.isnan(values).any():
        raise ValueError(f"{np.isnan(values).any(axis=1).sum()} queries have a NaN score")
    if graded and not (np.isfinite(labels) & (labels >= 0)).all():
        raise ValueError("gains must be finite and at least 0")
    if not graded and not np.isin(labels, (0.0, 1.0)).all():
        raise ValueError(f"{name} must contain only 0 and 1")
    if not allow_zeros and (labels.sum(axis=1) == 0).any():
        raise ValueError(f"{(labels.sum(axis=1) == 0).sum()} queries have no relevant document")
    order = np.argsort(-values, axis=1, kind="stable")
    ranked, all_labels = (np.take_along_axis(array, order, axis=1) for array in (values, labels))
    retrieved = ranked > -np.inf
    above, tied = _count_ties(ranked)
    return _RankedLists(np.where(retrieved, all_labels, 0.0), all_labels, above, tied, retrieved.sum(axis=1))


def _count_ties(ranked: Floats) -> tuple[Ints, Ints]:
    """Count the candidates with a higher score and those with the same score."""
    candidates = ranked.shape[1]
    position = np.arange(candidates)
    first = np.ones(ranked.shape, dtype=bool)
    first[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
    last = np.ones(ranked.shape, dtype=bool)
    last[:, :-1] = first[:, 1:]
    start = np.maximum.accumulate(np.where(first, position, 0), axis=1)
    end = np.minimum.accumulate(np.where(last, position, candidates)[:, ::-1], axis=1)[:, ::-1]
    return start, end - start + 1
