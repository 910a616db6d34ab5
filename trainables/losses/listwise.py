"""Losses of all candidates of a query."""

import torch
from torch import Tensor


def softmax_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy of the softmax over the candidates of each query.

    With a one-hot target it is localised contrastive estimation: Gao, Dai and Callan (2021), "Rethink Training of BERT
    Rerankers in Multi-Stage Retrieval Pipeline", section 3. The negatives of a query are those that its sampler found.

    Args:
        logits: shape (queries, candidates).
        targets: distribution over the candidates of each query, shape (queries, candidates).

    Returns:
        Loss of each query, shape (queries,).

    Example:
        >>> softmax_cross_entropy(torch.tensor([[2.0, 0.0]]), torch.tensor([[1.0, 0.0]]))
        tensor([0.1269])
    """
    return -(targets * logits.log_softmax(dim=1)).sum(dim=1)


def kl_divergence(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the Kullback-Leibler divergence of the softmax over the candidates from the targets.

    The gradient is that of `softmax_cross_entropy`, and the smallest loss is 0. It is the top-one loss of ListNet (Cao
    et al. 2007, section 4) less a constant, with the temperature of Hinton et al. (2015) in the targets.

    Args:
        logits: shape (queries, candidates).
        targets: distribution over the candidates of each query, shape (queries, candidates).

    Returns:
        Loss of each query, shape (queries,).

    Example:
        >>> kl_divergence(torch.tensor([[2.0, 0.0]]), torch.tensor([[0.5, 0.5]]))
        tensor([0.4338])
    """
    return torch.xlogy(targets, targets).sum(dim=1) + softmax_cross_entropy(logits, targets)
