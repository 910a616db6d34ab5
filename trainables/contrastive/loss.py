"""The contrastive loss of two views of a batch, and the noise vectors that smooth it.

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
    """The mean over i of -log(exp(cos(h_i, h+_i) / tau) / (sum_j exp(cos(h_i, h+_j) / tau) + lambda Z_i)), with
    Z_i = sum_k exp(cos(h_i, g_k) / tau).

    Args:
        first: (N, hidden) embeddings h of the first views.
        second: (N, hidden) embeddings h+ of the second views, in the same order.
        temperature: tau.
        noise: (M, hidden) vectors g, which get no gradient; none, or M = 0: InfoNCE.
        noise_weight: lambda >= 0; 0: InfoNCE.
    """
    first = nn.functional.normalize(first, dim=1)
    logits = first @ nn.functional.normalize(second, dim=1).T / temperature  # (N, N)
    if noise is not None and len(noise) and noise_weight > 0:
        strange = first @ nn.functional.normalize(noise.detach(), dim=1).T / temperature  # (N, M)
        logits = torch.cat([logits, strange + math.log(noise_weight)], dim=1)
    return nn.functional.cross_entropy(logits, torch.arange(len(first), device=first.device))


def draw_noise(seed: int, step: int, count: int, hidden: int, mean: float, deviation: float) -> Tensor:
    """(count, hidden) float32, each component from N(mean, deviation^2): the noise of batch `step` of a run."""
    drawn = make_generator(seed, "noise", step).standard_normal((count, hidden), dtype=np.float32)
    return torch.from_numpy(mean + deviation * drawn)
