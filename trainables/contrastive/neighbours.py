"""How near a sentence's nearest others are, by the size of the batch: Wu et al. (2021), figure 1.

The larger a batch, the nearer the nearest other sentence, which contrastive learning takes for a negative all the same.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from trainables.contrastive.loss import draw_noise
from trainables.utils.arrays import Floats
from trainables.utils.random import make_generator

N_NEIGHBOURS = 4
"""Neighbours that are looked at."""
N_BATCHES = 100
"""Random batches of each size."""


def compute_neighbour_similarity(
    embeddings: npt.NDArray[np.float32], batch_sizes: Sequence[int], seed: int = 0, n_batches: int = N_BATCHES
) -> Floats:
    """Cosines of a batch's sentences to their nearest others, averaged over sentences and random batches.

    Args:
        embeddings: (sentences, hidden).
        sizes: of batches, each above `NEAREST` and at most `sentences`.
        seed: names the draws of the batches.
        batches: random batches of each size.

    Returns:
        (sizes, NEAREST), the nearest first.

    Raises:
        ValueError: a size is too small or too large.
    """
    if wrong := [size for size in batch_sizes if not N_NEIGHBOURS < size <= len(embeddings)]:
        raise ValueError(f"batches of {wrong[0]} sentences, of {len(embeddings)} with {N_NEIGHBOURS} others each")
    directions, found = _normalize_rows(embeddings), np.zeros((len(batch_sizes), N_NEIGHBOURS))
    for place, size in enumerate(batch_sizes):
        for batch in range(n_batches):
            chosen = directions[make_generator(seed, f"probe {size}", batch).permutation(len(directions))[:size]]
            cosines = chosen @ chosen.T
            np.fill_diagonal(cosines, -np.inf)
            found[place] += np.sort(cosines, axis=1)[:, : -N_NEIGHBOURS - 1 : -1].mean(axis=0)
    return found / n_batches


def compute_noise_similarity(
    embeddings: npt.NDArray[np.float32],
    batch_sizes: Sequence[int],
    multiple: float,
    temperature: float,
    seed: int = 0,
    n_batches: int = N_BATCHES,
) -> Floats:
    """What `multiple` x size Gaussian vectors among the negatives of a batch are beside its sentences, averaged alike.

    Args:
        embeddings: (sentences, hidden).
        sizes: of batches.
        multiple: M, as a multiple of the batch.
        temperature: tau of the loss.
        seed: names the draws.
        batches: random batches of each size.

    Returns:
        (sizes, 2): the cosine of a sentence to the nearest of them, and their share of the denominator of its loss
        (Wu et al. 2021, equation 5, lambda 1), if the views of a sentence were the same.
    """
    directions, found = _normalize_rows(embeddings), np.zeros((len(batch_sizes), 2))
    for place, size in enumerate(batch_sizes):
        for batch in range(n_batches):
            chosen = directions[make_generator(seed, f"probe {size}", batch).permutation(len(directions))[:size]]
            drawn = draw_noise(seed, batch, round(multiple * size), directions.shape[1], 0.0, 1.0).numpy()
            strange = chosen @ _normalize_rows(drawn).T
            own, others = np.exp(strange / temperature).sum(axis=1), np.exp(chosen @ chosen.T / temperature).sum(axis=1)
            found[place] += strange.max(axis=1).mean(), (own / (own + others)).mean()
    return found / n_batches


def _normalize_rows(vectors: npt.NDArray[np.float32]) -> Floats:
    long = np.asarray(vectors, dtype=np.float64)
    unit: Floats = long / np.linalg.norm(long, axis=1, keepdims=True)
    return unit
