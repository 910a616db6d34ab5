"""The negative sampler random: every document of the pool is as near as any other."""

from collections.abc import Iterator, Sequence

import numpy as np

from trainables.data.negatives.base import Query, Scored, Unindexed
from trainables.utils.random import generator


class Uniform(Unindexed):
    """Orders the pool by draws that are named by the query's id; they are no scores."""

    def scored(self, queries: Sequence[Query]) -> Iterator[Scored]:
        """The n nearest are a uniform draw without replacement."""
        nothing = np.full(self.size, np.nan)
        for query in queries:
            yield Scored(1.0 - generator(0, f"random negatives of {query.id}", 0).random(self.size), nothing)
