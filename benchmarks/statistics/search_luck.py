"""Difference that a search adds by luck, if the runs that chose a configuration are also the runs that are tested.

python -m benchmarks.statistics.search_luck [STUDIES]

A system has 1 or 20 configurations that are all as good as the baseline, each with three seeds. The one with the best
mean over its seeds on the development set is tested against the baseline on 1,000 test queries: with the same runs, or
with runs of three fresh seeds (`confirm.seeds`). What a seed does to a run is the same on both sets. Scores are normal
with .05 of query x system and .12 of the rest. "Better" is a positive difference with p below .05, so .025 is nominal.
"""

import itertools

import numpy as np

from benchmarks.statistics.simulation import (
    QUERY_SD,
    REST_SD,
    Squares,
    estimate_here,
    format_share,
    print_header,
    print_row,
    rejections,
    run_with_count,
)

STUDIES, TRIED, SEEDS, TEST_QUERIES, LEVEL = 100_000, (1, 20), 3, 1_000, 0.05
SEED_SDS, DEV_QUERIES = (0.006, 0.01), (200, 1_000)


def draw_test(runs: np.ndarray, queries: int, rng: np.random.Generator) -> Squares:
    """Draw the test of systems against a baseline.

    Args:
        runs: (studies, seeds) what the seeds do to the mean of the system minus what they do to the baseline's.
        queries: number of test queries.
        rng: generator of what queries add.
    """
    studies, seeds = runs.shape
    query, rest = 2 * QUERY_SD**2, 2 * REST_SD**2
    means = runs + rng.normal(0, (rest / queries) ** 0.5, runs.shape)
    residual = rest * rng.chisquare((seeds - 1) * (queries - 1), studies) / ((seeds - 1) * (queries - 1))
    ms_query = (rest + seeds * query) * rng.chisquare(queries - 1, studies) / (queries - 1)
    grand = means.mean(1) + rng.normal(0, (query / queries) ** 0.5, studies)
    return Squares(seeds, queries, grand, queries * means.var(1, ddof=1), ms_query, residual)


def measure(
    tried: int, seed_sd: float, dev_queries: int, fresh: bool, studies: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Return the mean difference and the share of studies that call the system better.

    Args:
        tried: number of configurations of the search.
        seed_sd: standard deviation of a run's mean between seeds.
        dev_queries: number of queries that the search chooses by.
        fresh: whether other seeds are tested than those that the search used.
        studies: number of simulated studies.
        rng: generator of the draws.
    """
    runs = rng.normal(0, seed_sd, (studies, tried, SEEDS))
    noise = ((QUERY_SD**2 + REST_SD**2 / SEEDS) / dev_queries) ** 0.5
    chosen = (runs.mean(2) + rng.normal(0, noise, (studies, tried))).argmax(1)
    tested = rng.normal(0, seed_sd, (studies, SEEDS)) if fresh else runs[np.arange(studies), chosen]
    squares = draw_test(tested - rng.normal(0, seed_sd, (studies, SEEDS)), TEST_QUERIES, rng)
    better = rejections(estimate_here, squares, LEVEL) & (squares.mean > 0)
    return float(squares.mean.mean()), float(better.mean())


def main(studies: int) -> None:
    """Print a row for each search."""
    print(f"{studies:,} studies a row, {SEEDS} seeds, {TEST_QUERIES:,} test queries\n")
    columns = "gain", "better", "gain, fresh seeds", "better, fresh seeds"
    print_header("configurations", "seed SD", "dev queries", *columns)
    for tried, seed_sd, dev_queries in itertools.product(TRIED, SEED_SDS, DEV_QUERIES):
        cells = []
        for fresh in (False, True):
            rng = np.random.default_rng([2617, tried, round(1000 * seed_sd), dev_queries, fresh])
            gain, better = measure(tried, seed_sd, dev_queries, fresh, studies, rng)
            cells += [f"{gain:+z.4f}", format_share(better)]
        print_row(tried, format_share(seed_sd), f"{dev_queries:,}", *cells)


if __name__ == "__main__":
    run_with_count(main, STUDIES)
