"""The negative sampler dense: cosine similarity under a sentence encoder, by exact search."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from trainables import weights
from trainables.data.samplers import Query, Scored
from trainables.specification import SamplerSettings

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_QUERIES = 16
"""Queries multiplied at once, always so many: the bits of a product depend on its shape."""


class Dense:
    """Embeddings of a pool's documents, normalised, in mapped files."""

    piece: int | None = 4096

    def __init__(self, folder: Path, settings: SamplerSettings, size: int) -> None:
        files = sorted(folder.glob("*/embeddings.npy"))
        self._settings = settings
        self._pieces = [np.load(file, mmap_mode="r") for file in files]  # each (documents, hidden)

    @staticmethod
    def build(folder: Path, texts: Sequence[str], settings: SamplerSettings) -> None:
        """Embeds the documents."""
        np.save(folder / "embeddings.npy", embedded(texts, settings.encoder))

    def scored(self, queries: Sequence[Query]) -> Iterator[Scored]:
        """Every document is found, at its cosine similarity."""
        for start in range(0, len(queries), _QUERIES):
            texts = [query.text for query in queries[start : start + _QUERIES]]
            found = embedded(texts, self._settings.encoder, batch_size=1)  # padding would let them touch one another
            block = np.zeros((_QUERIES, found.shape[1]), dtype=np.float32)
            block[: len(texts)] = found
            similarity = np.concatenate([piece @ block.T for piece in self._pieces]).astype(np.float64)
            for column in similarity.T[: len(texts)]:
                yield Scored(2.0 + column, column)


def embedded(texts: Sequence[str], encoder: str, batch_size: int = 32) -> npt.NDArray[np.float32]:
    """(texts, hidden) normalised embeddings, computed on the CPU with one thread."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        found = _encoder(encoder).encode(
            list(texts), batch_size=batch_size, normalize_embeddings=True, show_progress_bar=False
        )
    finally:
        torch.set_num_threads(threads)
    return np.asarray(found, dtype=np.float32)


@lru_cache(maxsize=1)
def _encoder(name: str) -> "SentenceTransformer":
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(weights.folder(name)), device="cpu", local_files_only=True)
