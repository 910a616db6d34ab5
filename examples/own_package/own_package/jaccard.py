"""A negative sampler of your own: the documents that share most words with the query (Jaccard similarity).

The similarity is the number of words in both texts, divided by the number of words in either:
`task.sampler.name = "jaccard"`.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from trainables.data.negatives.negative_sampler import PoolScores, Query
from trainables.specs.ranking_task import SamplerSettings
from trainables.specs.samplers import SAMPLERS


@SAMPLERS.register("jaccard", "the documents that share most words with the query", "Jaccard (1912)")
class JaccardSampler:
    """Scores documents by the Jaccard similarity of their words and those of the query."""

    piece_size: ClassVar[int | None] = None

    def __init__(self, folder: Path, settings: SamplerSettings, size: int) -> None:
        texts = json.loads((folder / "00000" / "texts.json").read_text(encoding="utf-8"))
        self._documents = [set(text.lower().split()) for text in texts]

    @staticmethod
    def build(folder: Path, texts: Sequence[str], settings: SamplerSettings) -> None:
        """Write the texts."""
        (folder / "texts.json").write_text(json.dumps(list(texts)), encoding="utf-8")

    def score_pool(self, queries: Sequence[Query]) -> Iterator[PoolScores]:
        """Yield the similarities of the pool to each query. A document is found if it shares a word."""
        for query in queries:
            words = set(query.text.lower().split())
            scores = np.array([len(words & own) / len(words | own) for own in self._documents])
            yield PoolScores(order=scores, raw=scores)
