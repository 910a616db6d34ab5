"""Losses of two documents of a query: a relevant one and another."""

from torch import Tensor, nn


def ranknet(differences: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy of the probability that the first document is the better one.

    With the difference o and the target P it is -P o + log(1 + exp(o)): Burges et al. (2005), "Learning to Rank using
    Gradient Descent", equation 3.

    Args:
        differences: logit of the first document minus that of the second, shape (pairs,).
        targets: probability that the first is better, in [0, 1], shape (pairs,).

    Returns:
        Loss of each pair of documents, shape (pairs,).

    Example:
        >>> import torch
        >>> ranknet(torch.tensor([2.0, 0.0]), torch.tensor([1.0, 0.9]))
        tensor([0.1269, 0.6931])
    """
    return nn.functional.binary_cross_entropy_with_logits(differences, targets, reduction="none")


def margin_mse(differences: Tensor, targets: Tensor) -> Tensor:
    """Return the squared error of the difference of two logits.

    Hofstätter et al. (2020), "Improving Efficient Neural Ranking Models with Cross-Architecture Knowledge
    Distillation", section 3.

    Args:
        differences: logit of the first document minus that of the second, shape (pairs,).
        targets: difference of the scores that are learnt, shape (pairs,).

    Returns:
        Loss of each pair of documents, shape (pairs,).

    Example:
        >>> import torch
        >>> margin_mse(torch.tensor([2.0]), torch.tensor([0.5]))
        tensor([2.2500])
    """
    return (differences - targets).square()
