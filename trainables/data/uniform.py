"""The negative sampler random: every document of the pool is as near as any other."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from trainables.data.samplers import Query, Scored
from trainables.randomness import generator
from trainables.specification import SamplerSettings


class Uniform:
    """Orders the pool by draws that are named by the query's id; they are no scores."""

    piece: ClassVar[int | None] = 0

    def __init__(self, folder: Path, settings: SamplerSettings, size: int) -> None:
        self._size = size

    @staticmethod
    def build(folder: Path, texts: Sequence[str], settings: SamplerSettings) -> None:
        """Nothing: there is no index."""

    def scored(self, queries: Sequence[Query]) -> Iterator[Scored]:
        """The n nearest are a uniform draw without replacement."""
        nothing = np.full(self._size, np.nan)
        for query in queries:
            yield Scored(1.0 - generator(0, f"random negatives of {query.id}", 0).random(self._size), nothing)
