"""The negative sampler random: all documents of the pool have the same chance."""

from collections.abc import Iterator, Sequence

import numpy as np

from trainables.data.negatives.base import IndexFreeSampler, PoolScores, Query
from trainables.utils.random import make_generator


class RandomSampler(IndexFreeSampler):
    """Orders the pool at random. The query's id names the random stream."""

    def score_pool(self, queries: Sequence[Query]) -> Iterator[PoolScores]:
        """Yield a random order of the pool for each query, without scores.

        The n nearest documents are a uniform draw without replacement.
        """
        no_scores = np.full(self.size, np.nan)
        for query in queries:
            yield PoolScores(1.0 - make_generator(0, f"random negatives of {query.id}", 0).random(self.size), no_scores)
