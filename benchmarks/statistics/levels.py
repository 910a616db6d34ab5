"""Levels of the tests for new queries and new seeds: the share of true hypotheses that they reject.

python -m benchmarks.statistics.levels [STUDIES]

First over a grid of variances, with normal scores: the lowest and the highest level. A first simulation
chooses the extreme cells. Their levels come from a second one with fresh draws and ten times as many studies, because
the highest of many estimates is too high. Then for scores that break the model. Three tests are compared: that of this
project, the classical one (the same variance with the degrees of freedom of Hillis 2007), and the one of racing
(Satterthwaite's degrees of freedom, a variance of at least the rest's).
"""

from collections.abc import Sequence
from functools import partial
from itertools import chain, product

import numpy as np

from analysis.stats.power import DifferenceVariance
from benchmarks.statistics import scenarios
from benchmarks.statistics.scenarios import RunScenario, Scenario, draw_comparisons
from benchmarks.statistics.simulation import (
    Estimator,
    Squares,
    draw_comparisons_of_runs,
    draw_squares,
    estimate_classical,
    estimate_here,
    estimate_satterthwaite,
    format_level,
    print_header,
    print_row,
    rejections,
    run_with_count,
)

STUDIES, FRESH = 40_000, 10
SEEDS, QUERIES, LEVELS, LOW_LEVELS = (2, 3, 5, 10), (50, 200, 1_000, 5_000), (0.05, 0.01, 0.005), (0.001, 0.0002)
RATIOS = (0, 0.1, 0.3, 1, 3, 10, 30, 100, 1_000)
"""Expected excess of MS_seed, and of MS_query, over MS_residual, in units of MS_residual."""
GRID = list(product(RATIOS, RATIOS))
ESTIMATORS: dict[str, Estimator] = {
    "here": estimate_here,
    "classical": estimate_classical,
    "Satterthwaite": estimate_satterthwaite,
}
USUAL = ((3, 200), (3, 1_000), (5, 1_000), (10, 1_000))
LOSSES = ((3, 200), (10, 200), (3, 1_000), (10, 1_000))
BAD_RUNS = tuple(product((3, 4, 5, 10), (200, 1_000)))
RAW: dict[str, tuple[Scenario, tuple[tuple[int, int], ...]]] = {
    "normal": (scenarios.draw_normal, USUAL),
    "shared seed effects": (scenarios.draw_shared_seeds, USUAL),
    "binary": (scenarios.draw_binary, USUAL),
    "mostly tied": (scenarios.draw_tied, USUAL),
    "heavy tails": (scenarios.draw_heavy_tails, USUAL),
    "seeds of unequal variance": (scenarios.draw_unequal_seeds, USUAL),
    "systems of unequal variance": (scenarios.draw_unequal_systems, USUAL),
    "rare large losses": (scenarios.draw_rare_losses, LOSSES),
    "rare large losses, little noise": (scenarios.draw_rare_losses_with_little_noise, LOSSES),
}
RUNS: dict[str, RunScenario] = {
    **{
        f"one run in ten of {name} loses {loss:g}": partial(scenarios.collapse, loss=loss, systems=systems)
        for (name, systems), loss in product((("one system", (1,)), ("both", (0, 1))), scenarios.COLLAPSE_LOSSES)
    },
    f"runs of one system have exponential bad luck, {scenarios.BAD_LUCK:g}": scenarios.lose_by_bad_luck,
}

Key = tuple[str, float]
KEYS: list[Key] = list(product(ESTIMATORS, LEVELS))


def measure_shares(squares: Squares) -> dict[Key, float]:
    """Return the share of rejections of each estimator at each level."""
    return {(name, level): float(rejections(ESTIMATORS[name], squares, level).mean()) for name, level in KEYS}


