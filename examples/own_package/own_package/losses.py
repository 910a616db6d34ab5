"""A loss of two documents of a query."""

from typing import TYPE_CHECKING

from trainables.losses import LOSSES, Loss

if TYPE_CHECKING:  # --list and --dry-run need no torch
    from torch import Tensor


def hinge(differences: "Tensor", targets: "Tensor") -> "Tensor":
    """Return by how much the differences of two logits fall short of their targets.

    With targets of 1 it is the loss of the ranking support vector machine: Herbrich, Graepel and Obermayer (2000),
    "Large Margin Rank Boundaries for Ordinal Regression".

    Args:
        differences: logit of a relevant document minus that of another, shape (pairs,).
        targets: margin that is enough, shape (pairs,).

    Returns:
        Loss of each pair of documents, shape (pairs,).

    Example:
        >>> import torch
        >>> hinge(torch.tensor([2.0, 0.25]), torch.tensor([1.0, 1.0]))
        tensor([0.0000, 0.7500])
    """
    return (targets - differences).clamp(min=0)


LOSSES.register(
    "hinge",
    "by how much the margin between a relevant and another document falls short of 1",
    "Herbrich, Graepel and Obermayer (2000)",
)(Loss("Hinge", "own_package.losses:hinge", "margin", is_likelihood=False))
