"""Losses of single query-document pairs."""

import torch
from torch import Tensor, nn


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy between two classes (Nogueira and Cho 2019; Penha and Hauff 2021, section 2).

    Args:
        logits: logits of not relevant and relevant, shape (pairs, 2).
        targets: probability of relevance in [0, 1], shape (pairs,).

    Returns:
        Loss of each pair, shape (pairs,).

    Example:
        >>> import torch
        >>> cross_entropy(torch.tensor([[0.0, 2.0]]), torch.tensor([1.0]))
        tensor([0.1269])
    """
    return nn.functional.cross_entropy(logits, torch.stack([1 - targets, targets], dim=1), reduction="none")


def binary_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy of the sigmoid of one logit.

    It equals `cross_entropy` of the logits (0, z).

    Args:
        logits: shape (pairs, 1).
        targets: probability of relevance in [0, 1], shape (pairs,).

    Returns:
        Loss of each pair, shape (pairs,).

    Example:
        >>> import torch
        >>> binary_cross_entropy(torch.tensor([[2.0]]), torch.tensor([1.0]))
        tensor([0.1269])
    """
    return nn.functional.binary_cross_entropy_with_logits(logits[:, 0], targets, reduction="none")
