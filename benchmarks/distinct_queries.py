"""How many distinct queries a training sees, by the unit of its batches and the number of training queries.

python -m benchmarks.distinct_queries    # the sampler alone, no model
"""

import numpy as np

from trainables.data.query_groups import QueryGroups
from trainables.specs.ranker import RankerTrainingSettings
from trainables.training.batching import BatchSampler

QUERIES = {"MANtIS": 82_181, "QQP": 119_410, "TREC-DL": 502_939}
"""Training queries: 904,000 pairs of 11; 80 % of 149,263 duplicates; the queries of MS MARCO's training qrels."""
SEEDS = (1, 2, 3, 4, 5)
NEGATIVES = 9
SETTINGS = {"pair": {"batch_size": 32, "instances": 50_016}, "query": {"batch_size": 30, "instances": 50_010}}
"""Whole batches that are nearest to the 50,000 instances of the paper."""


def sample_queries(seed: int, queries: int, unit: str) -> np.ndarray:
    """Query of each instance of a training, shape (instances,)."""
    settings = RankerTrainingSettings.model_validate({"unit": unit, "negatives": NEGATIVES, **SETTINGS[unit]})
    candidates = 1 + NEGATIVES
    rows = QueryGroups.from_relevant(np.tile(np.arange(candidates) == 0, queries).astype(np.int64))
    sampler = BatchSampler(seed, settings, rows, np.zeros(queries * candidates, np.int64))
    steps = range(settings.instances // settings.batch_size)
    return np.concatenate([sampler.sample_rows(step) for step in steps]) // candidates


def count_queries(seed: int, queries: int, unit: str) -> int:
    """Distinct queries that a training sees."""
    return len(np.unique(sample_queries(seed, queries, unit)))


def main() -> None:
    """Prints the smallest and the largest count over seeds, by task and unit."""
    print('| task | training queries | `unit = "query"` | `unit = "pair"` |\n|---|---|---|---|')
    for task, queries in QUERIES.items():
        counts = [[count_queries(seed, queries, unit) for seed in SEEDS] for unit in ("query", "pair")]
        ranges = [
            f"{min(found):,} to {max(found):,}" if min(found) < max(found) else f"{min(found):,}" for found in counts
        ]
        print(f"| {task} | {queries:,} | {' | '.join(ranges)} |", flush=True)


if __name__ == "__main__":
    main()
