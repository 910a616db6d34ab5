"""Contrastive loss of two views of a batch, and the noise vectors that smooth it.

InfoNCE with dropout as the only augmentation: Gao et al. (2021), SimCSE, equation 4. Gaussian noise among the
negatives: Wu et al. (2021), GS-InfoNCE, equations 4 and 5.
"""

import math

import numpy as np
import torch
from torch import Tensor, nn

from trainables.utils.random import make_generator


def info_nce(
    first: Tensor, second: Tensor, temperature: float, noise: Tensor | None = None, noise_weight: float = 1.0
) -> Tensor:
    """Return the InfoNCE loss of a batch, with optional noise vectors among the negatives.

    The loss is the mean over i of
    -log(exp(cos(h_i, h+_i) / tau) / (sum_j exp(cos(h_i, h+_j) / tau) + lambda Z_i)), with
    Z_i = sum_k exp(cos(h_i, g_k) / tau).

    Args:
        first: embeddings h of the first views, shape (N, hidden).
        second: embeddings h+ of the second views in the same order, shape (N, hidden).
        temperature: tau, above 0.
        noise: noise vectors g of shape (M, hidden); they receive no gradient. With None or M = 0 the loss is InfoNCE.
        noise_weight: lambda, at least 0. With 0 the loss is InfoNCE. Default 1.

    Returns:
        Loss, a scalar tensor.

    Example:
        >>> import torch
        >>> views = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> round(info_nce(views, views, temperature=1.0).item(), 4)
        0.3133
        >>> round(info_nce(views, views, temperature=1.0, noise=torch.tensor([[1.0, 1.0]])).item(), 4)
        0.7486
    """
    first = nn.functional.normalize(first, dim=1)
    logits = first @ nn.functional.normalize(second, dim=1).T / temperature  # (N, N)
    if noise is not None and len(noise) and noise_weight > 0:
        noise_logits = first @ nn.functional.normalize(noise.detach(), dim=1).T / temperature  # (N, M)
        logits = torch.cat([logits, noise_logits + math.log(noise_weight)], dim=1)
    return nn.functional.cross_entropy(logits, torch.arange(len(first), device=first.device))


def draw_noise(seed: int, step: int, count: int, hidden: int) -> Tensor:
    """Return the noise vectors of one batch of a run.

    Args:
        seed: seed of the run.
        step: 0-based batch number.
        count: number of vectors.
        hidden: components per vector.

    Returns:
        float32 tensor of shape (count, hidden); each component is drawn from N(0, 1).

    Example:
        >>> noise = draw_noise(seed=1, step=0, count=3, hidden=8)
        >>> noise.shape
        torch.Size([3, 8])
        >>> bool((noise == draw_noise(seed=1, step=0, count=3, hidden=8)).all())
        True
    """
    return torch.from_numpy(make_generator(seed, "noise", step).standard_normal((count, hidden), dtype=np.float32))
