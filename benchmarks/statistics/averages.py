"""Levels and power of the average over tasks, with seeds that vary alike on all tasks or far more on one.

python -m benchmarks.statistics.averages [STUDIES]

Scores are normal. Each task has its own queries and runs, and as many seeds and queries as the others. The test of the
product (`average_estimates`) is compared with Satterthwaite's own degrees of freedom over all parts of the variance.
The level is the highest over all cells. A first simulation chooses the cells with the highest levels. These come from a
second one with ten times as many studies. Power is that of three tasks with 1,000 queries each: the
difference in the mean that is found with 80 % power.
"""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from analysis.stats.power import DifferenceVariance
from analysis.stats.two_way import MIN_SEED_SHARE
from benchmarks.statistics.power import compute_power, find_difference, true_error
from benchmarks.statistics.simulation import (
    REST_SD,
    SEED_SD,
    Estimator,
    Floats,
    Spread,
    Squares,
    critical_differences,
    draw_squares,
    format_level,
    format_share,
    get_caution,
    print_header,
    print_row,
    run_with_count,
)

STUDIES, FRESH, LEVELS = 10_000, 10, (0.05, 0.01, 0.005)
SEEDS, TASKS, QUERIES, QUERY_SDS = (3, 5, 10), (2, 3, 4, 5, 6), (200, 1_000, 5_000), (0.0, 0.05, 0.15)
FIRST_AND_OTHERS = (
    (0.003, 0.003),
    (0.01, 0.01),
    (0.03, 0.03),
    (0.03, 0.003),
    (0.01, 0.003),
    (0.03, 0.01),
    (0.003, 0.03),
)
"""Deviations between seeds on the first task and on the others."""


class Tasks(NamedTuple):
    """Studies of one comparison on several tasks.

    Attributes:
        seed_sds: deviation of a system's scores between seeds, on each task.
        queries: queries of each task.
        query_sd: deviation of query x system.
    """

    seed_sds: tuple[float, ...]
    queries: int
    query_sd: float

    def list_variances(self) -> list[DifferenceVariance]:
        """Return the variances of the difference of two systems on each task."""
        return [DifferenceVariance(2 * sd**2, 2 * self.query_sd**2, 2 * REST_SD**2) for sd in self.seed_sds]

    def draw(self, seeds: int, studies: int, rng: np.random.Generator) -> Squares:
        """Draw (studies, tasks) comparisons of two equal systems."""
        tasks = [draw_squares(seeds, self.queries, variance, studies, rng) for variance in self.list_variances()]
        return Squares(
            seeds, self.queries, *(np.stack(own, -1) for own in zip(*(one[2:] for one in tasks), strict=True))
        )

    def compute_error(self, seeds: int) -> float:
        """Return the true standard error of the mean over tasks."""
        errors = [true_error(variance, seeds, self.queries) for variance in self.list_variances()]
        return float(np.linalg.norm(errors)) / len(errors)


CELLS = [
    Tasks((first, *[others] * (tasks - 1)), queries, query_sd)
    for tasks, (first, others), queries, query_sd in product(TASKS, FIRST_AND_OTHERS, QUERIES, QUERY_SDS)
]


def estimate_average(squares: Squares, level: float) -> Spread:
    """`average_estimates`: the largest of the parts that seeds have in the variance counts with caution."""
    few, more = _get_parts(squares)
    largest = np.where(few == few.max(-1, keepdims=True), few / get_caution(level, squares.seeds - 1), few)
    df = np.minimum(_compute_df(squares, few, more), _compute_df(squares, largest, more))
    return _compute_error(few, more), df


def estimate_satterthwaite_average(squares: Squares, level: float) -> Spread:
    """The same variance with Satterthwaite's degrees of freedom over all parts."""
    few, more = _get_parts(squares)
    return _compute_error(few, more), _compute_df(squares, few, more)


ESTIMATORS: dict[str, Estimator] = {"here": estimate_average, "Satterthwaite": estimate_satterthwaite_average}
Key = tuple[str, float]
KEYS: list[Key] = list(product(ESTIMATORS, LEVELS))


def _get_parts(squares: Squares) -> tuple[Floats, Floats]:
    """Return what seeds and queries add to the variance of the mean on each task, (studies, tasks)."""
    few = np.maximum(squares.ms_seed, MIN_SEED_SHARE * squares.ms_residual)
    more = np.maximum(squares.ms_query - squares.ms_residual, 0)
    return few / (squares.seeds * squares.queries), more / (squares.seeds * squares.queries)


def _compute_error(few: Floats, more: Floats) -> Floats:
    return np.sqrt((few + more).sum(-1)) / few.shape[-1]


def _compute_df(squares: Squares, few: Floats, more: Floats) -> Floats:
    spread = (few**2 / (squares.seeds - 1) + more**2 / (squares.queries - 1)).sum(-1)
    return (few + more).sum(-1) ** 2 / spread


def measure_levels(cell: Tasks, seeds: int, studies: int, rng: np.random.Generator) -> dict[Key, float]:
    """Return the level of each test in a cell."""
    squares, error = cell.draw(seeds, studies, rng), cell.compute_error(seeds)
    return {
        (name, level): compute_power(critical_differences(ESTIMATORS[name], squares, level), error, 0.0)
        for name, level in KEYS
    }


def measure_highest(seeds: int, studies: int, cells: Sequence[Tasks] = CELLS) -> dict[Key, tuple[float, Tasks]]:
    """Return the highest level of each test over the cells, from fresh draws, and its cell."""
    rngs = [np.random.default_rng([2616, seeds, number]) for number in range(2)]
    first = {cell: measure_levels(cell, seeds, studies, rngs[0]) for cell in cells}
    highest = {key: max(cells, key=lambda cell: first[cell][key]) for key in KEYS}
    chosen = dict.fromkeys(highest.values())
    fresh = {cell: measure_levels(cell, seeds, FRESH * studies, rngs[1]) for cell in chosen}
    return {key: (fresh[cell][key], cell) for key, cell in highest.items()}


def main(studies: int) -> None:
    """Print the highest levels of both tests, and the differences that they find."""
    print(
        f"Highest level over {len(CELLS)} cells, {studies:,} studies each, the highest from {FRESH * studies:,} fresh\n"
    )
    print_header(
        "seeds", "test", *(f"{level:g}" for level in LEVELS), "cell at .005: seed deviations; queries; query SD"
    )
    for seeds in SEEDS:
        found = measure_highest(seeds, studies)
        for name in ESTIMATORS:
            cell = found[name, LEVELS[-1]][1]
            where = f"{', '.join(f'{sd:g}' for sd in cell.seed_sds)}; {cell.queries:,}; {cell.query_sd:g}"
            print_row(seeds, name, *(format_level(found[name, level][0], level) for level in LEVELS), where)
    print("\nDifference found with 80 % power, 3 tasks with 1,000 queries\n")
    print_header("seed deviations", "seeds", *(f"{name}, {level:g}" for name, level in KEYS))
    for deviations, seeds in product(((SEED_SD,) * 3, (0.03, 0.003, 0.003)), SEEDS):
        cell = Tasks(deviations, 1_000, 0.05)
        squares = cell.draw(seeds, FRESH * studies, np.random.default_rng([2617, seeds]))
        critical = [critical_differences(ESTIMATORS[name], squares, level) for name, level in KEYS]
        differences = [find_difference(one, cell.compute_error(seeds)) for one in critical]
        print_row(", ".join(f"{sd:g}" for sd in deviations), seeds, *(format_share(one, 4) for one in differences))


if __name__ == "__main__":
    run_with_count(main, STUDIES)