def draw_cell(design: tuple[int, int], ratios: tuple[float, float], studies: int, rng: np.random.Generator) -> Squares:
    """Draw studies with normal scores.

    Args:
        design: numbers of seeds and queries.
        ratios: what seeds and queries add to their expected mean squares, in units of the rest's.
        studies: number of simulated studies.
        rng: generator of the draws.
    """
    seeds, queries = design
    return draw_squares(seeds, queries, DifferenceVariance(ratios[0] / queries, ratios[1] / seeds, 1.0), studies, rng)


def measure_range(
    design: tuple[int, int], studies: int, grid: Sequence[tuple[float, float]] = GRID
) -> dict[Key, tuple[float, float]]:
    """Return the lowest and the highest level over the grid, each from fresh draws in the extreme cells."""
    rngs = [np.random.default_rng([2611, *design, number]) for number in range(2)]
    first = {ratios: measure_shares(draw_cell(design, ratios, studies, rngs[0])) for ratios in grid}
    extremes = {key: [pick(grid, key=lambda cell: first[cell][key]) for pick in (min, max)] for key in KEYS}
    cells = sorted(set(chain.from_iterable(extremes.values())))
    fresh = {cell: [measure_shares(draw_cell(design, cell, studies, rngs[1])) for _ in range(FRESH)] for cell in cells}
    means = {cell: {key: float(np.mean([one[key] for one in fresh[cell]])) for key in KEYS} for cell in cells}
    return {key: (means[low][key], means[high][key]) for key, (low, high) in extremes.items()}


def find_highest_share(seeds: int, level: float, studies: int) -> float:
    """Return the highest level of this project's test over the grid with 200 queries, divided by the nominal one."""

    def measure(ratios: tuple[float, float], count: int, seed: int) -> float:
        squares = draw_cell((seeds, 200), ratios, count, np.random.default_rng([2613, seeds, seed]))
        return float(rejections(estimate_here, squares, level).mean()) / level

    shares = [measure(ratios, studies, number) for number, ratios in enumerate(GRID)]
    return measure(GRID[int(np.argmax(shares))], FRESH * studies, len(GRID))


def main(studies: int) -> None:
    """Print the range of levels over the grid, the highest low levels, and levels for scores that break the model."""
    print(f"{len(GRID)} combinations of variances, {studies:,} studies each, extremes from {FRESH * studies:,} fresh\n")
    print_header("seeds", "queries", *(f"{name}, {level:g}" for name, level in KEYS))
    for design in product(SEEDS, QUERIES):
        found = measure_range(design, studies)
        print_row(*design, *("-".join(format_level(share, key[1]) for share in found[key]) for key in KEYS))
    print(f"\nHighest share of the level, 200 queries; {10 * studies:,} studies each, then {FRESH} times as many\n")
    print_header("seeds", *LOW_LEVELS)
    for seeds in SEEDS[1:]:
        print_row(seeds, *(f"{find_highest_share(seeds, level, 10 * studies):.2f}" for level in LOW_LEVELS))
    keys, count = [key for key in KEYS if key[0] != "Satterthwaite"], max(1, studies // 2)
    print(f"\n{count:,} studies a row\n")
    print_header("scores", "seeds", "queries", *(f"{name}, {level:g}" for name, level in keys))
    for number, (name, (scenario, designs)) in enumerate(RAW.items()):
        for design in designs:
            rng = np.random.default_rng([2612, *design, number])
            found = measure_shares(draw_comparisons(scenario, (count, 2, *design), rng))
            print_row(name, *design, *(format_level(found[key], key[1]) for key in keys))
    for number, (name, run_scenario) in enumerate(RUNS.items()):
        for seeds, queries in BAD_RUNS:
            rng = np.random.default_rng([2618, seeds, queries, number])
            found = measure_shares(draw_comparisons_of_runs(run_scenario(rng, (count, 2, seeds)), queries, rng))
            print_row(name, seeds, queries, *(format_level(found[key], key[1]) for key in keys))


if __name__ == "__main__":
    run_with_count(main, STUDIES)
