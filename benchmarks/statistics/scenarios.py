"""Scores of equal systems with distributions that break the model of the tests.

Each scenario returns scores (studies, systems, seeds, queries). Those of runs return what a seed does to the mean of a
run (studies, systems, seeds), and `simulation.draw_comparisons_of_runs` adds the rest. All systems have the same true
mean, so every rejection is a false one.
"""

from collections.abc import Callable, Collection, Iterator

import numpy as np

from benchmarks.statistics.simulation import QUERY_SD, REST_SD, SEED_SD, Floats, Squares

Shape = tuple[int, int, int, int]
"""Studies, systems, seeds, queries."""
Scenario = Callable[[np.random.Generator, Shape], Floats]
RunScenario = Callable[[np.random.Generator, tuple[int, int, int]], Floats]
COLLAPSE_SHARE, COLLAPSE_LOSSES, BAD_LUCK = 0.1, (0.15, 0.28), 0.03
"""Share of the runs that collapse; losses that two runs of smoothing-qqp-random (docs/results/evidence) had; mean of
an exponential loss.
"""
_BLOCK = 2**22
"""Number of scores that are drawn at once."""


def draw_normal(rng: np.random.Generator, shape: Shape) -> Floats:
    """The model itself."""
    return _add(rng, shape, SEED_SD * rng.standard_normal(shape[:3]))


def draw_shared_seeds(rng: np.random.Generator, shape: Shape) -> Floats:
    """Each seed moves all systems together by a deviation of .05, in addition to .006 of each system."""
    return _add(
        rng, shape, 0.05 * rng.standard_normal((shape[0], 1, shape[2])) + SEED_SD * rng.standard_normal(shape[:3])
    )


def draw_binary(rng: np.random.Generator, shape: Shape) -> Floats:
    """Hits and misses; difficulty of queries, query x system and runs move the log-odds."""
    studies, systems, seeds, queries = shape
    odds = rng.normal(0.5, 1.5, (studies, 1, 1, queries)) + rng.normal(0, 0.4, (studies, systems, 1, queries))
    odds = odds + rng.normal(0, 0.05, (studies, systems, seeds, 1))
    return (rng.random(shape) < 1 / (1 + np.exp(-odds))).astype(np.float64)


def draw_tied(rng: np.random.Generator, shape: Shape) -> Floats:
    """Reciprocal ranks that are mostly the same for both systems: 19 of 20 queries are easy for every run."""
    hard = rng.random((shape[0], 1, 1, shape[3])) < 0.05
    ranks = 1 + rng.geometric(0.35, shape) * (rng.random(shape) < 0.5 + 0.1 * rng.standard_normal((*shape[:3], 1)))
    return np.where(hard, 1 / ranks, 1.0)


def draw_heavy_tails(rng: np.random.Generator, shape: Shape) -> Floats:
    """t distributions with 3 degrees of freedom for seeds, query x system and the rest, with the usual deviations."""
    scale = 3**-0.5
    run = SEED_SD * scale * rng.standard_t(3, shape[:3])
    query = QUERY_SD * scale * rng.standard_t(3, (*shape[:2], 1, shape[3]))
    return run[..., None] + query + REST_SD * scale * rng.standard_t(3, shape)


def draw_unequal_seeds(rng: np.random.Generator, shape: Shape) -> Floats:
    """The rest of a run has a deviation between half and twice the usual one, and its mean moves in proportion."""
    factor = 2 ** rng.uniform(-1, 1, shape[:3])
    query = QUERY_SD * rng.standard_normal((*shape[:2], 1, shape[3]))
    run = SEED_SD * factor * rng.standard_normal(shape[:3])
    return run[..., None] + query + REST_SD * factor[..., None] * rng.standard_normal(shape)


def draw_unequal_systems(rng: np.random.Generator, shape: Shape) -> Floats:
    """The seeds of system 1 have nine times the variance of the others'."""
    deviations = np.where(np.arange(shape[1]) == 1, 3 * SEED_SD, SEED_SD)[:, None]
    return _add(rng, shape, deviations * rng.standard_normal(shape[:3]))


def draw_rare_losses(rng: np.random.Generator, shape: Shape) -> Floats:
    """System 1 loses 1 on one query in 200, with every seed, and has gained .005 on all."""
    return draw_normal(rng, shape) + _rare_losses(rng, shape)


def draw_rare_losses_with_little_noise(rng: np.random.Generator, shape: Shape) -> Floats:
    """The same with half of all deviations, so that a study without such a query looks better than it is."""
    return draw_normal(rng, shape) / 2 + _rare_losses(rng, shape)


def _rare_losses(rng: np.random.Generator, shape: Shape) -> Floats:
    is_losing = (np.arange(shape[1]) == 1)[:, None, None]
    return is_losing * (0.005 - (rng.random((shape[0], 1, 1, shape[3])) < 0.005))


def collapse(
    rng: np.random.Generator, shape: tuple[int, int, int], loss: float, systems: Collection[int] = (1,)
) -> Floats:
    """One run in ten of the systems loses this much; their other runs are better by what that costs on average."""
    lost = loss * (COLLAPSE_SHARE - (rng.random(shape) < COLLAPSE_SHARE))
    is_affected = np.isin(np.arange(shape[1]), [*systems])[:, None]
    return SEED_SD * rng.standard_normal(shape) + is_affected * lost


def lose_by_bad_luck(rng: np.random.Generator, shape: tuple[int, int, int]) -> Floats:
    """Each run of system 1 loses by an exponential distribution with a deviation of .03, less its mean."""
    lost = BAD_LUCK * (1 - rng.standard_exponential(shape))
    return SEED_SD * rng.standard_normal(shape) + (np.arange(shape[1]) == 1)[:, None] * lost


def _add(rng: np.random.Generator, shape: Shape, runs: Floats) -> Floats:
    """Add normal query x system and rest to what moves the means of runs (studies, systems, seeds)."""
    query = QUERY_SD * rng.standard_normal((*shape[:2], 1, shape[3]))
    return runs[..., None] + query + REST_SD * rng.standard_normal(shape)


def draw_comparisons(scenario: Scenario, shape: Shape, rng: np.random.Generator) -> Squares:
    """Draw a scenario and compare each other system with system 0: (studies, systems - 1) comparisons."""
    parts = list(_draw_blocks(scenario, shape, rng))
    arrays = [np.concatenate(values) for values in zip(*(part[2:] for part in parts), strict=True)]
    return Squares(shape[2], shape[3], *arrays)


def _draw_blocks(scenario: Scenario, shape: Shape, rng: np.random.Generator) -> Iterator[Squares]:
    studies, *rest = shape
    size = max(1, _BLOCK // int(np.prod(rest)))
    for start in range(0, studies, size):
        scores = scenario(rng, (min(size, studies - start), *rest))
        yield Squares.from_differences(scores[:, 1:] - scores[:, :1])
