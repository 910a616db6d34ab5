"""Label-smoothing targets and the schedules of epsilon.

Penha and Hauff (2021), "Weakly Supervised Label Smoothing".
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from trainables.smoothing.schedules import SCHEDULES
from trainables.utils.registry import Entry, Registry, make_lazy_getattr

if TYPE_CHECKING:
    from trainables.smoothing.distributions import target_distribution
    from trainables.utils.arrays import Floats

__all__ = ["DISTRIBUTIONS", "SCHEDULES", "target_distribution"]

DISTRIBUTIONS: "Registry[Callable[[Floats, Floats], Floats]]" = Registry(
    Entry(
        "none",
        "trainables.smoothing.distributions:keep_labels",
        "the hard labels, without smoothing",
        "Penha and Hauff (2021), BERT",
    ),
    Entry(
        "uniform",
        "trainables.smoothing.distributions:smooth_uniformly",
        "relevant and not relevant with probability 1/2 each",
        "Szegedy et al. (2016); Penha and Hauff (2021), LS and T-LS",
        ("epsilon",),
    ),
    Entry(
        "weak_supervision",
        "trainables.smoothing.distributions:smooth_by_weak_labels",
        "a non-relevant document is relevant with its weak label, a relevant one with 1/2",
        "Penha and Hauff (2021), WSLS and T-WSLS",
        ("epsilon",),
    ),
)
"""Name -> function of (labels, weak labels), both of shape (n,).

It returns the probability of "relevant" that each label is mixed with, shape (n,)."""

__getattr__ = make_lazy_getattr(__name__, {"target_distribution": "distributions"})
