"""Label relaxation, which turns any negative log-likelihood into a loss with a margin for the labels."""

import math

from torch import Tensor


def relax(losses: Tensor, epsilon: float) -> Tensor:
    """Return the relaxed losses: 0 where the target has at least the probability 1 - epsilon.

    Elsewhere it is the divergence of the prediction p from the nearest distribution that gives the target 1 - epsilon:
    (1 - epsilon) log((1 - epsilon) / p) + epsilon log(epsilon / (1 - p)). Lienen and Hüllermeier (2021), "From Label
    Smoothing to Label Relaxation", section 3, with epsilon for their alpha; for rankers Sharma et al. (2025),
    "Calibrating Language Models for Neural Ranking under Noisy Supervision with Relaxed Labels".

    Args:
        losses: negative log-likelihood of the hard targets, -log p, shape (terms,).
        epsilon: probability that the target may lack, above 0 and at most 1.

    Returns:
        Losses of shape (terms,), finite wherever `losses` is finite.

    Example:
        >>> import torch
        >>> relax(-torch.tensor([0.95, 0.5]).log(), epsilon=0.1)
        tensor([0.0000, 0.3681])
    """
    if epsilon >= 1:
        return losses * 0
    allowed = -math.log1p(-epsilon)  # the loss at which the target has exactly the probability 1 - epsilon
    wrong = losses.clamp(min=allowed)
    divergence = (1 - epsilon) * (wrong - allowed) + epsilon * (math.log(epsilon) - (-(-wrong).expm1()).log())
    return divergence.where(losses > allowed, losses * 0)
