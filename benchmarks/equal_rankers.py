"""Share of tests that call two rankers different that differ by their seeds alone, by simulation.

python -m benchmarks.equal_rankers
"""

import itertools

import numpy as np

from analysis.stats.estimate import Estimate
from analysis.stats.paired_tests import estimate_over_both, estimate_over_queries

REPEATS, ALPHA = 4_000, 0.05
SEED_DEVIATION, REST_DEVIATION = 0.006, 0.12
"""Deviations of one ranker; what queries have in common cancels in a difference."""


def rejects(estimate: Estimate) -> bool:
    """Return True if the interval leaves out zero, which is p below .05."""
    low, high = estimate.confidence_interval(1 - ALPHA)
    return low > 0 or high < 0


def main() -> None:
    """Prints how often each test rejects where two rankers differ by their seeds alone."""
    print("| seeds | queries | new queries (the usual test) | new queries and new seeds |")
    print("|---|---|---|---|")
    for seeds, queries in itertools.product((1, 3, 5), (200, 1_000, 5_000)):
        rng = np.random.default_rng([seeds, queries])
        rejected = np.zeros((REPEATS, 2))
        for number in range(REPEATS):
            of_seeds = rng.normal(0, SEED_DEVIATION, (2, seeds, 1))
            d = np.subtract(*(of_seeds + rng.normal(0, REST_DEVIATION, (2, seeds, queries))))
            rejected[number, 0] = rejects(estimate_over_queries(d))
            rejected[number, 1] = seeds > 1 and rejects(estimate_over_both(d))
        usual, ours = rejected.mean(axis=0)
        print(f"| {seeds} | {queries:,} | {usual:.3f} | {f'{ours:.3f}' if seeds > 1 else 'refused'} |", flush=True)


if __name__ == "__main__":
    main()
