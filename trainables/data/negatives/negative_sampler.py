"""Interface of the negative samplers.

A sampler scores the documents of a pool for a query. It is one class, and `trainables.specs.samplers.SAMPLERS` has its
entry. Its index is written once, in pieces that processes share.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

from trainables.specs.ranking_task import SamplerSettings
from trainables.specs.samplers import SAMPLERS
from trainables.utils.arrays import Floats, Ints


class PoolError(ValueError):
    """Raised if a pool is too small to sample from, or if none of its documents contains a word."""


class Query(NamedTuple):
    """A query with the candidates that its source names."""

    id: str
    text: str
    candidates: Ints
    """(m,) Positions in the pool of the candidates that the source names, nearest first."""
    candidate_scores: Floats
    """(m,) Scores of these candidates from the source, NaN if it has none."""


class PoolScores(NamedTuple):
    """Scores of a pool's documents for one query."""

    order: Floats
    """(documents,) Values to rank by, higher is nearer. Positive if the sampler found the document."""
    raw: Floats
    """(documents,) Scores that are stored, NaN if the sampler has none."""


class NegativeSampler(Protocol):
    """A negative sampler over one pool.

    Args:
        folder: Folder of the index. Its pieces are `<folder>/<number>/`.
        settings: Settings that the index was built with.
        size: Number of documents of the pool.
    """

    piece_size: ClassVar[int | None]
    """Number of documents of one piece of the index. If 0, there is no index. If None, there is one piece."""

    def __init__(self, folder: Path, settings: SamplerSettings, size: int) -> None: ...

    @staticmethod
    def build(folder: Path, texts: Sequence[str], settings: SamplerSettings) -> None:
        """Write a piece of the index.

        Args:
            folder: Existing folder to write into.
            texts: Documents of the piece.
            settings: Settings of the sampler.

        Raises:
            PoolError: If the documents cannot be indexed.
        """

    def score_pool(self, queries: Sequence[Query]) -> Iterator[PoolScores]:
        """Yield the scores of the whole pool for each query.

        The scores are a pure function of the pool, the query and the settings.
        """


@lru_cache(maxsize=4)
def open_sampler(folder: Path, settings: SamplerSettings, size: int) -> NegativeSampler:
    """Return the sampler over the index in a folder. It is cached for the process's next part."""
    sampler: NegativeSampler = SAMPLERS[settings.name](folder, settings, size)
    return sampler
