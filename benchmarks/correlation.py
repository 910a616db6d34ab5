"""Levels of tests of a difference of rank correlations, simulated: the figures of their docstrings.

python -m benchmarks.correlation [STUDIES [CASE ...]]

A study has two systems that are alike, with 2, 3, 5 and 10 seeds. It is one set of pairs, or the mean of seven, which
may share pairs. Scores of a run are its quality times the gold similarity, which has 26 levels, and
noise: of the pair, of the system on the pair, and of the run on the pair. Qualities are 1, or vary from seed to seed so
that correlations do by about one point of a hundred. In the last two cases three pairs have one sentence in common, and
the system has as much noise on a sentence as on a pair. Their gold similarities are independent, or the same.
"""

import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from analysis.stats.paired_tests import estimate_all
from trainables.metrics import get_measure

SEEDS, QUALITIES, LEVELS = (2, 3, 5, 10), (0.0, 0.03), (0.05, 0.01)


class Pairs(NamedTuple):
    """Number of pairs of each set.

    Attributes:
        sets: number of pairs of each set.
        copied: pairs that are in two sets: (set, set that they are copied from, number).
        per_sentence: number of pairs with one sentence in common.
        are_alike: True if these pairs have the same gold similarity.
    """

    sets: tuple[int, ...]
    copied: tuple[tuple[int, int, int], ...] = ()
    per_sentence: int = 1
    are_alike: bool = False

    @property
    def units(self) -> np.ndarray:
        """(pairs,) numbers of the distinct pairs."""
        found, starts = np.arange(sum(self.sets)), np.cumsum(self.sets) - self.sets
        end = dict(enumerate(np.cumsum(self.sets).tolist()))
        for to, source, count in self.copied:
            found[end[to] - count : end[to]] = starts[source] + np.arange(count)
            end[to] -= count
        return np.unique(found, return_inverse=True)[1]


STANDARD = (311, 150, 375, 300, 119, 138, 493)
"""A tenth of the sets STS12 to STS16, STS-B and SICK-R."""
SHARED = ((0, 0, 21), (5, 0, 25), (5, 1, 7), (5, 2, 20), (5, 3, 20), (5, 4, 28))
"""A tenth of what STS12 has twice, and STS-B from STS12 to STS16."""
CASES = (
    Pairs((200,)),
    Pairs((1500,)),
    Pairs(STANDARD),
    Pairs(STANDARD, SHARED),
    Pairs((1500,), per_sentence=3),
    Pairs((1500,), per_sentence=3, are_alike=True),
)


def study(rng: np.random.Generator, pairs: int, spread: float, case: Pairs) -> tuple[np.ndarray, np.ndarray]:
    """(2, seeds, pairs) scores of two systems that are alike, and (pairs,) gold similarities."""
    sentences = np.arange(pairs) // case.per_sentence
    gold = np.round(rng.uniform(0, 25, pairs)) / 5
    gold = gold[sentences] if case.are_alike else gold
    quality = 1 + spread * rng.normal(size=(2, max(SEEDS), 1))
    noise = rng.normal(0, 1.0, pairs) + rng.normal(0, 0.4, (2, 1, pairs)) + rng.normal(0, 0.4, (2, max(SEEDS), pairs))
    if case.per_sentence > 1:
        noise = noise + rng.normal(0, 0.4, (2, 1, pairs))[..., sentences]
    return quality * (gold - 2.5) + 1.1 * noise, gold


def p_values(scores: np.ndarray, gold: np.ndarray, pairs: Pairs) -> dict[tuple[str, int], float]:
    """p of each test and number of seeds; where pairs are shared, also of tests that take them for different ones."""
    names, lengths, found = [f"set {place}" for place in range(len(pairs.sets))], np.array(pairs.sets), {}
    for suffix, units in (("", pairs.units), *([(", as if all differed", None)] if pairs.copied else [])):
        own = [
            [get_measure("STS").compute_values(run, gold, lengths, names, units) for run in system] for system in scores
        ]
        values = np.array(own)
        for seeds in SEEDS:
            d = values[0, :seeds] - values[1, :seeds]
            found |= {(name + suffix, seeds): one.test().p for name, one in estimate_all(d).items() if one is not None}
    return found


def main(studies: int, cases: Sequence[Pairs]) -> None:
    """Prints the levels of every test."""
    for pairs in cases:
        units = pairs.units
        distinct = int(units.max()) + 1
        for spread in QUALITIES:
            started, rng = time.perf_counter(), np.random.default_rng([distinct, int(1000 * spread)])
            drawn = (study(rng, distinct, spread, pairs) for _ in range(studies))
            made = [p_values(scores[..., units], gold[units], pairs) for scores, gold in drawn]
            seconds = time.perf_counter() - started
            told = f"{len(units)} pairs in {len(pairs.sets)}, {distinct} distinct, qualities vary by {spread:g}"
            if pairs.per_sentence > 1:
                told += f", {pairs.per_sentence} {'alike ' if pairs.are_alike else ''}pairs a sentence"
            print(f"{told}: {studies} studies, {seconds:.0f} s")
            for name in dict.fromkeys(name for name, _ in made[0]):
                levels = [[np.mean([one[name, seeds] < level for one in made]) for seeds in SEEDS] for level in LEVELS]
                shown = "; ".join(
                    f"at {level:g}: " + ", ".join(f"{share:.3f}" for share in own)
                    for level, own in zip(LEVELS, levels, strict=True)
                )
                print(f"  {name} with {SEEDS} seeds, {shown}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 600, [CASES[int(place)] for place in sys.argv[2:]] or CASES)
