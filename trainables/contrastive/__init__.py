"""Contrastive loss of sentence encoders, smoothed with noise: Wu et al. (2021), GS-InfoNCE."""

from trainables.contrastive.loss import draw_noise, info_nce

__all__ = ["draw_noise", "info_nce"]
