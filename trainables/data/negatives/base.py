"""The negative samplers: what each finds near a query in a pool of documents.

A sampler is one class, found by its name in `SAMPLERS`. Its index is written once, in pieces that processes share.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

from trainables.specs.ranker import SamplerSettings
from trainables.utils.arrays import Floats, Ints

SAMPLERS = {
    "bm25": ("trainables.data.negatives.bm25", "Bm25Sampler"),
    "dense": ("trainables.data.negatives.dense", "DenseSampler"),
    "given": ("trainables.data.negatives.given", "GivenSampler"),
    "random": ("trainables.data.negatives.uniform", "RandomSampler"),
}
"""Sampler name -> module and class, imported when first used."""


class PoolError(ValueError):
    """Nothing can be sampled from a pool: it is too small, or no document holds a word."""


class Query(NamedTuple):
    """A query and what its source says of the pool's documents."""

    id: str
    text: str
    candidates: Ints
    """(m,) positions in the pool of the candidates that the source names, nearest first."""
    candidate_scores: Floats
    """(m,) the source's scores of those, NaN where it tells none."""


class PoolScores(NamedTuple):
    """What a sampler makes of a pool for one query."""

    order: Floats
    """(documents,) higher is nearer; positive where the sampler found the document at all."""
    raw: Floats
    """(documents,) the score that is kept, NaN where the sampler has none."""


class NegativeSampler(Protocol):
    """A sampler over one pool.

    Args:
        folder: of the index's pieces: `<folder>/<number>/`.
        settings: those that it was built with.
        size: documents of the pool.
    """

    piece_size: ClassVar[int | None]
    """Documents of one piece of the index; 0: there is no index, none: one piece for all."""

    def __init__(self, folder: Path, settings: SamplerSettings, size: int) -> None: ...

    @staticmethod
    def build(folder: Path, texts: Sequence[str], settings: SamplerSettings) -> None:
        """Writes the piece of the index that these documents make into a folder.

        Raises:
            PoolError: no index can be made of them.
        """

    def score_pool(self, queries: Sequence[Query]) -> Iterator[PoolScores]:
        """Scores the whole pool for each query, a pure function of the pool, the query and the settings."""


class IndexFreeSampler:
    """Base of samplers that need no index."""

    piece_size: ClassVar[int | None] = 0

    def __init__(self, folder: Path, settings: SamplerSettings, size: int) -> None:
        self.size = size

    @staticmethod
    def build(folder: Path, texts: Sequence[str], settings: SamplerSettings) -> None:
        """Nothing to write."""


def get_sampler_class(name: str) -> type[NegativeSampler]:
    """The class of this name."""
    module, name = SAMPLERS[name]
    found: type[NegativeSampler] = getattr(import_module(module), name)
    return found


@lru_cache(maxsize=4)
def open_sampler(folder: Path, settings: SamplerSettings, size: int) -> NegativeSampler:
    """The sampler over the index in `folder`; kept open for the process's next part."""
    return get_sampler_class(settings.name)(folder, settings, size)
