"""Similarity of a sentence to its nearest neighbours in a batch, by batch size.

Wu et al. (2021), figure 1: in a larger batch the nearest other sentence is more similar, but contrastive learning still
treats it as a negative.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from trainables.contrastive.loss import draw_noise
from trainables.utils.arrays import Floats
from trainables.utils.random import make_generator

N_NEIGHBOURS = 4
"""Number of nearest neighbours per sentence."""
N_BATCHES = 100
"""Random batches for each batch size."""


def compute_neighbour_similarity(
    embeddings: npt.NDArray[np.float32], batch_sizes: Sequence[int], seed: int = 0, n_batches: int = N_BATCHES
) -> Floats:
    """Return the cosines of a batch's sentences to their nearest neighbours in the batch.

    The cosines are averaged over the sentences and over random batches.

    Args:
        embeddings: embeddings of shape (sentences, hidden).
        batch_sizes: batch sizes, each above `N_NEIGHBOURS` and at most `sentences`.
        seed: seed of the draws of the batches, default 0.
        n_batches: random batches for each size, default `N_BATCHES`.

    Returns:
        Array of shape (batch sizes, `N_NEIGHBOURS`), the nearest neighbour first.

    Raises:
        ValueError: if a batch size is too small or too large.

    Example:
        >>> import numpy as np
        >>> compute_neighbour_similarity(np.eye(8, dtype=np.float32), batch_sizes=[5, 8], n_batches=2)
        array([[0., 0., 0., 0.],
               [0., 0., 0., 0.]])
    """
    if invalid := [size for size in batch_sizes if not N_NEIGHBOURS < size <= len(embeddings)]:
        limits = f"more than {N_NEIGHBOURS} and at most {len(embeddings)}"
        raise ValueError(f"batches of {invalid[0]} sentences; a batch must have {limits}")
    directions, similarities = _normalize_rows(embeddings), np.zeros((len(batch_sizes), N_NEIGHBOURS))
    for index, size in enumerate(batch_sizes):
        for batch in range(n_batches):
            chosen = directions[make_generator(seed, f"probe {size}", batch).permutation(len(directions))[:size]]
            cosines = chosen @ chosen.T
            np.fill_diagonal(cosines, -np.inf)
            similarities[index] += np.sort(cosines, axis=1)[:, : -N_NEIGHBOURS - 1 : -1].mean(axis=0)
    return similarities / n_batches


def compute_noise_similarity(
    embeddings: npt.NDArray[np.float32],
    batch_sizes: Sequence[int],
    multiple: float,
    temperature: float,
    seed: int = 0,
    n_batches: int = N_BATCHES,
) -> Floats:
    """Return the cosine of sentences to Gaussian noise vectors, and the noise's share of the loss.

    A batch of a given size gets `multiple` x size noise vectors. The values are averaged over the sentences and over
    random batches.

    Args:
        embeddings: embeddings of shape (sentences, hidden).
        batch_sizes: batch sizes.
        multiple: M, the number of noise vectors, as a multiple of the batch size.
        temperature: tau of the loss.
        seed: seed of the draws, default 0.
        n_batches: random batches for each size, default `N_BATCHES`.

    Returns:
        Array of shape (batch sizes, 2). The first column is the cosine of a sentence to its nearest noise vector. The
        second column is the noise's share of the denominator of the loss (Wu et al. 2021, equation 5, lambda 1), if the
        two views of a sentence were equal.

    Example:
        >>> import numpy as np
        >>> compute_noise_similarity(np.eye(8, dtype=np.float32), [4, 8], multiple=3, temperature=0.05).shape
        (2, 2)
    """
    directions, similarities = _normalize_rows(embeddings), np.zeros((len(batch_sizes), 2))
    for index, size in enumerate(batch_sizes):
        for batch in range(n_batches):
            chosen = directions[make_generator(seed, f"probe {size}", batch).permutation(len(directions))[:size]]
            noise = draw_noise(seed, batch, round(multiple * size), directions.shape[1], 0.0, 1.0).numpy()
            cosines = chosen @ _normalize_rows(noise).T
            noise_terms = np.exp(cosines / temperature).sum(axis=1)
            sentence_terms = np.exp(chosen @ chosen.T / temperature).sum(axis=1)
            similarities[index] += cosines.max(axis=1).mean(), (noise_terms / (noise_terms + sentence_terms)).mean()
    return similarities / n_batches


def _normalize_rows(vectors: npt.NDArray[np.float32]) -> Floats:
    doubles = np.asarray(vectors, dtype=np.float64)
    unit: Floats = doubles / np.linalg.norm(doubles, axis=1, keepdims=True)
    return unit
