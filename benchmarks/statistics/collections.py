"""Levels of the test of the mean over collections that the same runs are evaluated on.

The differences of queries, of seeds and of seeds on a collection are normal, with a mean of 0 over the collections. The
collections have equal or very different numbers of queries, of their own or the same ones.

python -m benchmarks.statistics.collections [STUDIES]
"""

from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.data.configurations import weight_collections
from analysis.stats.paired_tests import estimate_over_both
from benchmarks.statistics.simulation import Floats, print_header, print_row, run_with_count

STUDIES, SEEDS, SEED_SDS, EFFECTS = 2_000, (3, 5, 10), (0.01, 0.03), (0.0, 0.05)
_QUERY_SD, _SHARED = 0.15, 0.7
"""Deviation of a query, also of its rest; weight of what collections with the same queries have in common."""


class Collections(NamedTuple):
    """Numbers of queries of some collections, and whether the queries are the same."""

    sizes: tuple[int, ...]
    is_shared: bool = False


DESIGNS = (
    Collections((43, 54)),
    Collections((43, 54, 1000)),
    Collections((43, 5000)),
    Collections((20, 1000)),
    Collections((43, 43), is_shared=True),
    Collections((50,) * 6),
)


def draw_study(design: Collections, seeds: int, seed_sd: float, effect: float, rng: np.random.Generator) -> Floats:
    """Return the weighted differences of one study, (seeds, distinct queries); effects of collections alternate."""
    sizes, own = design.sizes, np.arange(len(design.sizes))
    effects = np.where(own % 2, -effect, effect)
    effects -= effects.mean()
    common, base = rng.normal(0, seed_sd, seeds), rng.normal(0, _QUERY_SD, max(sizes))
    tables = list[pd.DataFrame]()
    for number, size in enumerate(sizes):
        queries = rng.normal(0, _QUERY_SD, size)
        if design.is_shared:
            queries = _SHARED * base[:size] + np.sqrt(1 - _SHARED**2) * queries
        names = np.arange(size) + (0 if design.is_shared else 10_000 * number)
        by_seed = common + rng.normal(0, seed_sd, seeds)
        values = effects[number] + queries + by_seed[:, None] + rng.normal(0, _QUERY_SD, (seeds, size))
        tables.append(pd.DataFrame(values.T, names))
    return weight_collections(tables).to_numpy().T


def compute_level(design: Collections, seeds: int, seed_sd: float, effect: float, studies: int) -> float:
    """Return the share of studies with an interval at .05 that does not contain the true mean, 0."""
    rng = np.random.default_rng(0)
    outside = 0
    for _ in range(studies):
        low, high = estimate_over_both(draw_study(design, seeds, seed_sd, effect, rng)).confidence_interval(0.95)
        outside += not low <= 0 <= high
    return outside / studies


def main(studies: int) -> None:
    """Prints the level of every design."""
    print_header("queries", "seeds", "sd of seeds", "opposite effects", "level at .05")
    for design, seeds, seed_sd, effect in product(DESIGNS, SEEDS, SEED_SDS, EFFECTS):
        level = compute_level(design, seeds, seed_sd, effect, studies)
        shown = ", ".join(map(str, design.sizes)) + " (the same)" * design.is_shared
        print_row(shown, seeds, seed_sd, effect, f"{level:.3f}")


if __name__ == "__main__":
    run_with_count(main, STUDIES)
