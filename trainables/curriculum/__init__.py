"""Curriculum learning for ranking: pacing functions, difficulty scores, the sampler. Penha and Hauff (2020)."""

from trainables.curriculum.pacing import PACING
from trainables.curriculum.scores import DIFFICULTY_SCORES

__all__ = ["DIFFICULTY_SCORES", "PACING"]
