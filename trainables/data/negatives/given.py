"""The negative sampler given: the candidates that the collection itself names, with the scores that it tells."""

from collections.abc import Iterator, Sequence

import numpy as np

from trainables.data.negatives.base import Query, Scored, Unindexed


class Given(Unindexed):
    """Finds what the source lists for a query, in the source's order."""

    def scored(self, queries: Sequence[Query]) -> Iterator[Scored]:
        """Documents that are not listed are not found."""
        for query in queries:
            order, raw = np.zeros(self.size), np.full(self.size, np.nan)
            order[query.given] = np.arange(len(query.given), 0, -1)
            raw[query.given] = query.given_scores
            yield Scored(order, raw)
