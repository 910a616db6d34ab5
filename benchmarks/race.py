"""Errors and savings of a race, by simulation with the product's own rule.

python -m benchmarks.race [RACES]

A run's metric on a query is a sum: the configuration's true value, the effect of the seed on it, the effect of the
query on it (query x configuration), and a residual of .12 (a real study's). There are 12 configurations, all of one
round. `seed SD` is the standard deviation over seeds of a configuration's mean, .006 to .01
in published studies.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from benchmarks.statistics.simulation import print_header, print_row, run_with_count
from study.scheduling.racing import FIRST_ROUND_SEEDS, LEVEL, find_pruned

CONFIGURATIONS, RESIDUAL = 12, 0.12


def race(values: np.ndarray) -> dict[str, int]:
    """One race.

    Args:
        values: (configurations, seeds, queries) the metric, as if all were run.

    Returns:
        Configuration, by its number as text -> seeds that it got, of those that were dropped.
    """
    seeds = values.shape[1]
    alive, dropped = {str(number): value for number, value in enumerate(values)}, dict[str, int]()
    for got in range(FIRST_ROUND_SEEDS, seeds):
        seen = {name: value[:got] for name, value in alive.items()}
        for name in find_pruned(seen, seen, seeds, len(values) - 1):
            del alive[name]
            dropped[name] = got
    return dropped


@dataclass(frozen=True)
class Noise:
    """Number of queries and standard deviations of the effects on a run's metric on a query."""

    queries: int
    seed_sd: float
    query_sd: float


NOISES = (
    *(Noise(300, seed_sd, 0.0) for seed_sd in (0.0, 0.006, 0.01, 0.02)),
    *(Noise(300, seed_sd, 0.05) for seed_sd in (0.006, 0.01, 0.014, 0.02, 0.03)),
    Noise(200, 0.02, 0.1),
    Noise(300, 0.03, 0.1),
)


def runs(truth: np.ndarray, seeds: int, noise: Noise, rng: np.random.Generator) -> np.ndarray:
    """(configurations, seeds, queries) the metric of runs of configurations with these true values."""
    shape = (len(truth), seeds, noise.queries)
    found: np.ndarray = truth[:, None, None] + rng.normal(0, noise.seed_sd, shape[:2])[:, :, None]
    if noise.query_sd:
        found = found + rng.normal(0, noise.query_sd, (len(truth), 1, noise.queries))
    return found + rng.normal(0, RESIDUAL, shape)


def main(races: int) -> None:
    """Prints a row for each number of seeds and spread."""
    print(f"{races} races of {CONFIGURATIONS} configurations, level {LEVEL:g}, {FIRST_ROUND_SEEDS} seeds first\n")
    columns = "pruned, of equally good ones", "lose the best", "saved, others .01 worse", "saved, others .04 worse"
    print_header("seeds", "query x configuration", "seed SD", *columns)
    equal, one_better, one_good = (np.full(CONFIGURATIONS, 0.5) for _ in range(3))
    one_better[0] += 0.01
    one_good[1:] -= 0.04
    for seeds, noise in itertools.product((5, 10), NOISES):
        rng = np.random.default_rng([seeds, round(noise.seed_sd * 1000)])
        wrong = [len(race(runs(equal, seeds, noise, rng))) / CONFIGURATIONS for _ in range(races)]
        close, far = ([race(runs(truth, seeds, noise, rng)) for _ in range(races)] for truth in (one_better, one_good))
        lost = np.mean(["0" in dropped for dropped in close])
        saved = [
            np.mean([sum(seeds - got for got in dropped.values()) for dropped in drawn]) / (CONFIGURATIONS * seeds)
            for drawn in (close, far)
        ]
        error = np.std(wrong, ddof=1) / np.sqrt(races)
        query = f"{noise.query_sd:g}, {noise.queries} queries"
        shares = f"{np.mean(wrong):.4f} ± {error:.4f}", f"{lost:.4f}", *(f"{share:.3f}" for share in saved)
        print_row(seeds, query, f"{noise.seed_sd:.3f}", *shares)


if __name__ == "__main__":
    run_with_count(main, 2_000)
