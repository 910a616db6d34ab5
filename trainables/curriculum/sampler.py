"""Curriculum learning: samples the training queries of a batch by difficulty and pacing.

At step t, a batch is sampled uniformly from the easiest share f(t) of the training queries. Penha and Hauff (2020),
"Curriculum Learning Strategies for IR", section 3. An instance of the curriculum is a query with its candidates. The
difficulty of a query is computed in `trainables.difficulty`; the pacing functions f are in
`trainables.curriculum.pacing`.
"""

from typing import NamedTuple

import numpy as np

from trainables.curriculum.curriculum_settings import CurriculumSettings
from trainables.curriculum.pacing import PACING as PACING
from trainables.utils.arrays import Floats, Ints
from trainables.utils.random import make_generator


class Curriculum(NamedTuple):
    """Curriculum of a run: its settings and the difficulty of each training query."""

    settings: CurriculumSettings
    difficulty: Floats
    """(queries,) difficulty score of each training query; low is easy, and equal ones are shuffled."""


class CurriculumSampler:
    """Decides which training queries the batches of a run may contain.

    Example:
        >>> settings = CurriculumSettings(pacing="linear", score="turns", delta=0.5, duration=1.0)
        >>> difficulty = np.array([4.0, 1.0, 3.0, 2.0])
        >>> sampler = CurriculumSampler(Curriculum(settings, difficulty), seed=1, steps=10)
        >>> [sampler.count_available(step) for step in (0, 5, 10)]
        [2, 3, 4]
        >>> sampler.list_available(5).tolist()
        [1, 3, 2]
    """

    def __init__(self, curriculum: Curriculum, seed: int, steps: int) -> None:
        self._settings = curriculum.settings
        self._full = curriculum.settings.duration * steps
        self._order = order_by_difficulty(curriculum.difficulty, seed)

    def count_available(self, step: int) -> int:
        """Return how many of the easiest queries the batch of a step may contain."""
        settings = self._settings
        share = PACING[settings.pacing](step, self._full, settings.delta)
        return max(1, int(round(share * len(self._order), 6)))

    def list_available(self, step: int) -> Ints:
        """Return the indices of the queries that the batch of a step may contain, easiest first."""
        available: Ints = self._order[: self.count_available(step)]
        return available


def order_by_difficulty(difficulty: Floats, seed: int) -> Ints:
    """Return the indices of the queries, easiest first.

    Args:
        difficulty: (queries,) difficulty scores.
        seed: seed of the run; it draws the order of equally difficult queries.

    Returns:
        (queries,) indices.

    Example:
        >>> order_by_difficulty(np.array([0.3, 0.1, 0.2]), seed=1).tolist()
        [1, 2, 0]
    """
    tie_breaker = make_generator(seed, "curriculum order", 0).permutation(len(difficulty))
    order: Ints = np.lexsort((tie_breaker, difficulty))
    return order


def sample_uniform(seed: int, step: int, available: int, count: int) -> Ints:
    """Sample indices uniformly, without replacement if enough are available.

    Args:
        seed: seed of the run.
        step: training step; each step has its own draw.
        available: the indices are below this number.
        count: number of indices.

    Returns:
        (count,) indices.
    """
    generator = make_generator(seed, "curriculum", step)
    chosen: Ints = generator.choice(available, count, replace=count > available)
    return chosen
