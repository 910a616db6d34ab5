"""The negative sampler dense: exact search by the cosine similarity of a sentence encoder."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt
import torch

from trainables.data.negatives.negative_sampler import PoolScores, Query
from trainables.models import pretrained
from trainables.specs.ranking_task import SamplerSettings
from trainables.utils.system import use_one_thread

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_PIECE_SIZE = 4096
"""Number of documents of one piece of the index, which is one file of embeddings."""
_QUERY_BATCH_SIZE = 16
"""Number of queries per matrix product. It is always the same, because the bits of a product depend on its shape."""


class DenseSampler:
    """Scores documents by cosine similarity, with the normalised embeddings of a pool in mapped files."""

    piece_size: ClassVar[int | None] = _PIECE_SIZE

    def __init__(self, folder: Path, settings: SamplerSettings, size: int) -> None:
        files = [folder / f"{number:05}" / "embeddings.npy" for number in range(-(-size // _PIECE_SIZE))]
        self._settings = settings
        self._pieces = [torch.from_numpy(np.load(file, mmap_mode="c")) for file in files]  # each (documents, hidden)

    @staticmethod
    def build(folder: Path, texts: Sequence[str], settings: SamplerSettings) -> None:
        """Embed the documents and write the embeddings."""
        np.save(folder / "embeddings.npy", embed_texts(texts, settings.encoder))

    def score_pool(self, queries: Sequence[Query]) -> Iterator[PoolScores]:
        """Yield the cosine similarities of the pool to each query. Every document is found."""
        for start in range(0, len(queries), _QUERY_BATCH_SIZE):
            texts = [query.text for query in queries[start : start + _QUERY_BATCH_SIZE]]
            # One text per batch: with padding, the bits of an embedding would depend on the other texts.
            embeddings = embed_texts(texts, self._settings.encoder, batch_size=1)
            block = torch.zeros(_QUERY_BATCH_SIZE, embeddings.shape[1])
            block[: len(texts)] = torch.from_numpy(embeddings)
            with use_one_thread():
                similarity = torch.cat([piece @ block.T for piece in self._pieces]).double().numpy()
            for column in similarity.T[: len(texts)]:
                yield PoolScores(2.0 + column, column)


def embed_texts(texts: Sequence[str], encoder: str, batch_size: int = 32) -> npt.NDArray[np.float32]:
    """Return (texts, hidden) normalised embeddings of texts, computed on the CPU with one thread."""
    with use_one_thread():
        embeddings = _load_encoder(encoder).encode(
            list(texts), batch_size=batch_size, normalize_embeddings=True, show_progress_bar=False
        )
    return np.asarray(embeddings, dtype=np.float32)


@lru_cache(maxsize=1)
def _load_encoder(name: str) -> "SentenceTransformer":
    from sentence_transformers import SentenceTransformer

    path, key = pretrained.resolve_encoder_path(name), "task.sampler.encoder"
    with pretrained.report_unloadable(path, key):
        return SentenceTransformer(str(path), device="cpu", local_files_only=True)
