"""Label-smoothing targets and the schedules of epsilon.

Penha and Hauff (2021), "Weakly Supervised Label Smoothing".
"""

from typing import TYPE_CHECKING

from trainables.smoothing.schedules import SCHEDULES
from trainables.utils.lazy import make_lazy_getattr

if TYPE_CHECKING:
    from trainables.smoothing.distributions import DISTRIBUTIONS, target_distribution

__all__ = ["DISTRIBUTIONS", "SCHEDULES", "target_distribution"]

__getattr__ = make_lazy_getattr(__name__, {"DISTRIBUTIONS": "distributions", "target_distribution": "distributions"})
