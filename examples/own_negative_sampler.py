"""A negative sampler of your own: the documents that share most words with the query (Jaccard similarity).

The similarity is the number of words in both texts, divided by the number of words in either. To choose it in a study
(`task.sampler.name = "jaccard"`), move the class to `trainables/data/negatives/jaccard.py` and its entry to
`trainables/specs/samplers.py`; see `docs/extending.md`.

Run it: python examples/own_negative_sampler.py
"""

import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from trainables.data.negatives.base import PoolScores, Query
from trainables.specs.ranker import SamplerSettings
from trainables.utils.registry import Entry


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


TARGET = "trainables.data.negatives.jaccard:JaccardSampler"
ENTRY = Entry("jaccard", TARGET, "the documents that share most words with the query", "Jaccard (1912)")


if __name__ == "__main__":
    documents = ["format a disk", "copy a large file", "name a disk or a drive", "plant a tree"]
    query = Query("q1", "how to format a disk drive", np.array([], np.int64), np.array([]))
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "00000").mkdir()
        JaccardSampler.build(Path(name) / "00000", documents, SamplerSettings())
        scores = next(JaccardSampler(Path(name), SamplerSettings(), len(documents)).score_pool([query])).raw
    for place in np.argsort(-scores):
        print(f"{scores[place]:.3f}  {documents[place]}")
