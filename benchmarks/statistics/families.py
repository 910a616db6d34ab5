"""Levels and family-wise errors in families of comparisons with a common baseline, of the own and the pooled test.

python -m benchmarks.statistics.families [STUDIES]

The own test estimates what seeds do from each comparison alone. The pooled test (`analysis.seeds = "pooled"`) takes at
least the family's mean ratio of mean squares; a second form knows which systems share a beginning. The level is that
of the worst comparison of a family. The family-wise error is the share of families with at least one false rejection,
at alpha = .05. Holm makes the same errors as Bonferroni where all hypotheses are true. Where some are false and always
found, it tests the n others at alpha / n, so its error is the highest for n = all, half of them, and one. What is worst
is chosen by a first simulation; the figures come from a second one with fresh draws.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import cycle, islice, product
from typing import Any

import numpy as np

from benchmarks.statistics import scenarios
from benchmarks.statistics.scenarios import Scenario, draw_comparisons
from benchmarks.statistics.simulation import (
    SEED_SD,
    Estimator,
    Family,
    Floats,
    Squares,
    draw_comparisons_of_runs,
    estimate_here,
    format_level,
    make_pooled_estimate,
    print_header,
    print_row,
    rejections,
    run_with_count,
)

STUDIES, ALPHA, COMPARISONS, POOLED_SEEDS = 100_000, 0.05, 5, (2, 3, 5)
SHARED = (3,), (1_000, 5_000)
"""Seeds and queries of families in which some systems share what seeds do."""
Draw = Callable[[int, int, int, np.random.Generator], Squares]
"""Seeds, queries, studies and a generator -> (studies, comparisons) comparisons of equal systems."""
MEASURES = {"level .05": 0.05, "level .01": 0.01, "Bonferroni": 0.05, "Holm": 0.05}
"""What is measured, and its nominal level."""
BEGINNINGS = [(1, 2), (3, 4)]
"""Systems that share the beginning of their training, as LS and T-LS, WSLS and T-WSLS."""
NORMAL: dict[str, dict[str, Any]] = {
    "equal": {},
    "1:4": {"factors": [1.0, *islice(cycle([4.0, 1.0]), COMPARISONS)]},
    "wild system, 9": {"factors": [1.0, 9.0]},
    "wild system, 25": {"factors": [1.0, 25.0]},
    "wild baseline, 9": {"factors": [9.0]},
    "shared seed effects, .5": {"shared": 0.5},
    "shared seed effects, .8": {"shared": 0.8},
}
RAW: dict[str, Scenario] = {
    "binary": scenarios.draw_binary,
    "heavy tails": scenarios.draw_heavy_tails,
}
COLLAPSES: dict[str, Sequence[int]] = {
    "runs of one system collapse": (1,),
    "runs of the baseline collapse": (0,),
    "runs of all collapse": range(COMPARISONS + 1),
}
"""Systems with one run in ten that loses as much as was seen."""


def share_seed_effects(*groups: Sequence[int], correlation: float = 1.0) -> Floats:
    """Return the correlations (systems, systems) of seed effects that the systems of a group have in common."""
    found = np.eye(COMPARISONS + 1)
    for group in groups:
        found[np.ix_(group, group)] = correlation
    return found


SHARING: dict[str, dict[str, Any]] = {
    "shared beginnings, .9": {"shared": share_seed_effects(*BEGINNINGS, correlation=0.9)},
    "shared beginnings, 1": {"shared": share_seed_effects(*BEGINNINGS)},
    **{
        f"variants share seed effects among each other and the baseline does not{noise}": {
            "shared": share_seed_effects(range(1, COMPARISONS + 1)),
            "factors": [factor],
        }
        for noise, factor in (("", 1.0), (", baseline twice as noisy", 4.0), (", baseline three times as noisy", 9.0))
    },
}


def measure_errors(estimator: Estimator, squares: Squares) -> dict[str, Floats]:
    """Return the shares of false rejections in families (studies, comparisons); several candidates for the highest."""
    count = squares.mean.shape[-1]
    families = [
        rejections(estimator, squares, ALPHA / true)[:, :true].any(-1).mean() for true in (count, -(-count // 2), 1)
    ]
    levels = [rejections(estimator, squares, level).mean(0) for level in (0.05, 0.01)]
    return dict(zip(MEASURES, [*levels, np.array(families[:1]), np.array(families)], strict=True))


def list_normal_families(comparisons: int, **settings: object) -> list[Draw]:
    """Return families with normal scores, with seeds that matter little, as usual, and much."""
    return [
        Family.with_baseline(comparisons, seed_sd=seed_sd, query_sd=query_sd, **settings).draw
        for seed_sd, query_sd in product((SEED_SD / 3, SEED_SD, 0.02), (0.0, 0.05))
    ]


def draw_family(scenario: Scenario, seeds: int, queries: int, studies: int, rng: np.random.Generator) -> Squares:
    """Draw families with the scores of a scenario."""
    return draw_comparisons(scenario, (studies, COMPARISONS + 1, seeds, queries), rng)


def draw_collapses(systems: Sequence[int], seeds: int, queries: int, studies: int, rng: np.random.Generator) -> Squares:
    """Draw families in which one run in ten of these systems collapses."""
    runs = scenarios.collapse(rng, (studies, COMPARISONS + 1, seeds), max(scenarios.COLLAPSE_LOSSES), systems)
    return draw_comparisons_of_runs(runs, queries, rng)


def worst_errors(
    estimators: dict[str, Estimator], draws: list[Draw], design: tuple[int, int], studies: int, seed: int
) -> dict[str, list[str]]:
    """Return the highest errors of each test over several families, in the order of MEASURES."""

    def measure(number: int, repeat: int) -> dict[str, dict[str, Floats]]:
        squares = draws[number](*design, studies, np.random.default_rng([2613, *design, seed, number, repeat]))
        return {name: measure_errors(estimator, squares) for name, estimator in estimators.items()}

    first, fresh = [measure(number, 0) for number in range(len(draws))], cache(partial(measure, repeat=1))

    def repeat_highest(name: str, key: str) -> float:
        number = int(np.argmax([one[name][key].max() for one in first]))
        return float(fresh(number)[name][key][first[number][name][key].argmax()])

    return {
        name: [format_level(repeat_highest(name, key), nominal) for key, nominal in MEASURES.items()]
        for name in estimators
    }


def main(studies: int) -> None:
    """Print the family-wise errors of the own test, and those of the own and the pooled one in families of five."""
    print(f"The own test, 1,000 queries, {studies:,} families, highest over 6 combinations of deviations\n")
    print_header("comparisons", "seeds", *MEASURES)
    for comparisons, seeds in product((2, 4, 10), (2, 3, 5, 10)):
        draws = list_normal_families(comparisons)
        errors = worst_errors({"own": estimate_here}, draws, (seeds, 1_000), studies, comparisons)
        print_row(comparisons, seeds, *errors["own"])
    pairs = [(number, 0) for number in range(1, COMPARISONS + 1)]
    estimators = {
        "own": estimate_here,
        "pooled": make_pooled_estimate(pairs),
        "beginnings known": make_pooled_estimate(pairs, BEGINNINGS),
    }
    print(f"\n{COMPARISONS} comparisons; {studies:,} families, highest over 6 combinations of deviations;")
    print(f"{studies // 4:,} families where scores are not normal\n")
    print_header("systems", "seeds", "queries", *(f"{key}, {name}" for key in MEASURES for name in estimators))
    usual, raw, sharing = (
        list(product(*sizes)) for sizes in ((POOLED_SEEDS, (1_000,)), (POOLED_SEEDS, (300,)), SHARED)
    )
    families = [(name, list_normal_families(COMPARISONS, **own), usual, studies) for name, own in NORMAL.items()]
    families += [(name, [partial(draw_family, own)], raw, max(1, studies // 4)) for name, own in RAW.items()]
    families += [(name, [partial(draw_collapses, own)], usual, studies) for name, own in COLLAPSES.items()]
    families += [(name, list_normal_families(COMPARISONS, **own), sharing, studies) for name, own in SHARING.items()]
    for number, (name, draws, designs, count) in enumerate(families):
        for design in designs:
            errors = worst_errors(estimators, draws, design, count, 100 + number)
            print_row(name, *design, *(cell for cells in zip(*errors.values(), strict=True) for cell in cells))


if __name__ == "__main__":
    run_with_count(main, STUDIES)
