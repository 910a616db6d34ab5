"""Share of systems that are said to have a collapsed run where they have none, and where they have some.

python -m benchmarks.statistics.collapsed [STUDIES]

Means of runs are normal with a standard deviation of 1 over seeds. A cell has two figures: the share of studies that
name a system without a collapse, and the share of systems with good and collapsed runs that are named.
"""

from dataclasses import dataclass

import numpy as np

from analysis.stats.outlying_runs import find_outlying_runs
from benchmarks.statistics.scenarios import COLLAPSE_LOSSES
from benchmarks.statistics.simulation import SEED_SD, print_header, print_row, run_with_count
from trainables.utils.arrays import Bools, Floats

SEEDS = (2, 3, 5, 10)
LOSS = min(COLLAPSE_LOSSES) / SEED_SD
"""The smaller of the losses that were seen, in standard deviations over seeds."""


@dataclass(frozen=True)
class Case:
    """A simulated case.

    Attributes:
        name: its name.
        systems: systems of a study.
        correlation: correlation of two systems over the seeds.
        ratio: variance of the first system, as a multiple of the others'.
        lost: runs of the first system that lose 10 standard deviations.
        affected: systems with runs that each lose `LOSS` with probability .1.
    """

    name: str
    systems: int = 5
    correlation: float = 0.0
    ratio: float = 1.0
    lost: int = 0
    affected: int = 0

    def draw(self, rng: np.random.Generator, seeds: int) -> tuple[Floats, Bools]:
        """Draw (systems, seeds) means of a study, and which of the runs collapsed."""
        shared, own = rng.normal(size=(1, seeds)), rng.normal(size=(self.systems, seeds))
        means = np.sqrt(self.correlation) * shared + np.sqrt(1 - self.correlation) * own
        means[0] *= np.sqrt(self.ratio)
        collapsed = rng.random(means.shape) < 0.1 * (np.arange(self.systems) < self.affected)[:, None]
        collapsed[0, : self.lost] = True
        return means - (LOSS if self.affected else 10.0) * collapsed, collapsed


CASES = (
    Case("no collapse"),
    Case("no collapse, systems correlate .5 over seeds", correlation=0.5),
    Case("no collapse, systems correlate .98", correlation=0.98),
    Case("no collapse, one system has 4 times the variance", ratio=4.0),
    Case("no collapse, one system has 9 times the variance", ratio=9.0),
    Case("one run loses 10 standard deviations", lost=1),
    Case("the same, systems correlate .98", correlation=0.98, lost=1),
    Case("the same, in the system with 9 times the variance", ratio=9.0, lost=1),
    Case("two runs of one system lose 10 standard deviations", lost=2),
    Case("runs of one system lose .15 with probability .1", affected=1),
    Case("runs of all systems lose .15 with probability .1", affected=5),
    *(Case(f"no collapse, {systems} systems", systems) for systems in (2, 3)),
    *(Case(f"one run loses 10 standard deviations, {systems} systems", systems, lost=1) for systems in (2, 3)),
)


def measure(case: Case, seeds: int, studies: int) -> str:
    """Return the rates of a case, as the cell of a table."""
    rng, alarms, found, affected = np.random.default_rng([seeds, studies]), 0, 0, 0
    for _ in range(studies):
        means, collapsed = case.draw(rng, seeds)
        named = {int(run.system) for run in find_outlying_runs({str(place): own for place, own in enumerate(means)})}
        mixed = {int(place) for place in np.flatnonzero(collapsed.any(axis=1) & ~collapsed.all(axis=1))}
        alarms, found, affected = alarms + bool(named - mixed), found + len(named & mixed), affected + len(mixed)
    return f"{alarms / studies:.3f}" + (f" / {found / affected:.2f}" if affected else "")


def main(studies: int) -> None:
    """Print the rates of every case."""
    print_header(f"{studies:,} studies", *(f"{seeds} seeds" for seeds in SEEDS))
    for case in CASES:
        print_row(case.name, *(measure(case, seeds, studies) for seeds in SEEDS))


if __name__ == "__main__":
    run_with_count(main, 4_000)
