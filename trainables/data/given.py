"""The negative sampler given: the candidates that the collection itself names, with the scores that it tells."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from trainables.data.samplers import Query, Scored
from trainables.specification import SamplerSettings


class Given:
    """Finds what the source lists for a query, in the source's order."""

    piece: ClassVar[int | None] = 0

    def __init__(self, folder: Path, settings: SamplerSettings, size: int) -> None:
        self._size = size

    @staticmethod
    def build(folder: Path, texts: Sequence[str], settings: SamplerSettings) -> None:
        """Nothing: there is no index."""

    def scored(self, queries: Sequence[Query]) -> Iterator[Scored]:
        """Documents that are not listed are not found."""
        for query in queries:
            order, raw = np.zeros(self._size), np.full(self._size, np.nan)
            order[query.given] = np.arange(len(query.given), 0, -1)
            raw[query.given] = query.given_scores
            yield Scored(order, raw)
