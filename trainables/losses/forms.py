"""Forms of losses: what a term of the loss is, and its hard and its smoothed target.

The targets of every form mix the hard target with what the distribution of the smoothing says: (1 - epsilon) hard +
epsilon soft. For single pairs this is label smoothing as in Penha and Hauff (2021), section 2. For pairs of documents
and for the candidates of a query it is new here:

- pairwise, uniform: the relevant document is better with probability 1 - epsilon / 2;
- pairwise, weak supervision: 1 - epsilon + epsilon sigmoid(t_i - t_j);
- margin: (1 - epsilon) times the hard margin + epsilon times 0 (uniform) or (t_i - t_j) (weak supervision);
- listwise, uniform: (1 - epsilon) one-hot + epsilon / n;
- listwise, weak supervision: (1 - epsilon) one-hot + epsilon softmax(t).

Here t are the sampler's scores divided by the temperature; n is the number of candidates.
"""

from typing import NamedTuple, Protocol

import numpy as np
import torch
from scipy.special import expit, softmax
from torch import Tensor

from trainables.losses import Form
from trainables.utils.arrays import Bools, Floats, Ints

Places = tuple[Ints | Bools, ...]
"""Arrays that say where the terms of a loss are among the candidates."""


class Candidates(NamedTuple):
    """Labels and scores of the candidates of some queries, all of shape (queries, candidates).

    Attributes:
        labels: 1 for relevant and 0 for not relevant.
        relevance: probability of relevance that a label is mixed with.
        scores: scores of the ranking that a query's target is mixed with.
        teacher: scores of the ranking that a distillation learns.
    """

    labels: Floats
    relevance: Floats
    scores: Floats
    teacher: Floats


class LossForm(Protocol):
    """The terms and the targets of a loss."""

    def count_terms(self, labels: Floats) -> int:
        """Return the number of terms for labels of shape (queries, candidates)."""

    def find_terms(self, labels: Floats) -> Places:
        """Return the arrays that say where the terms are, which `select_terms` takes."""

    def select_terms(self, logits: Tensor, *places: Tensor) -> Tensor:
        """Return the inputs of the terms, from logits of shape (queries, candidates, outputs)."""

    def make_hard_targets(self, candidates: Candidates, is_distillation: bool) -> Floats:
        """Return the unsmoothed targets of the terms."""

    def make_soft_targets(self, candidates: Candidates) -> Floats:
        """Return what the targets are mixed with, in the same shape."""


class PointwiseForm:
    """A term is a query-document pair."""

    def count_terms(self, labels: Floats) -> int:
        """Return the number of pairs."""
        return labels.size

    def find_terms(self, labels: Floats) -> Places:
        """Return nothing: each pair is a term."""
        return ()

    def select_terms(self, logits: Tensor, *places: Tensor) -> Tensor:
        """Return the logits, shape (pairs, outputs)."""
        return logits.flatten(0, 1)

    def make_hard_targets(self, candidates: Candidates, is_distillation: bool) -> Floats:
        """Return the labels, shape (pairs,)."""
        return candidates.labels.reshape(-1)

    def make_soft_targets(self, candidates: Candidates) -> Floats:
        """Return the probability of relevance, shape (pairs,)."""
        return candidates.relevance.reshape(-1)


class PairwiseForm:
    """A term is a relevant document and one that is not relevant, of the same query."""

    def count_terms(self, labels: Floats) -> int:
        """Return the number of such pairs of documents."""
        relevant = labels.sum(axis=1)
        return int((relevant * (labels.shape[1] - relevant)).sum())

    def find_terms(self, labels: Floats) -> Places:
        """Return the numbers of query, relevant and other candidate, (pairs,) each."""
        return _list_pairs(labels)

    def select_terms(self, logits: Tensor, *places: Tensor) -> Tensor:
        """Return the differences of the logits, shape (pairs,)."""
        query, better, worse = places
        return logits[query, better, 0] - logits[query, worse, 0]

    def make_hard_targets(self, candidates: Candidates, is_distillation: bool) -> Floats:
        """Return 1, or with distillation the probability by the teacher that the first is better, shape (pairs,)."""
        if is_distillation:
            return np.asarray(expit(_subtract_scores(candidates.teacher, candidates.labels)))
        return np.ones(len(_list_pairs(candidates.labels)[0]))

    def make_soft_targets(self, candidates: Candidates) -> Floats:
        """Return the probability that the first is better, by the scores, shape (pairs,)."""
        return np.asarray(expit(_subtract_scores(candidates.scores, candidates.labels)))


