"""Rank intervals of systems and groups that cannot be told apart, from tests of all pairs.

The pairs are corrected among themselves (Bonferroni), apart from the declared comparisons, which they do not change.
"""

import string
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from analysis.stats.comparison import Comparison, ComparisonFamily, ComparisonSettings, compare_family
from analysis.stats.paired_tests import differences, vary_over_seeds
from trainables.utils.arrays import Bools, Floats

MIN_SYSTEMS = 3
"""Fewest systems that are ranked."""
HEADER = ["system", "mean", "rank", "group"]


class RankedSystem(NamedTuple):
    """One system with its rank interval.

    Attributes:
        best: best rank in the interval; 1 is the best system.
        worst: worst rank in the interval.
        letters: groups of the system. Two systems with a letter in common cannot be told apart.
    """

    system: str
    mean: float
    best: int
    worst: int
    letters: str

    def to_cells(self) -> list[str]:
        """Return the row of a table with the columns of `HEADER`."""
        rank = f"{self.best}" if self.best == self.worst else f"{self.best} to {self.worst}"
        return [self.system, f"{self.mean:.4f}", rank, self.letters]


def rank_systems(values: Mapping[str, Floats], settings: ComparisonSettings) -> list[RankedSystem]:
    """Compare all pairs of systems and return the systems in order of their means, the best first.

    All rank intervals hold at once at 1 - alpha. Only systems with complete scores are ranked. With fewer than three,
    nothing is.

    Args:
        values: (seeds, queries) metric of each complete system, or (1, queries) of a system without seeds.
        settings: settings of the comparisons. Pairs are always corrected by Bonferroni.

    References:
        Al Mohamad, Goeman and van Zwet, Simultaneous confidence intervals for ranks with application to ranking
        institutions, Biometrics 78 (2022): intervals from tests of all pairs that control the family-wise error.

    Example:
        >>> import numpy as np
        >>> base = np.array([[0.4, 0.5, 0.6, 0.5, 0.3, 0.7]])
        >>> noise = np.array([[0.01, -0.01, 0.0, 0.01, -0.01, 0.0]])
        >>> values = {"BM25": base, "BERT": base + 0.2 + noise, "LS": base + 0.2}
        >>> [(own.system, own.best, own.worst, own.letters) for own in rank_systems(values, ComparisonSettings())]
        [('BERT', 1, 2, 'a'), ('LS', 1, 2, 'a'), ('BM25', 3, 3, 'b')]
    """
    if len(values) < MIN_SYSTEMS:
        return []
    sign = -1 if settings.less_is_better else 1
    names = sorted(values, key=lambda name: -sign * float(values[name].mean()))
    compared = _compare_pairs(values, names, settings)
    better = np.zeros((len(names), len(names)), dtype=bool)
    place = {name: index for index, name in enumerate(names)}
    for c in compared:
        if c.verdict in ("better", "worse"):
            pair = (c.system, c.baseline) if c.verdict == "better" else (c.baseline, c.system)
            better[place[pair[0]], place[pair[1]]] = True
    best, worst = compute_rank_intervals(better)
    letters = assign_letters(better | better.T)
    return [
        RankedSystem(name, float(values[name].mean()), best[own], worst[own], letters[own])
        for own, name in enumerate(names)
    ]


def compute_rank_intervals(better: Bools) -> tuple[list[int], list[int]]:
    """Return the best and the worst rank of each system.

    Args:
        better: (systems, systems) whether the system of the row is significantly better than that of the column.

    Example:
        >>> import numpy as np
        >>> compute_rank_intervals(np.array([[0, 0, 1], [0, 0, 0], [0, 0, 0]], dtype=bool))
        ([1, 1, 2], [2, 3, 3])
    """
    return (1 + better.sum(axis=0)).tolist(), (len(better) - better.sum(axis=1)).tolist()


def assign_letters(different: Bools) -> list[str]:
    """Return the letters of each system: two systems have one in common exactly if they do not differ.

    Args:
        different: (systems, systems) whether two systems differ significantly, in order of the systems.

    References:
        Insert-and-absorb of Piepho, An algorithm for a letter-based representation of all-pairwise comparisons,
        Journal of Computational and Graphical Statistics 13 (2004).

    Example:
        >>> import numpy as np
        >>> assign_letters(np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]], dtype=bool))
        ['a', 'ab', 'b']
    """
    count = len(different)
    groups = [frozenset(range(count))]
    for first, second in combinations(range(count), 2):
        if different[first, second]:
            both = [group for group in groups if {first, second} <= group]
            groups = [group for group in groups if group not in both]
            for group in sorted((own - {left} for own in both for left in (first, second)), key=len, reverse=True):
                if not any(group <= other for other in groups):
                    groups.append(group)
    groups.sort(key=sorted)
    return ["".join(_name_group(index) for index, group in enumerate(groups) if own in group) for own in range(count)]


def describe_ranks(systems: int, alpha: float) -> str:
    """Return the legend of the table."""
    return (
        f"Ranks: intervals that hold for all systems at once, at {100 * (1 - alpha):g} %. Systems with a letter in "
        "common cannot be told apart, which does not make them equal. Both are from two-sided tests of all "
        f"{systems * (systems - 1) // 2} pairs of these systems, declared or not, corrected among themselves "
        "(Bonferroni); the declared comparisons and their verdicts are separate from them."
    )


def _compare_pairs(
    values: Mapping[str, Floats], names: Sequence[str], settings: ComparisonSettings
) -> list[Comparison]:
    pairs = list(combinations(names, 2))
    family = ComparisonFamily(
        "groups",
        "",
        "",
        [(first, second, differences(values[first], values[second])) for first, second in pairs],
        poolable=[vary_over_seeds(values[first], values[second]) for first, second in pairs],
    )
    how = ComparisonSettings(settings.alpha, less_is_better=settings.less_is_better, seeds=settings.seeds)
    return compare_family(family, how)


def _name_group(index: int) -> str:
    """Return a to z, then A to Z, then these with a number."""
    letters = string.ascii_letters
    return letters[index % len(letters)] + (str(index // len(letters)) if index >= len(letters) else "")
