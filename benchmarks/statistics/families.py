"""Levels and family-wise errors in families of comparisons with a common baseline, of the own and the pooled test.

python -m benchmarks.statistics.families [STUDIES]

The own test estimates what seeds do from each comparison alone. The pooled test (`analysis.seeds = "pooled"`) takes at
least the family's mean ratio of mean squares. The level is that of the worst comparison of a family. The family-wise
error is the share of families with at least one false rejection, at alpha = .05. Holm makes the same errors as
Bonferroni where all hypotheses are true. Where some are false and always found, it tests the n others at alpha / n, so
its error is the highest for n = all, half of them, and one. What is worst is chosen by a first simulation; the figures
come from a second one with fresh draws.
"""

import itertools
import sys
import time
from collections.abc import Callable

import numpy as np

from benchmarks.statistics import scenarios
from benchmarks.statistics.scenarios import Scenario, draw_comparisons
from benchmarks.statistics.simulation import (
    SEED_SD,
    Estimator,
    Family,
    Floats,
    Squares,
    estimate_here,
    format_share,
    make_pooled_estimate,
    rejections,
)

STUDIES, ALPHA = 100_000, 0.05
COMPARISONS = 5
POOLED_SEEDS = (2, 3, 5)
Draw = Callable[[int, int, int, np.random.Generator], Squares]
"""Seeds, queries, studies and a generator -> (studies, comparisons) comparisons of equal systems."""


Errors = dict[str, Floats]
"""Shares of false rejections by what they are of (MEASURES); several candidates for the highest each."""
MEASURES = ("level .05", "level .01", "Bonferroni", "Holm")


def measure_errors(estimator: Estimator, squares: Squares) -> Errors:
    """Return the errors of a test in families (studies, comparisons) in which all systems are equal."""
    count = squares.mean.shape[-1]
    families = [
        rejections(estimator, squares, ALPHA / true)[:, :true].any(-1).mean() for true in (count, -(-count // 2), 1)
    ]
    levels = [rejections(estimator, squares, level).mean(0) for level in (0.05, 0.01)]
    return dict(zip(MEASURES, [*levels, np.array(families[:1]), np.array(families)], strict=True))


def normal_families(comparisons: int) -> dict[str, list[Draw]]:
    """Return the families with normal scores by name, each with seeds that matter little, as usual, and much."""
    named = {
        "equal": {},
        "1:4": {"factors": [1.0, *itertools.islice(itertools.cycle([4.0, 1.0]), comparisons)]},
        "wild system, 9": {"factors": [1.0, 9.0]},
        "wild system, 25": {"factors": [1.0, 25.0]},
        "wild baseline, 9": {"factors": [9.0]},
        "shared seed effects, .5": {"shared": 0.5},
        "shared seed effects, .8": {"shared": 0.8},
    }
    return {
        name: [
            Family.with_baseline(comparisons, seed_sd=seed_sd, query_sd=query_sd, **settings).draw
            for seed_sd, query_sd in itertools.product((SEED_SD / 3, SEED_SD, 0.02), (0.0, 0.05))
        ]
        for name, settings in named.items()
    }


def raw_family(scenario: Scenario) -> Draw:
    """Return a family with the scores of a scenario."""

    def draw(seeds: int, queries: int, studies: int, rng: np.random.Generator) -> Squares:
        return draw_comparisons(scenario, (studies, COMPARISONS + 1, seeds, queries), rng)

    return draw


RAW_FAMILIES: dict[str, list[Draw]] = {
    "binary": [raw_family(scenarios.draw_binary)],
    "heavy tails": [raw_family(scenarios.draw_heavy_tails)],
    "runs of one system collapse": [raw_family(scenarios.draw_collapses)],
    "runs of the baseline collapse": [raw_family(scenarios.draw_baseline_collapses)],
    "runs of all collapse": [raw_family(scenarios.draw_all_collapse)],
}


def worst_errors(
    estimators: dict[str, Estimator], draws: list[Draw], design: tuple[int, int], studies: int, seed: int
) -> dict[str, dict[str, float]]:
    """Return the highest errors of each test over several families."""
    first, fresh = (
        [
            {name: measure_errors(estimator, squares) for name, estimator in estimators.items()}
            for number, draw in enumerate(draws)
            for squares in [draw(*design, studies, np.random.default_rng([2613, *design, seed, number, repeat]))]
        ]
        for repeat in range(2)
    )
    return {
        name: {
            key: _repeat_highest([one[name][key] for one in first], [one[name][key] for one in fresh])
            for key in MEASURES
        }
        for name in estimators
    }


def _repeat_highest(first: list[Floats], fresh: list[Floats]) -> float:
    """Return the fresh value of what was highest at first."""
    return float(np.concatenate(fresh)[np.concatenate(first).argmax()])


def format_error(measure: str, share: float) -> str:
    """Write an error, with more digits at the low level."""
    return format_share(share, 4 if measure == "level .01" else 3)


def print_corrections(studies: int) -> None:
    """Print the family-wise errors of the own test."""
    print(f"The own test, 1,000 queries, {studies:,} families, highest over 6 combinations of deviations\n")
    print(f"| comparisons | seeds | {' | '.join(MEASURES)} |\n|---|---|---|---|---|---|")
    for comparisons, seeds in itertools.product((2, 4, 10), (2, 3, 5, 10)):
        draws = normal_families(comparisons)["equal"]
        errors = worst_errors({"own": estimate_here}, draws, (seeds, 1_000), studies, comparisons)["own"]
        print(f"| {comparisons} | {seeds} | {' | '.join(map(format_error, errors, errors.values()))} |", flush=True)


def print_pooled(studies: int) -> None:
    """Print levels and family-wise errors of the own and the pooled test in families of five comparisons."""
    estimators = {"own": estimate_here, "pooled": make_pooled_estimate([(n, 0) for n in range(1, COMPARISONS + 1)])}
    print(f"\n{COMPARISONS} comparisons; {studies:,} families with 1,000 queries, highest over 6 combinations of")
    print(f"deviations; {studies // 4:,} families with 300 queries where scores are not normal\n")
    columns = [f"{key}, {name}" for key in MEASURES for name in estimators]
    print(f"| systems | seeds | {' | '.join(columns)} |")
    print("|---" * (2 + len(columns)) + "|")
    families = [(name, draws, 1_000, studies) for name, draws in normal_families(COMPARISONS).items()]
    families += [(name, draws, 300, max(1, studies // 4)) for name, draws in RAW_FAMILIES.items()]
    for number, (name, draws, queries, count) in enumerate(families):
        for seeds in POOLED_SEEDS:
            errors = worst_errors(estimators, draws, (seeds, queries), count, 100 + number)
            cells = [format_error(key, errors[test][key]) for key in MEASURES for test in estimators]
            print(f"| {name} | {seeds} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    count, started = int(sys.argv[1]) if len(sys.argv) > 1 else STUDIES, time.perf_counter()
    print_corrections(count)
    print_pooled(count)
    print(f"\n{time.perf_counter() - started:.0f} s")
