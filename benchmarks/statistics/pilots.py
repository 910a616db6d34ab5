"""Queries needed, as answered from simulated pilots: `analysis.sample_size` against the truth.

python -m benchmarks.statistics.pilots [REPETITIONS]

A pilot has several systems with the same mean. The deviations are those of one system, which are published for
rankers: .006 between seeds (of its mean), .05 between queries and .12 of the rest. Of the variance between seeds, the
share `correlation` is what a seed does to all systems alike; no difference has it. The questions are how many queries
find a true difference of .02 and of .01 with ten seeds, at .05 with 80 % power. The second is at the edge of "never",
which counts as more than any number, if the seeds are unrelated: no number of queries finds .0084 then.
"""

import argparse
import itertools
import time
from typing import NamedTuple

import numpy as np

from analysis.sample_size import Pilot, estimate_pilot_variance
from analysis.stats.power import required_queries
from analysis.stats.variance_components import VarianceComponents

SEED_SD, QUERY_SD, REST_SD = 0.006, 0.05, 0.12
COMMON_QUERY_SD = 0.2
"""Standard deviation of what a query means for all systems."""
DIFFERENCES, SEEDS, LEVEL = (0.02, 0.01), 10, 0.05
REPETITIONS = 2000


class Cell(NamedTuple):
    """Kind of pilots: their size, and how the effects of a seed on two systems correlate."""

    systems: int
    seeds: int
    queries: int
    correlation: float
    unpaired: bool = False

    @property
    def truth(self) -> tuple[float, ...]:
        """Numbers of queries that a study needs, from the true variances."""
        own = (1 - self.correlation) * SEED_SD**2
        return answer(VarianceComponents(own, QUERY_SD**2, REST_SD**2))


def answer(components: VarianceComponents) -> tuple[float, ...]:
    """Return the number of queries for each of DIFFERENCES, infinite for never."""
    variance = components.to_difference_variance()
    return tuple(required_queries(variance, difference, SEEDS, LEVEL) or np.inf for difference in DIFFERENCES)


def simulate_pilot(cell: Cell, rng: np.random.Generator) -> Pilot:
    """Draw the scores of a pilot."""
    common_sd, own_sd = np.sqrt([cell.correlation, 1 - cell.correlation]) * SEED_SD
    common = rng.normal(0, COMMON_QUERY_SD, cell.queries) + rng.normal(0, common_sd, (cell.seeds, 1))
    parts = (own_sd, (cell.seeds, 1)), (QUERY_SD, cell.queries), (REST_SD, (cell.seeds, cell.queries))
    scores = {str(n): common + sum(rng.normal(0, *part) for part in parts) for n in range(cell.systems)}
    return Pilot(scores, cell.unpaired, [])


def simulate_answers(cell: Cell, repetitions: int) -> np.ndarray:
    """Return (repetitions, differences) numbers of queries, infinite for never."""
    rng = np.random.default_rng([cell.systems, cell.seeds, cell.queries, round(100 * cell.correlation)])
    pilots = (simulate_pilot(cell, rng) for _ in range(repetitions))
    return np.array([answer(estimate_pilot_variance(pilot, "pilot")) for pilot in pilots])


def format_row(cell: Cell, answers: np.ndarray) -> str:
    """Format the row of a cell for a Markdown table."""
    model = "unpaired" if cell.unpaired else "crossed"
    cells = [str(cell.systems), str(cell.seeds), f"{cell.queries:,}", f"{cell.correlation:g}", model]
    for truth, values in zip(cell.truth, answers.T, strict=True):
        low, median, high = np.quantile(values, (0.05, 0.5, 0.95), method="lower")
        ratio = f" ({median / truth:.2f})" if np.isfinite([median, truth]).all() else ""
        cells += [_format(truth), f"{_format(median)}{ratio}", f"{_format(low)} to {_format(high)}"]
        cells.append(f"{np.isinf(values).mean():.2f}")
    return f"| {' | '.join(cells)} |"


def _format(queries: float) -> str:
    return f"{queries:,.0f}" if np.isfinite(queries) else "never"


def main(repetitions: int) -> None:
    """Print a row for each kind of pilots."""
    start = time.perf_counter()
    columns = ["systems", "seeds", "queries", "correlation", "model"]
    for difference in DIFFERENCES:
        columns += [f"{difference:g}: truth", "median (share)", "5 to 95 %", "never"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    sizes = [*itertools.product((5,), (3, 5, 10), (200, 1000)), *itertools.product((2,), (3, 5, 10), (1000,))]
    cells = [Cell(*size, correlation) for correlation in (0.0, 0.5, 0.9) for size in sizes]
    cells += [Cell(5, seeds, 1000, correlation, True) for correlation in (0.0, 0.9) for seeds in (3, 5, 10)]
    for cell in cells:
        print(format_row(cell, simulate_answers(cell, repetitions)), flush=True)
    print(f"\n{repetitions} pilots a row, {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.statistics.pilots")
    parser.add_argument("repetitions", nargs="?", type=int, default=REPETITIONS)
    main(parser.parse_args().repetitions)