class MarginForm(PairwiseForm):
    """A term is a relevant document and one that is not relevant; the target is the difference of two scores."""

    def make_hard_targets(self, candidates: Candidates, is_distillation: bool) -> Floats:
        """Return the differences of the teacher's scores, or without distillation of the labels, shape (pairs,)."""
        return _subtract_scores(candidates.teacher if is_distillation else candidates.labels, candidates.labels)

    def make_soft_targets(self, candidates: Candidates) -> Floats:
        """Return the differences of the scores, shape (pairs,)."""
        return _subtract_scores(candidates.scores, candidates.labels)


class ListwiseForm:
    """A term is a query with a relevant candidate."""

    def count_terms(self, labels: Floats) -> int:
        """Return the number of queries with a relevant candidate."""
        return int(_has_relevant(labels).sum())

    def find_terms(self, labels: Floats) -> Places:
        """Return the numbers of these queries, shape (queries,)."""
        return (np.flatnonzero(_has_relevant(labels)),)

    def select_terms(self, logits: Tensor, *places: Tensor) -> Tensor:
        """Return the logits of these queries, shape (queries, candidates).

        With the places of `merge_relevant` after the numbers, they are merged first.
        """
        chosen, *merged = places
        if merged:
            relevant, is_first = (place[..., None] for place in merged)
            lowest = torch.finfo(logits.dtype).min / 2
            together = logits.masked_fill(~relevant, lowest).logsumexp(dim=1, keepdim=True)
            logits = torch.where(is_first, together, logits.masked_fill(relevant, lowest))
        return logits[chosen, :, 0]

    @staticmethod
    def merge_relevant(labels: Floats) -> tuple[Floats, Places]:
        """Return labels with one relevant candidate per query, which gets the probability of all of them.

        Label relaxation allows any distribution that gives the relevant candidates enough together.

        Args:
            labels: shape (queries, candidates).

        Returns:
            The labels, and the places of the relevant candidates before and after; no places if nothing changes.
        """
        if (labels.sum(axis=1) <= 1).all():
            return labels, ()
        first = np.zeros_like(labels)
        first[np.arange(len(labels)), labels.argmax(axis=1)] = labels.any(axis=1)
        return first, (labels == 1, first == 1)

    def make_hard_targets(self, candidates: Candidates, is_distillation: bool) -> Floats:
        """Return equal shares of the relevant candidates, or the softmax of the teacher's scores.

        The shape is (queries, candidates), without the queries that have no relevant candidate.
        """
        chosen = _has_relevant(candidates.labels)
        if is_distillation:
            return np.asarray(softmax(candidates.teacher[chosen], axis=1))
        labels = candidates.labels[chosen]
        shares: Floats = labels / labels.sum(axis=1, keepdims=True)
        return shares

    def make_soft_targets(self, candidates: Candidates) -> Floats:
        """Return the softmax of the scores, in the same shape."""
        return np.asarray(softmax(candidates.scores[_has_relevant(candidates.labels)], axis=1))


FORMS: dict[Form, LossForm] = {
    "pointwise": PointwiseForm(),
    "pairwise": PairwiseForm(),
    "margin": MarginForm(),
    "listwise": ListwiseForm(),
}


def _list_pairs(labels: Floats) -> tuple[Ints, Ints, Ints]:
    """Return the numbers of query, relevant and other candidate for every pair of documents, (pairs,) each."""
    query, better, worse = np.nonzero(labels[:, :, None] > labels[:, None, :])
    return query, better, worse


def _subtract_scores(scores: Floats, labels: Floats) -> Floats:
    query, better, worse = _list_pairs(labels)
    difference: Floats = scores[query, better] - scores[query, worse]
    return difference


def _has_relevant(labels: Floats) -> Bools:
    return np.asarray(labels.any(axis=1))
