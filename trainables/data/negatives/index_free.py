"""The negative samplers random and given, which need no index of the pool."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from trainables.data.negatives.negative_sampler import PoolScores, Query
from trainables.specs.ranking_task import SamplerSettings
from trainables.utils.random import make_generator


class IndexFreeSampler:
    """Base class of samplers that need no index."""

    piece_size: ClassVar[int | None] = 0

    def __init__(self, folder: Path, settings: SamplerSettings, size: int) -> None:
        self.size = size

    @staticmethod
    def build(folder: Path, texts: Sequence[str], settings: SamplerSettings) -> None:
        """Write nothing."""


class RandomSampler(IndexFreeSampler):
    """Orders the pool at random: all documents have the same chance. The query's id names the random stream."""

    def score_pool(self, queries: Sequence[Query]) -> Iterator[PoolScores]:
        """Yield a random order of the pool for each query, without scores.

        The n nearest documents are a uniform draw without replacement.
        """
        no_scores = np.full(self.size, np.nan)
        for query in queries:
            yield PoolScores(1.0 - make_generator(0, f"random negatives of {query.id}", 0).random(self.size), no_scores)


class GivenSampler(IndexFreeSampler):
    """Finds the documents that the source lists for a query, in the order of the source."""

    def score_pool(self, queries: Sequence[Query]) -> Iterator[PoolScores]:
        """Yield the source's scores for each query. Documents that are not listed are not found."""
        for query in queries:
            order, raw = np.zeros(self.size), np.full(self.size, np.nan)
            order[query.candidates] = np.arange(len(query.candidates), 0, -1)
            raw[query.candidates] = query.candidate_scores
            yield PoolScores(order, raw)
