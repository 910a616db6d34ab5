"""Semantic textual similarity: how well the cosines of sentence pairs agree with gold similarities, set by set."""

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
"""Correlations of sentence encoders are reported times 100."""


def get_set_name(name: str) -> str:
    """The set of a query: "STS12" of "STS12/MSRpar"."""
    return name.partition("/")[0]


@dataclass(frozen=True)
class STSCorrelation:
    """100 x Spearman of a set, all pairs of its subsets as one list, or the mean of it over sets.

    This is the "all" aggregation and the average of Gao et al. (2021) and Wu et al. (2021, Table 2).

    Attributes:
        place: "" for the mean over the sets that are there, else a set, or "<set>/<subset>".
    """

    scope: str = ""

    def covers(self, names: Sequence[str]) -> Bools:
        """(queries,) whether it is about the pairs of a query."""
        return np.array([self.scope in ("", name, get_set_name(name)) for name in names], dtype=bool)

    def compute_overall(self, scores: Floats, grades: Floats, lengths: Ints, names: Sequence[str]) -> float:
        """The metric; see `values`."""
        rows = self._group_rows(lengths, names)
        found = [_apply_to_set(spearman, name, scores[own], grades[own]) for name, own in rows.items()]
        return PERCENT * float(np.mean(found))

    def compute_values(
        self, scores: Floats, grades: Floats, lengths: Ints, names: Sequence[str], pair_ids: NDArray[np.intp]
    ) -> Floats:
        """Pseudo-values of the distinct pairs that it is about; their mean is the metric.

        Those of a mean over G sets are, about it, 1 / (G n) times those of a set of n pairs, and those of a pair that
        is there several times are summed, all times the number of distinct pairs: so the variance of their mean is
        that of a sample of distinct pairs, stratified by set. Of seven sets that share most of what the standard ones
        do, the test over pairs rejects at .05 in .045 to .052 of studies of two systems that are alike, and in .072 to
        .092 where all pairs are taken to differ (400 studies each, seeds that do not vary; `benchmarks.correlation`).

        Args:
            scores: (pairs,), those of a query side by side.
            grades: (pairs,) gold similarities.
            lengths: (queries,) pairs of each query, in the order of the pairs.
            names: (queries,) "<set>" or "<set>/<subset>" of each.
            units: (pairs,) a number of each, the same of the same two sentences.

        Returns:
            (distinct pairs covered,) in the order of their numbers.

        Raises:
            ValueError: it is about none of the pairs, or a set has a NaN, fewer than two pairs, or equal grades only.
        """
        rows = self._group_rows(lengths, names)
        found = [_apply_to_set(spearman_pseudo_values, name, scores[own], grades[own]) for name, own in rows.items()]
        shares = [(pseudo - pseudo.mean()) / (len(found) * len(pseudo)) for pseudo in found]
        known, places = np.unique(pair_ids[np.concatenate(list(rows.values()))], return_inverse=True)
        summed = len(known) * np.bincount(places, np.concatenate(shares))
        mean = float(np.mean([pseudo.mean() for pseudo in found]))
        values: Floats = PERCENT * (summed - summed.mean() + mean)
        return values

    def _group_rows(self, lengths: Ints, names: Sequence[str]) -> dict[str, NDArray[np.intp]]:
        """The rows of the pairs that are one list, by its name."""
        lists = [self.scope or get_set_name(name) for name in names]
        covered = self.covers(names)
        by_pair = np.repeat(np.array(lists, dtype=object), lengths)
        by_pair[~np.repeat(covered, lengths)] = None
        found = {name: np.flatnonzero(by_pair == name) for name in dict.fromkeys(lists)}
        if not covered.any():
            raise ValueError(f"no pairs of {self.scope or 'any set'}")
        return found


def _apply_to_set(function: Callable[[Floats, Floats], _T], name: str, scores: Floats, grades: Floats) -> _T:
    try:
        return function(scores, grades)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
