"""Contrastive loss of sentence encoders, smoothed with noise: Wu et al. (2021), GS-InfoNCE."""

from typing import TYPE_CHECKING

from trainables.utils.registry import make_lazy_getattr

if TYPE_CHECKING:
    from trainables.contrastive.loss import draw_noise, info_nce

__all__ = ["draw_noise", "info_nce"]

__getattr__ = make_lazy_getattr(__name__, {"info_nce": "loss", "draw_noise": "loss"})
