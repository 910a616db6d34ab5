"""The negative sampler given: the candidates that the source itself names, with its scores."""

from collections.abc import Iterator, Sequence

import numpy as np

from trainables.data.negatives.base import IndexFreeSampler, PoolScores, Query


class GivenSampler(IndexFreeSampler):
    """Finds the documents that the source lists for a query, in the order of the source."""

    def score_pool(self, queries: Sequence[Query]) -> Iterator[PoolScores]:
        """Yield the source's scores for each query. Documents that are not listed are not found."""
        for query in queries:
            order, raw = np.zeros(self.size), np.full(self.size, np.nan)
            order[query.candidates] = np.arange(len(query.candidates), 0, -1)
            raw[query.candidates] = query.candidate_scores
            yield PoolScores(order, raw)
