"""Curriculum learning for ranking (Penha and Hauff 2020): pacing, difficulty scores and sampling."""

from trainables.curriculum.difficulty_scores import DIFFICULTY_SCORES
from trainables.curriculum.pacing import PACING

__all__ = ["DIFFICULTY_SCORES", "PACING"]
