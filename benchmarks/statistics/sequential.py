"""Errors and savings of a sequential confirmation, by simulation with the shares of alpha of the product.

python -m benchmarks.statistics.sequential [FAMILIES]

A family compares four systems with one baseline by 200 queries, corrected by Bonferroni at .05. Seeds come in groups. A
comparison stays decided, and a family stops at the look that decides its last open comparison, or at the last look.
True differences are told in units of the minimum detectable effect (80 % power at .0125) of all seeds without looks.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from analysis.stats.interim_tests import get_alpha_shares
from analysis.stats.power import DifferenceVariance, minimum_detectable_effect
from benchmarks.statistics.scenarios import COLLAPSE_LOSSES, COLLAPSE_SHARE
from benchmarks.statistics.simulation import (
    QUERY_SD,
    SEED_SD,
    Squares,
    estimate_here,
    format_share,
    print_header,
    print_row,
    rejections,
    run_with_count,
)

Floats = np.ndarray
ALPHA, COMPARISONS, QUERIES, BLOCK = 0.05, 4, 200, 200
GAINS = (1.0, 1.5, 2.0, 3.0)
LOOKS = ((5, 10), (4, 8, 12), (5, 10, 15, 20), (3, 6, 9, 12, 15), (2, 4, 6, 8))


class Noise(NamedTuple):
    """Standard deviations of a system's scores; the first system's seeds vary `first` times as much.

    One run in ten of the first system loses `loss`; its other runs are better by what that costs on average.
    """

    name: str
    seed_sd: float
    query_sd: float
    rest_sd: float = 0.12
    first: float = 1.0
    loss: float = 0.0


NOISES = (
    Noise("seeds dominate", 0.02, 0.02),
    Noise("seeds and queries", 0.006, 0.05),
    Noise("queries dominate", 0.001, 0.1),
    Noise("only the rest", 0.0, 0.0),
    Noise("one system 3 x, its seeds", 0.02, 0.02, first=3.0),
    Noise("one system 5 x, its seeds", 0.006, 0.05, first=5.0),
    *(Noise(f"one run in ten of one system loses {loss:g}", SEED_SD, QUERY_SD, loss=loss) for loss in COLLAPSE_LOSSES),
)


class Outcome(NamedTuple):
    """Shares of families with a rejection, of comparisons that are rejected, and of all seeds that were run."""

    any_rejected: float
    rejected: float
    seeds: float


def draw_differences(noise: Noise, gain: float, seeds: int, families: int, rng: np.random.Generator) -> Floats:
    """Draw (families, comparisons, seeds, queries) differences with the baseline."""
    seed_sd = np.full(COMPARISONS + 1, noise.seed_sd)
    seed_sd[1] *= noise.first
    values = rng.normal(0, noise.rest_sd, (families, COMPARISONS + 1, seeds, QUERIES))
    values += rng.standard_normal((families, COMPARISONS + 1, seeds, 1)) * seed_sd[:, None, None]
    if noise.loss:
        values[:, 1] += noise.loss * (COLLAPSE_SHARE - (rng.random((families, seeds, 1)) < COLLAPSE_SHARE))
    values += rng.normal(0, noise.query_sd, (families, COMPARISONS + 1, 1, QUERIES))
    difference: Floats = values[:, 1:] - values[:, :1] + gain
    return difference


def run_families(noise: Noise, gain: float, looks: Sequence[int], shares: Sequence[float], families: int) -> Outcome:
    """Simulate families with systems that all differ from the baseline by the same."""
    rng = np.random.default_rng([21, round(1e4 * noise.seed_sd), round(1e4 * noise.query_sd), *looks])
    decided, used = [], []
    for start in range(0, families, BLOCK):
        d = draw_differences(noise, gain, looks[-1], min(BLOCK, families - start), rng)
        rejected, seeds = np.zeros(d.shape[:2], dtype=bool), np.zeros(len(d), dtype=int)
        for number, share in zip(looks, shares, strict=True):
            is_open = ~rejected.all(axis=1)
            squares = Squares.from_differences(d[is_open, :, :number])
            rejected[is_open] |= rejections(estimate_here, squares, share * ALPHA / COMPARISONS)
            seeds[is_open] = number
        decided.append(rejected)
        used.append(seeds)
    every = np.concatenate(decided)
    return Outcome(every.any(axis=1).mean(), every.mean(), np.concatenate(used).mean() / looks[-1])


def compute_unit(noise: Noise, seeds: int) -> float:
    """Compute the minimum detectable effect of one test with all seeds, for two systems with equal deviations."""
    variance = DifferenceVariance(2 * noise.seed_sd**2, 2 * noise.query_sd**2, 2 * noise.rest_sd**2)
    effect = minimum_detectable_effect(variance.estimate(seeds, QUERIES), ALPHA / COMPARISONS)
    assert effect is not None
    return effect


def main(families: int) -> None:
    """Print the family-wise error if no system differs, then power and saved seeds by the true difference."""
    print(f"{families} families a cell\n\nFamily-wise error of equal systems:\n")
    print_header("looks after seeds", *(noise.name for noise in NOISES))
    for looks in LOOKS:
        shares = get_alpha_shares(looks)
        errors = [run_families(noise, 0.0, looks, shares, families).any_rejected for noise in NOISES]
        print_row(", ".join(map(str, looks)), *map(format_share, errors))
    print("\nPower; share of the seeds saved, by true difference in units of the minimum detectable effect:\n")
    print_header("looks after seeds", "scores", "power without looks", *(f"{gain:g} x" for gain in GAINS))
    for looks in LOOKS[:4]:
        for noise in NOISES[:3]:
            unit, shares = compute_unit(noise, looks[-1]), get_alpha_shares(looks)
            fixed = run_families(noise, unit, looks[-1:], (1.0,), families // 3).rejected
            found = [run_families(noise, gain * unit, looks, shares, families // 3) for gain in GAINS]
            cells = [f"{format_share(own.rejected, 2)}; {format_share(1 - own.seeds, 2)}" for own in found]
            print_row(", ".join(map(str, looks)), noise.name, format_share(fixed, 2), *cells)


if __name__ == "__main__":
    run_with_count(main, 3000)
