"""How often tests of a difference of rank correlations reject where there is none: what their docstrings tell.

python -m benchmarks.correlation [STUDIES]

A study is one set of pairs, or seven of which the mean counts, and two systems that are alike, with 2, 3, 5 and 10
seeds. Scores of a run are its quality times the gold similarity, which has 26 levels, and noise: of the pair, of the
system on the pair, and of the run on the pair. Qualities are 1, or vary from seed to seed so that correlations do by
about one point of a hundred.
"""

import sys
import time
from collections.abc import Sequence

import numpy as np

from analysis.bootstrap import difference, resampled
from analysis.significance import estimates
from trainables.metrics import measure

SEEDS, QUALITIES, LEVELS, DRAWS = (2, 3, 5, 10), (0.0, 0.03), (0.05, 0.01), 500
SETS = ((200,), (1500,), (311, 150, 375, 300, 119, 138, 493))
"""Pairs of each set; the seven are a tenth of the standard ones."""


def study(rng: np.random.Generator, pairs: int, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """(2, seeds, pairs) scores of two systems that are alike, and (pairs,) gold similarities."""
    gold = np.round(rng.uniform(0, 25, pairs)) / 5
    quality = 1 + spread * rng.normal(size=(2, max(SEEDS), 1))
    noise = rng.normal(0, 1.0, pairs) + rng.normal(0, 0.4, (2, 1, pairs)) + rng.normal(0, 0.4, (2, max(SEEDS), pairs))
    return quality * (gold - 2.5) + 1.1 * noise, gold


def p_values(scores: np.ndarray, gold: np.ndarray, sets: Sequence[int], number: int) -> dict[tuple[str, int], float]:
    """Of each test and number of seeds."""
    names, lengths, cuts = [f"set {place}" for place in range(len(sets))], np.array(sets), np.cumsum(sets)[:-1]
    values = np.array([[measure("STS").values(run, gold, lengths, names) for run in system] for system in scores])
    parts = zip(names, np.split(scores.reshape(-1, len(gold)), cuts, axis=1), np.split(gold, cuts), strict=True)
    drawn = np.mean([resampled(own, grades, name, number, DRAWS) for name, own, grades in parts], axis=0)
    drawn = drawn.reshape(*scores.shape[:2], DRAWS)
    found = {}
    for seeds in SEEDS:
        d = values[0, :seeds] - values[1, :seeds]
        found |= {(name, seeds): one.test().p for name, one in estimates(d).items() if one is not None}
        found["bootstrap", seeds] = difference(drawn[0, :seeds], drawn[1, :seeds], seed=number).p
    return found


def main(studies: int) -> None:
    """Prints the levels of every test."""
    for sets in SETS:
        pairs = sum(sets)
        for spread in QUALITIES:
            started, rng = time.perf_counter(), np.random.default_rng([pairs, int(1000 * spread)])
            made = [p_values(*study(rng, pairs, spread), sets, number) for number in range(studies)]
            seconds = time.perf_counter() - started
            print(f"{pairs} pairs in {len(sets)}, qualities vary by {spread:g}: {studies} studies, {seconds:.0f} s")
            for name in ("queries", "seeds", "both", "bootstrap"):
                levels = [[np.mean([one[name, seeds] < level for one in made]) for seeds in SEEDS] for level in LEVELS]
                told = "; ".join(
                    f"at {level:g}: " + ", ".join(f"{share:.3f}" for share in own)
                    for level, own in zip(LEVELS, levels, strict=True)
                )
                print(f"  {name:9} with {SEEDS} seeds, {told}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 600)
