"""How often a system is said to have a collapsed run where it has none, and where it has some.

python -m benchmarks.statistics.collapsed [STUDIES]

A study is five systems or fewer. Means of runs are normal with a standard deviation of 1 over seeds.
"""

import sys
from collections.abc import Callable, Iterator

import numpy as np

from analysis.stats.collapsed import find_outlying_runs
from trainables.utils.arrays import Bools, Floats

SYSTEMS, SEEDS, FEWER = 5, (2, 3, 5, 10), (2, 3)
"""Systems of a study, its seeds, and smaller numbers of systems for the main cases."""
NORMAL, LOST = "no collapse", "one run loses 10 standard deviations"
CORRELATED = "no collapse, systems correlate .98"
LOSS = 0.1 / 0.006
"""A loss of .1 where seeds have a standard deviation of .006."""
Draw = Callable[[np.random.Generator, int], tuple[Floats, Bools]]
"""Returns (systems, seeds) means of a study, and which of the runs collapsed."""


def draw_normal(rng: np.random.Generator, seeds: int, correlation: float = 0.0, ratio: float = 1.0) -> Floats:
    """Draw means of runs without a collapse.

    Args:
        rng: generator.
        seeds: number of seeds.
        correlation: correlation of two systems over the seeds.
        ratio: variance of the first system, as a multiple of the others'.
    """
    shared, own = rng.normal(size=(1, seeds)), rng.normal(size=(SYSTEMS, seeds))
    means: Floats = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own
    means[0] *= np.sqrt(ratio)
    return means


def collapse(means: Floats, collapsed: Bools, loss: float) -> tuple[Floats, Bools]:
    """Lower the means of the runs that collapsed."""
    return means - loss * collapsed, collapsed


def collapse_first(means: Floats, runs: int, loss: float = 10.0) -> tuple[Floats, Bools]:
    """Collapse the first runs of the first system."""
    collapsed = np.zeros(means.shape, dtype=bool)
    collapsed[0, :runs] = True
    return collapse(means, collapsed, loss)


def collapse_some(rng: np.random.Generator, means: Floats, systems: int) -> tuple[Floats, Bools]:
    """Collapse every run of the first systems with probability .1."""
    return collapse(means, (rng.random(means.shape) < 0.1) & (np.arange(SYSTEMS) < systems)[:, None], LOSS)


CASES: dict[str, Draw] = {
    NORMAL: lambda rng, seeds: collapse_first(draw_normal(rng, seeds), 0),
    "no collapse, systems correlate .5 over seeds": lambda rng, seeds: collapse_first(draw_normal(rng, seeds, 0.5), 0),
    CORRELATED: lambda rng, seeds: collapse_first(draw_normal(rng, seeds, 0.98), 0),
    "no collapse, one system has 4 times the variance": lambda rng, seeds: collapse_first(
        draw_normal(rng, seeds, ratio=4.0), 0
    ),
    "no collapse, one system has 9 times the variance": lambda rng, seeds: collapse_first(
        draw_normal(rng, seeds, ratio=9.0), 0
    ),
    LOST: lambda rng, seeds: collapse_first(draw_normal(rng, seeds), 1),
    "the same, systems correlate .98": lambda rng, seeds: collapse_first(draw_normal(rng, seeds, 0.98), 1),
    "the same, in the system with 9 times the variance": lambda rng, seeds: collapse_first(
        draw_normal(rng, seeds, ratio=9.0), 1
    ),
    "two runs of one system lose 10 standard deviations": lambda rng, seeds: collapse_first(draw_normal(rng, seeds), 2),
    "runs of one system lose .1 with probability .1": lambda rng, seeds: collapse_some(rng, draw_normal(rng, seeds), 1),
    "runs of all systems lose .1 with probability .1": lambda rng, seeds: collapse_some(
        rng, draw_normal(rng, seeds), SYSTEMS
    ),
}


def measure(draw: Draw, seeds: int, studies: int, systems: int = SYSTEMS) -> tuple[float, float]:
    """Return the share of studies in which a good system is named, and of systems with a collapse that are named.

    A system with a collapse is one with good runs and others.
    """
    rng, alarms, found, affected = np.random.default_rng([seeds, studies]), 0, 0, 0
    for _ in range(studies):
        means, collapsed = (drawn[:systems] for drawn in draw(rng, seeds))
        named = {int(run.system) for run in find_outlying_runs({str(place): own for place, own in enumerate(means)})}
        mixed = {int(place) for place in np.flatnonzero(collapsed.any(axis=1) & ~collapsed.all(axis=1))}
        alarms, found, affected = alarms + bool(named - mixed), found + len(named & mixed), affected + len(mixed)
    return alarms / studies, found / affected if affected else float("nan")


def iter_rows(studies: int) -> Iterator[str]:
    """Yield one line of Markdown for each case."""
    cases = [(name, draw, SYSTEMS) for name, draw in CASES.items()]
    cases += [
        (f"{name}, {systems} systems", CASES[name], systems) for systems in FEWER for name in (NORMAL, CORRELATED, LOST)
    ]
    for name, draw, systems in cases:
        rates = [measure(draw, seeds, studies, systems) for seeds in SEEDS]
        cells = [f"{alarm:.3f}" + ("" if np.isnan(found) else f" / {found:.2f}") for alarm, found in rates]
        yield f"| {name} | {' | '.join(cells)} |"


def main(studies: int) -> None:
    """Print the rates of every case."""
    print(f"| {studies:,} studies | {' | '.join(f'{seeds} seeds' for seeds in SEEDS)} |")
    print("| --- " * (1 + len(SEEDS)) + "|")
    for row in iter_rows(studies):
        print(row, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4_000)
