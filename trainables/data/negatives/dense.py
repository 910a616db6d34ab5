"""The negative sampler dense: cosine similarity under a sentence encoder, by exact search."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt
import torch

from trainables.data.negatives.base import Query, Scored
from trainables.models import pretrained as weights
from trainables.specs.ranker import SamplerSettings
from trainables.utils.threads import one_thread

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_PIECE = 4096
"""Documents embedded at once, in a file of their own."""
_QUERIES = 16
"""Queries multiplied at once, always so many: the bits of a product depend on its shape."""


class Dense:
    """Embeddings of a pool's documents, normalised, in mapped files."""

    piece: ClassVar[int | None] = _PIECE

    def __init__(self, folder: Path, settings: SamplerSettings, size: int) -> None:
        files = [folder / f"{number:05}" / "embeddings.npy" for number in range(-(-size // _PIECE))]
        self._settings = settings
        self._pieces = [torch.from_numpy(np.load(file, mmap_mode="c")) for file in files]  # each (documents, hidden)

    @staticmethod
    def build(folder: Path, texts: Sequence[str], settings: SamplerSettings) -> None:
        """Embeds the documents."""
        np.save(folder / "embeddings.npy", embedded(texts, settings.encoder))

    def scored(self, queries: Sequence[Query]) -> Iterator[Scored]:
        """Every document is found, at its cosine similarity."""
        for start in range(0, len(queries), _QUERIES):
            texts = [query.text for query in queries[start : start + _QUERIES]]
            found = embedded(texts, self._settings.encoder, batch_size=1)  # padding would let them touch one another
            block = torch.zeros(_QUERIES, found.shape[1])
            block[: len(texts)] = torch.from_numpy(found)
            with one_thread():
                similarity = torch.cat([piece @ block.T for piece in self._pieces]).double().numpy()
            for column in similarity.T[: len(texts)]:
                yield Scored(2.0 + column, column)


def embedded(texts: Sequence[str], encoder: str, batch_size: int = 32) -> npt.NDArray[np.float32]:
    """(texts, hidden) normalised embeddings, computed on the CPU with one thread."""
    with one_thread():
        found = _encoder(encoder).encode(
            list(texts), batch_size=batch_size, normalize_embeddings=True, show_progress_bar=False
        )
    return np.asarray(found, dtype=np.float32)


@lru_cache(maxsize=1)
def _encoder(name: str) -> "SentenceTransformer":
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(weights.encoder(name)), device="cpu", local_files_only=True)
