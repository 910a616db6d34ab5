"""How often tests call two equal rankers different: simulated, and between the seeds of one ranker of a study.

python -m benchmarks.equal_rankers [FOLDER [SYSTEM]]
"""

import itertools
import sys
from pathlib import Path

import numpy as np

from analysis.results import per_query, read_records
from analysis.stats.estimate import Estimate
from analysis.stats.paired_tests import estimate_over_both, estimate_over_queries

REPEATS, ALPHA = 4_000, 0.05
SEED_DEVIATION, REST_DEVIATION = 0.006, 0.12
"""Of one ranker; what queries have in common cancels in a difference."""


def rejects(estimate: Estimate) -> bool:
    """Whether the interval leaves out zero, which is p below .05."""
    low, high = estimate.confidence_interval(1 - ALPHA)
    return low > 0 or high < 0


def simulate() -> None:
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


def compare_seeds(folder: Path, system: str) -> None:
    """Prints how often two seeds of one ranker differ by a paired t-test over queries."""
    results = read_records(folder)
    metric = results.plan.metric
    for split in (results.plan.search_split, results.plan.test_split):
        frame = per_query(results, split, metric)
        scores = frame[frame["system"] == system].pivot(index="seed", columns="query_id", values="value").to_numpy()
        pairs = [scores[[a]] - scores[[b]] for a, b in itertools.combinations(range(len(scores)), 2)]
        found = np.array([rejects(estimate_over_queries(d)) for d in pairs])
        means = scores.mean(axis=1)
        print(
            f"{split}: {scores.shape[1]} queries, {len(scores)} seeds of {system}, {metric} {means.mean():.4f} ± "
            f"{means.std(ddof=1):.4f}: {found.sum()} of {len(found)} pairs of seeds ({found.mean():.0%}) at {ALPHA}"
        )


if __name__ == "__main__":
    if sys.argv[1:]:
        compare_seeds(Path(sys.argv[1]), sys.argv[2] if sys.argv[2:] else "BERT")
    else:
        simulate()
