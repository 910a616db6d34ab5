"""The negative sampler BM25, its candidates, and the weak labels made of its scores.

BM25 (Okapi) with exactly the scores of rank_bm25.BM25Okapi, by a sparse matrix of term weights (50 times as fast).
Weak labels: Penha and Hauff (2021), section 3.2.
"""

import hashlib
import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

EPSILON = 0.25
"""A term in more than half of the documents gets this share of the average idf (rank_bm25's default)."""
LOWEST, HIGHEST = 0.01, 0.99


def tokenise(text: str) -> list[str]:
    """Lower-case words."""
    return re.findall(r"\w+", text.lower())


class Bm25:
    """An index over tokenised documents.

    Args:
        documents: one list of words a document.
        k1: term-frequency saturation.
        b: length normalisation.

    Raises:
        ValueError: no document holds a word.
    """

    def __init__(self, documents: Sequence[Sequence[str]], k1: float = 1.5, b: float = 0.75) -> None:
        self._vocabulary: dict[str, int] = {}
        columns = [self._vocabulary.setdefault(word, len(self._vocabulary)) for words in documents for word in words]
        if not columns:
            raise ValueError("no document holds a word")
        size = len(documents)
        lengths = np.array([len(words) for words in documents])
        rows = np.repeat(np.arange(size), lengths)
        ones = np.ones(len(columns))
        counts = sp.csc_array((ones, (rows, columns)), shape=(size, len(self._vocabulary)))  # sums the repetitions
        found_in = np.diff(counts.indptr)

        # The order of every operation is rank_bm25's, for the same rounding and thus the same ties.
        idf = np.array([math.log(size - n + 0.5) - math.log(n + 0.5) for n in found_in.tolist()])
        average = np.cumsum(idf)[-1] / len(idf)
        idf[idf < 0] = EPSILON * average
        norm = k1 * (1 - b + b * lengths / (len(columns) / size))
        frequency = counts.data
        weights = np.repeat(idf, found_in) * (frequency * (k1 + 1) / (frequency + norm[counts.indices]))

        self.size = size
        self._postings = [
            (counts.indices[first:last], weights[first:last])
            for first, last in zip(counts.indptr[:-1].tolist(), counts.indptr[1:].tolist(), strict=True)
        ]

    def scores(self, query: Sequence[str]) -> Floats:
        """(documents,) scores of every document; a word that the query repeats counts each time."""
        scores = np.zeros(self.size)
        for word in query:
            term = self._vocabulary.get(word)
            if term is not None:
                documents, weights = self._postings[term]
                scores[documents] += weights
        return scores


class Negatives(NamedTuple):
    """One query's sampled documents, best first, back-filled ones last."""

    positions: Ints
    """(n,) positions in the pool."""
    scores: Floats
    """(n,) the sampler's scores."""
    weak_labels: Floats
    """(n,) in [0.01, 0.99], or 0 where back-filled."""
    found: int
    """How many the sampler found; the others were drawn at random."""


def sample(
    query_id: str, scores: Floats, excluded: npt.NDArray[np.bool_], document_ids: Sequence[str], n: int
) -> Negatives:
    """The best n documents that are not excluded.

    Ties go to the first in the pool. A document whose score is not positive was not found; missing ones are drawn at
    random, in the order of a hash of query and document, so that the draw follows from the data alone.

    Args:
        scores: (documents,) the sampler's scores of this query.
        excluded: (documents,) true where a document must not be sampled.
        document_ids: ids in the order of the pool.

    Raises:
        ValueError: fewer than n documents are left.
    """
    allowed = np.flatnonzero(~excluded)
    if len(allowed) < n:
        raise ValueError(f"{len(allowed)} documents are left for {n} negatives")
    positive = allowed[scores[allowed] > 0]
    if len(positive) > n:  # everything below the n-th best score need not be sorted
        values = scores[positive]
        positive = positive[values >= np.partition(values, len(values) - n)[len(values) - n]]
    best = positive[np.argsort(-scores[positive], kind="stable")][:n]
    missing = n - len(best)
    drawn: list[int] = []
    if missing:
        rest = np.setdiff1d(allowed, best).tolist()
        drawn = sorted(rest, key=lambda i: hashlib.sha256(f"{query_id}\n{document_ids[i]}".encode()).digest())[:missing]
    positions = np.concatenate([best, np.array(drawn, dtype=np.int64)]).astype(np.int64)
    labels = np.concatenate([weak_labels(scores[best]), np.zeros(missing)])
    return Negatives(positions, scores[positions], labels, len(best))


def weak_labels(scores: Floats) -> Floats:
    """(n,) min-max of one query's scores into [0.01, 0.99]; a lone score or equal scores have no range: 0.01."""
    if len(scores) == 0 or scores.min() == scores.max():
        return np.full(len(scores), LOWEST)
    share = (scores - scores.min()) / (scores.max() - scores.min())
    labels: Floats = LOWEST + (HIGHEST - LOWEST) * share
    return labels
