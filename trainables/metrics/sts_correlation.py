"""Semantic textual similarity: correlation of cosines with gold similarities, by set of pairs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from trainables.metrics.correlation import spearman
from trainables.metrics.jackknife import spearman_pseudo_values
from trainables.utils.arrays import Bools, Floats, Ints

_T = TypeVar("_T")
PERCENT = 100.0
"""Factor of the reported values: correlations of sentence encoders are reported times 100."""


def get_set_name(name: str) -> str:
    """Return the set of a query.

    Example:
        >>> get_set_name("STS12/MSRpar")
        'STS12'
    """
    return name.partition("/")[0]


@dataclass(frozen=True)
class STSCorrelation:
    """100 x Spearman's correlation of a set, or its mean over sets.

    The pairs of all subsets of a set form one list. This is the "all" aggregation and the average of Gao et al. (2021)
    and Wu et al. (2021, Table 2).

    Attributes:
        scope: a set, or "<set>/<subset>". If "", the mean over all sets that the pairs belong to.

    Example:
        >>> scores, grades = np.array([0.1, 0.2, 0.9, 0.3, 0.2]), np.array([0.0, 2.0, 5.0, 1.0, 4.0])
        >>> lengths, names = np.array([3, 2]), ["STS12/MSRpar", "STS-B"]
        >>> STSCorrelation("STS12").compute_overall(scores, grades, lengths, names)
        100.0
        >>> STSCorrelation().compute_overall(scores, grades, lengths, names)
        0.0
    """

    scope: str = ""

    def covers(self, names: Sequence[str]) -> Bools:
        """Return (queries,) whether the pairs of each query are in the scope."""
        return np.array([self.scope in ("", name, get_set_name(name)) for name in names], dtype=bool)

    def compute_overall(self, scores: Floats, grades: Floats, lengths: Ints, names: Sequence[str]) -> float:
        """Compute the metric; `compute_values` documents the arguments and errors."""
        rows = self._group_rows(lengths, names)
        correlations = [_apply_to_set(spearman, name, scores[own], grades[own]) for name, own in rows.items()]
        return PERCENT * float(np.mean(correlations))

    def compute_values(
        self, scores: Floats, grades: Floats, lengths: Ints, names: Sequence[str], pair_ids: NDArray[np.intp]
    ) -> Floats:
        """Compute pseudo-values of the distinct pairs in the scope; their mean is the metric.

        For a mean over G sets, the deviation of a pseudo-value from its mean is multiplied by 1 / (G n). Here n is the
        number of pairs in its set. The values of a pair that occurs several times are summed. All are then multiplied
        by the number of distinct pairs. So the variance of their mean is that of a sample of distinct pairs, stratified
        by set.

        Measured type-I error at .05 of the test over pairs, for seven sets that share most of the pairs that the
        standard sets share: .042 to .048, and .068 to .092 if all pairs are assumed to differ (600 studies each, equal
        systems, seeds that do not vary; `benchmarks.correlation`).

        Args:
            scores: (pairs,), those of a query next to each other.
            grades: (pairs,) gold similarities.
            lengths: (queries,) number of pairs of each query, in the order of the pairs.
            names: (queries,) "<set>" or "<set>/<subset>" of each query.
            pair_ids: (pairs,) number of each pair, equal for pairs of the same two sentences.

        Returns:
            (distinct pairs in the scope,) in the order of their numbers.

        Raises:
            ValueError: no pair is in the scope, or a set has a NaN, fewer than two pairs, or only equal grades.
        """
        rows = self._group_rows(lengths, names)
        by_set = [_apply_to_set(spearman_pseudo_values, name, scores[own], grades[own]) for name, own in rows.items()]
        shares = [(pseudo - pseudo.mean()) / (len(by_set) * len(pseudo)) for pseudo in by_set]
        distinct, indices = np.unique(pair_ids[np.concatenate(list(rows.values()))], return_inverse=True)
        summed = len(distinct) * np.bincount(indices, np.concatenate(shares))
        mean = float(np.mean([pseudo.mean() for pseudo in by_set]))
        values: Floats = PERCENT * (summed - summed.mean() + mean)
        return values

    def _group_rows(self, lengths: Ints, names: Sequence[str]) -> dict[str, NDArray[np.intp]]:
        """Return list name -> rows of the pairs in that list; a list is a set, or the scope itself."""
        lists = [self.scope or get_set_name(name) for name in names]
        covered = self.covers(names)
        by_pair = np.repeat(np.array(lists, dtype=object), lengths)
        by_pair[~np.repeat(covered, lengths)] = None
        if not covered.any():
            raise ValueError(f"there are no pairs of {self.scope or 'any set'}")
        return {name: np.flatnonzero(by_pair == name) for name in dict.fromkeys(lists)}


def _apply_to_set(function: Callable[[Floats, Floats], _T], name: str, scores: Floats, grades: Floats) -> _T:
    try:
        return function(scores, grades)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
