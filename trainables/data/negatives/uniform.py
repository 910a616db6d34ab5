"""The negative sampler random: every document of the pool is as near as any other."""

from collections.abc import Iterator, Sequence

import numpy as np

from trainables.data.negatives.base import IndexFreeSampler, PoolScores, Query
from trainables.utils.random import make_generator


class RandomSampler(IndexFreeSampler):
    """Orders the pool by draws that are named by the query's id; they are no scores."""

    def score_pool(self, queries: Sequence[Query]) -> Iterator[PoolScores]:
        """The n nearest are a uniform draw without replacement."""
        nothing = np.full(self.size, np.nan)
        for query in queries:
            yield PoolScores(1.0 - make_generator(0, f"random negatives of {query.id}", 0).random(self.size), nothing)
