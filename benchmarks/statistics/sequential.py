"""What a sequential confirmation gets wrong and what it saves, by simulation with the shares of alpha of the product.

python -m benchmarks.statistics.sequential [FAMILIES] [--powers]

A family compares four systems with one baseline by 200 queries, corrected by Bonferroni at .05. Seeds come in groups. A
comparison stays decided, and a family stops at the look that decides its last open comparison, or at the last look.
True differences are told in units of the minimum detectable effect (80 % power at .0125) of all seeds without looks.
--powers compares power functions of the shares.
"""

import argparse
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from analysis.stats.looks import get_alpha_shares
from analysis.stats.power import DifferenceVariance, minimum_detectable_effect
from benchmarks.statistics.simulation import Squares, estimate_here, format_share, rejections

Floats = np.ndarray
ALPHA, COMPARISONS, QUERIES, BLOCK = 0.05, 4, 200, 200
GAINS = (1.0, 1.5, 2.0, 3.0)
LOOKS = ((5, 10), (4, 8, 12), (5, 10, 15, 20), (3, 6, 9, 12, 15), (2, 4, 6, 8))
POWERS = (1.0, 1.5, 2.0, 3.0)


class Noise(NamedTuple):
    """Standard deviations of a system's scores; the first system's seeds vary `first` times as much."""

    name: str
    seed_sd: float
    query_sd: float
    rest_sd: float = 0.12
    first: float = 1.0


NOISES = (
    Noise("seeds dominate", 0.02, 0.02),
    Noise("seeds and queries", 0.006, 0.05),
    Noise("queries dominate", 0.001, 0.1),
    Noise("only the rest", 0.0, 0.0),
    Noise("one system 3 x, its seeds", 0.02, 0.02, first=3.0),
    Noise("one system 5 x, its seeds", 0.006, 0.05, first=5.0),
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
    values += rng.normal(0, noise.query_sd, (families, COMPARISONS + 1, 1, QUERIES))
    difference: Floats = values[:, 1:] - values[:, :1] + gain
    return difference


def run_families(noise: Noise, gain: float, looks: Sequence[int], shares: Sequence[float], families: int) -> Outcome:
    """Simulate families whose systems all differ from the baseline by the same."""
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


def spend_power(looks: Sequence[int], power: float) -> Floats:
    """Return the shares of the looks if alpha t^power is spent up to the share t of the seeds."""
    return np.diff([0.0, *((seeds / looks[-1]) ** power for seeds in looks)])


def print_errors(families: int) -> None:
    """Print the family-wise error if no system differs."""
    print("| looks after seeds | " + " | ".join(noise.name for noise in NOISES) + " |")
    print("|---" * (len(NOISES) + 1) + "|")
    for looks in LOOKS:
        errors = [run_families(noise, 0.0, looks, get_alpha_shares(looks), families).any_rejected for noise in NOISES]
        print(f"| {', '.join(map(str, looks))} | {' | '.join(map(format_share, errors))} |", flush=True)


def print_savings(families: int) -> None:
    """Print power and seeds by the true difference."""
    print("| looks after seeds | scores | power without looks | " + " | ".join(f"{gain:g} x" for gain in GAINS) + " |")
    print("|---" * (len(GAINS) + 3) + "|")
    for looks in LOOKS[:4]:
        for noise in NOISES[:3]:
            unit = compute_unit(noise, looks[-1])
            fixed = run_families(noise, unit, looks[-1:], (1.0,), families).rejected
            cells = []
            for gain in GAINS:
                outcome = run_families(noise, gain * unit, looks, get_alpha_shares(looks), families)
                cells.append(f"{format_share(outcome.rejected, 2)}; {format_share(1 - outcome.seeds, 2)}")
            print(f"| {', '.join(map(str, looks))} | {noise.name} | {format_share(fixed, 2)} | {' | '.join(cells)} |")


def print_powers(families: int) -> None:
    """Print power and saved seeds of several power functions."""
    print("| power | looks after seeds | " + " | ".join(f"{gain:g} x" for gain in GAINS) + " |")
    print("|---" * (len(GAINS) + 2) + "|")
    for power in POWERS:
        for looks in LOOKS[:3]:
            noise, cells = NOISES[1], []
            unit = compute_unit(noise, looks[-1])
            for gain in GAINS:
                outcome = run_families(noise, gain * unit, looks, tuple(spend_power(looks, power)), families)
                cells.append(f"{format_share(outcome.rejected, 2)}; {format_share(1 - outcome.seeds, 2)}")
            print(f"| {power:g} | {', '.join(map(str, looks))} | {' | '.join(cells)} |", flush=True)


def main(families: int, powers: bool) -> None:
    """Print all tables."""
    started = time.perf_counter()
    print(f"{families} families a cell\n\nFamily-wise error of equal systems:\n")
    print_errors(families)
    print("\nPower; share of the seeds saved, by true difference in units of the minimum detectable effect:\n")
    print_savings(families // 3)
    if powers:
        print("\nThe same for power functions, seeds and queries:\n")
        print_powers(families // 3)
    print(f"\n{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.statistics.sequential")
    parser.add_argument("families", nargs="?", type=int, default=3000)
    parser.add_argument("--powers", action="store_true")
    arguments = parser.parse_args()
    main(arguments.families, arguments.powers)
