"""What a race gets wrong and what it saves, by simulation with the product's own rule.

python -m benchmarks.race [RACES]

A run's metric on a query is the configuration's true value, plus what the seed does to it, plus a residual of .12 (the
figure of a real study's residual a run and query); 300 queries, 12 configurations, all of one round. `seed sd` is the
standard deviation over seeds of a configuration's mean, .006 to .01 in published studies.
"""

import sys

import numpy as np

from study.scheduling.racing import FIRST_ROUND_SEEDS, LEVEL, find_pruned

CONFIGURATIONS, QUERIES, RESIDUAL = 12, 300, 0.12


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


def runs(truth: np.ndarray, seeds: int, seed_sd: float, rng: np.random.Generator) -> np.ndarray:
    """(configurations, seeds, queries) the metric of runs whose configurations have these true values."""
    shape = (len(truth), seeds, QUERIES)
    found: np.ndarray = truth[:, None, None] + rng.normal(0, seed_sd, shape[:2])[:, :, None]
    return found + rng.normal(0, RESIDUAL, shape)


def main(races: int) -> None:
    """Prints a line for each number of seeds and spread."""
    print(
        f"{races} races of {CONFIGURATIONS} configurations, {QUERIES} queries, level {LEVEL:g}, "
        f"{FIRST_ROUND_SEEDS} seeds first"
    )
    equal, one_better, one_good = (np.full(CONFIGURATIONS, 0.5) for _ in range(3))
    one_better[0] += 0.01
    one_good[1:] -= 0.04
    for seeds in (5, 10):
        for seed_sd in (0.0, 0.006, 0.01):
            rng = np.random.default_rng([seeds, round(seed_sd * 1000)])
            wrong = [len(race(runs(equal, seeds, seed_sd, rng))) / CONFIGURATIONS for _ in range(races)]
            lost = ["0" in race(runs(one_better, seeds, seed_sd, rng)) for _ in range(races)]
            cut = [race(runs(one_good, seeds, seed_sd, rng)).values() for _ in range(races)]
            saved = [sum(seeds - got for got in each) / (CONFIGURATIONS * seeds) for each in cut]
            error = np.std(wrong, ddof=1) / np.sqrt(races)
            print(
                f"{seeds:3} seeds, seed sd {seed_sd:.3f}: of equals {np.mean(wrong):.4f} dropped (± {error:.4f}); "
                f"the best by .01 in {np.mean(lost):.4f}; eleven worse by .04 save {np.mean(saved):.3f} of the runs",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
