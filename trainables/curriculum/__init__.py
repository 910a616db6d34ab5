"""Curriculum learning for ranking (Penha and Hauff 2020): pacing, difficulty scores and sampling."""

from trainables.curriculum.pacing import PACING
from trainables.curriculum.scores import DIFFICULTY_SCORES

__all__ = ["DIFFICULTY_SCORES", "PACING"]
