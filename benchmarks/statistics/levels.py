"""Levels of the tests for new queries and new seeds: the share of true hypotheses that they reject.

python -m benchmarks.statistics.levels [STUDIES]

First over a grid of variances, with normal scores: the lowest and the highest level. The extreme cells are chosen by a
first simulation and their levels come from a second one with fresh draws and ten times as many studies, because the
highest of many estimates is too high. Then for scores that break the model. Compared are the test of this project, the
classical one (the same variance with the degrees of freedom of Hillis 2007), and the one that racing uses
(Satterthwaite's degrees of freedom, a variance of at least the rest's).
"""

import itertools
import sys
import time
from collections.abc import Sequence

import numpy as np

from analysis.stats.power import DifferenceVariance
from benchmarks.statistics import scenarios
from benchmarks.statistics.scenarios import Scenario, draw_comparisons
from benchmarks.statistics.simulation import (
    Estimator,
    draw_squares,
    estimate_classical,
    estimate_here,
    estimate_satterthwaite,
    format_level,
    format_nominal,
    rejections,
)

STUDIES = 40_000
SEEDS, QUERIES, LEVELS = (2, 3, 5, 10), (50, 200, 1_000, 5_000), (0.05, 0.01, 0.005)
RATIOS = (0, 0.1, 0.3, 1, 3, 10, 30, 100, 1_000)
"""Expected excess of MS_seed, and of MS_query, over MS_residual, in units of MS_residual."""
GRID = list(itertools.product(RATIOS, RATIOS))
ESTIMATORS: dict[str, Estimator] = {
    "here": estimate_here,
    "classical": estimate_classical,
    "Satterthwaite": estimate_satterthwaite,
}
LOW_LEVELS = (0.001, 0.0002)
FRESH = 10
USUAL = ((3, 200), (3, 1_000), (5, 1_000), (10, 1_000))
RAW: dict[str, tuple[Scenario, tuple[tuple[int, int], ...]]] = {
    "normal": (scenarios.draw_normal, USUAL),
    "shared seed effects": (scenarios.draw_shared_seeds, USUAL),
    "binary": (scenarios.draw_binary, USUAL),
    "mostly tied": (scenarios.draw_tied, USUAL),
    "heavy tails": (scenarios.draw_heavy_tails, USUAL),
    "seeds of unequal variance": (scenarios.draw_unequal_seeds, USUAL),
    "systems of unequal variance": (scenarios.draw_unequal_systems, USUAL),
    "rare large losses": (scenarios.draw_rare_losses, ((3, 200), (10, 200), (3, 1_000), (10, 1_000))),
    "runs of one system collapse": (scenarios.draw_collapses, ((3, 1_000), (3, 5_000), (5, 1_000), (10, 1_000))),
    "runs of both collapse": (scenarios.draw_all_collapse, ((3, 1_000), (3, 5_000), (5, 1_000), (10, 1_000))),
    "rare large losses, little noise": (
        scenarios.draw_rare_losses_with_little_noise,
        ((3, 200), (10, 200), (3, 1_000), (10, 1_000)),
    ),
}

Key = tuple[str, float]
KEYS: list[Key] = list(itertools.product(ESTIMATORS, LEVELS))


def measure_cell(
    design: tuple[int, int], ratios: tuple[float, float], studies: int, rng: np.random.Generator
) -> dict[Key, float]:
    """Return the share of rejections of each estimator at each level, with normal scores.

    Args:
        design: numbers of seeds and queries.
        ratios: what seeds and queries add to their expected mean squares, in units of the rest's.
        studies: number of simulated studies.
        rng: generator of the draws.
    """
    seeds, queries = design
    variance = DifferenceVariance(ratios[0] / queries, ratios[1] / seeds, 1.0)
    squares = draw_squares(seeds, queries, variance, studies, rng)
    return {(name, level): float(rejections(ESTIMATORS[name], squares, level).mean()) for name, level in KEYS}


