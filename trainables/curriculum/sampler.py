"""Curriculum learning: which training queries a batch may hold, by their difficulty and the pace.

At step t a batch is sampled uniformly from the first f(t) share of the training queries, easiest first: Penha and Hauff
(2020), "Curriculum Learning Strategies for IR", section 3. An instance of the curriculum is a query with its
candidates. The difficulty of a query is computed in `trainables.difficulty`; the pacing functions are in
`trainables.curriculum.pacing`.
"""

from typing import NamedTuple

import numpy as np

from trainables.curriculum.pacing import PACING as PACING
from trainables.curriculum.settings import CurriculumSettings
from trainables.utils.arrays import Floats, Ints
from trainables.utils.random import make_generator


class Curriculum(NamedTuple):
    """What a run's curriculum is made of."""

    settings: CurriculumSettings
    difficulty: Floats
    """(queries,) of each training query, low is easy; equal ones are shuffled."""


class CurriculumSampler:
    """The queries of a run's batches.

    Args:
        curriculum: its difficulties and its pace.
        seed: the run's.
        steps: of the whole training.
    """

    def __init__(self, curriculum: Curriculum, seed: int, steps: int) -> None:
        self._settings, self._seed = curriculum.settings, seed
        self._full = curriculum.settings.duration * steps
        self._order = order_by_difficulty(curriculum.difficulty, seed)

    def count_available(self, step: int) -> int:
        """How many of the easiest queries may be in batch `step`."""
        settings = self._settings
        share = PACING[settings.pacing](step, self._full, settings.delta)
        return max(1, int(round(share * len(self._order), 6)))

    def sample_batch(self, step: int, count: int) -> Ints:
        """(count,) queries of batch `step`."""
        chosen: Ints = self._order[sample_uniform(self._seed, step, self.count_available(step), count)]
        return chosen


def order_by_difficulty(difficulty: Floats, seed: int) -> Ints:
    """(queries,) places in the order of difficulty; equally difficult ones in an order that the seed draws."""
    drawn = make_generator(seed, "curriculum order", 0).permutation(len(difficulty))
    order: Ints = np.lexsort((drawn, difficulty))
    return order


def sample_uniform(seed: int, step: int, available: int, count: int) -> Ints:
    """(count,) places below `available`, each equally likely, distinct if there are enough; drawn anew each step."""
    draw = make_generator(seed, "curriculum", step)
    chosen: Ints = draw.choice(available, count, replace=count > available)
    return chosen
