"""The contrastive loss of sentence encoders, smoothed with noise: Wu et al. (2021), GS-InfoNCE."""

from typing import TYPE_CHECKING

from trainables.utils.lazy import lazy_attributes

if TYPE_CHECKING:
    from trainables.contrastive.loss import info_nce, noise

__all__ = ["info_nce", "noise"]

__getattr__ = lazy_attributes(__name__, {"info_nce": "loss", "noise": "loss"})