def measure_range(
    design: tuple[int, int], studies: int, grid: Sequence[tuple[float, float]] = GRID
) -> dict[Key, tuple[float, float]]:
    """Return the lowest and the highest level over the grid, each from fresh draws in the extreme cells."""
    rngs = [np.random.default_rng([2611, *design, number]) for number in range(2)]
    first = {ratios: measure_cell(design, ratios, studies, rngs[0]) for ratios in grid}
    extremes = {key: [pick(grid, key=lambda cell: first[cell][key]) for pick in (min, max)] for key in KEYS}
    cells = sorted(set(itertools.chain.from_iterable(extremes.values())))
    fresh = {cell: [measure_cell(design, cell, studies, rngs[1]) for _ in range(FRESH)] for cell in cells}
    means = {cell: {key: float(np.mean([one[key] for one in fresh[cell]])) for key in KEYS} for cell in cells}
    return {key: (means[low][key], means[high][key]) for key, (low, high) in extremes.items()}


def measure_scenario(scenario: Scenario, design: tuple[int, int], studies: int, seed: int) -> dict[Key, float]:
    """Return the share of rejections of each estimator at each level, from scores of two systems."""
    squares = draw_comparisons(scenario, (studies, 2, *design), np.random.default_rng([2612, *design, seed]))
    return {(name, level): float(rejections(ESTIMATORS[name], squares, level).mean()) for name, level in KEYS}


def print_grid(studies: int) -> None:
    """Print the range of levels over the grid of variances."""
    columns = [f"{name}, {format_nominal(level)}" for name, level in KEYS]
    print(f"{len(GRID)} combinations of variances, {studies:,} studies each, extremes from {FRESH * studies:,} fresh\n")
    print(f"| seeds | queries | {' | '.join(columns)} |")
    print("|---" * (2 + len(columns)) + "|")
    for seeds, queries in itertools.product(SEEDS, QUERIES):
        found = measure_range((seeds, queries), studies)
        cells = ["-".join(format_level(share, key[1]) for share in found[key]) for key in KEYS]
        print(f"| {seeds} | {queries:,} | {' | '.join(cells)} |", flush=True)


def print_low_levels(studies: int) -> None:
    """Print the highest level of this project's test at levels as low as those of looks and of large families."""
    print(f"\nHighest share of the level, 200 queries; {studies:,} studies each, then {FRESH * studies:,} fresh ones\n")
    print(f"| seeds | {' | '.join(map(format_nominal, LOW_LEVELS))} |")
    print("|---" * (1 + len(LOW_LEVELS)) + "|")
    for seeds in SEEDS[1:]:
        cells = [f"{_find_highest_share(seeds, level, studies):.2f}" for level in LOW_LEVELS]
        print(f"| {seeds} | {' | '.join(cells)} |", flush=True)


def _find_highest_share(seeds: int, level: float, studies: int) -> float:
    """Return the highest level over the grid, divided by the nominal one."""

    def measure(variance: DifferenceVariance, count: int, seed: int) -> float:
        squares = draw_squares(seeds, 200, variance, count, np.random.default_rng([2613, seeds, seed]))
        return float(rejections(estimate_here, squares, level).mean()) / level

    variances = [DifferenceVariance(seed / 200, query / seeds, 1.0) for seed, query in GRID]
    shares = [measure(variance, studies, number) for number, variance in enumerate(variances)]
    return measure(variances[int(np.argmax(shares))], FRESH * studies, len(variances))


def print_scenarios(studies: int) -> None:
    """Print the levels for scores that break the model."""
    keys = [key for key in KEYS if key[0] != "Satterthwaite"]
    columns = [f"{name}, {format_nominal(level)}" for name, level in keys]
    print(f"\n{studies:,} studies a row\n")
    print(f"| scores | seeds | queries | {' | '.join(columns)} |")
    print("|---" * (3 + len(columns)) + "|")
    for number, (name, (scenario, designs)) in enumerate(RAW.items()):
        for seeds, queries in designs:
            found = measure_scenario(scenario, (seeds, queries), studies, number)
            cells = [format_level(found[key], key[1]) for key in keys]
            print(f"| {name} | {seeds} | {queries:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    count, started = int(sys.argv[1]) if len(sys.argv) > 1 else STUDIES, time.perf_counter()
    print_grid(count)
    print_low_levels(10 * count)
    print_scenarios(max(1, count // 2))
    print(f"\n{time.perf_counter() - started:.0f} s")
