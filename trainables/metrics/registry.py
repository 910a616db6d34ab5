"""Every metric by its name. What a study's file, the records and the analysis call a metric is a name of these."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainables.metrics.calibration import brier_score, expected_calibration_error, negative_log_likelihood
from trainables.metrics.correlation import spearman
from trainables.metrics.ranking import (
    average_precision,
    ndcg_at,
    parse_recall_name,
    rank_of_first_relevant,
    recall_at,
    reciprocal_rank,
)
from trainables.metrics.sts import PERCENT, STSCorrelation
from trainables.utils.arrays import Floats, Ints


@dataclass(frozen=True)
class Measure:
    """A metric of scored candidates.

    Attributes:
        name: with its parameters.
        function: of scores and relevance, (queries, candidates) both, to (queries,); to one number if not `per_query`.
        per_query: whether each query has a value, so that differences can be tested.
        minimised: whether less is better.
        logits: whether scores must be logits, as a model's are and BM25's are not.
        candidates: that each query must have; None: any number, and as many as it likes.
        similarity: of a metric of sentence pairs, which of them it is about: its values are of pairs, not of queries,
            and it needs the names of the queries, which are those of the sets.
    """

    name: str
    function: Callable[[Floats, Floats], Any]
    per_query: bool = True
    lower_is_better: bool = False
    needs_logits: bool = False
    required_candidates: int | None = None
    sts_correlation: STSCorrelation | None = None

    @property
    def max_value(self) -> float:
        """What its values are at most, where more is better."""
        return PERCENT if self.sts_correlation else 1.0

    @property
    def unit(self) -> str:
        """What its values are of."""
        return "sentence pair" if self.sts_correlation else "query"

    @property
    def is_rank_based(self) -> bool:
        """Whether it judges every system, query by query, by the order of its candidates alone."""
        return self.per_query and not self.needs_logits

    def compute_values(
        self,
        scores: NDArray[Any],
        relevant: NDArray[Any],
        lengths: Ints,
        names: Sequence[str] | None = None,
        pair_ids: NDArray[np.intp] | None = None,
    ) -> Floats:
        """The metric of each query.

        Args:
            scores: (pairs,), the candidates of a query side by side.
            relevant: (pairs,) 0 or 1; gold similarities for a metric of sentence pairs.
            lengths: (queries,) candidates of each, in the order of the pairs; they may differ where `candidates` is
                None.
            names: (queries,) of each; only a metric of sentence pairs asks for them.
            units: (pairs,) a number of each, the same of the same two sentences; only a metric of sentence pairs asks
                for them. None: all differ.

        Returns:
            (queries,); of a metric of sentence pairs, what `Similarity.values` has.

        Raises:
            ValueError: where the function does, a query has other than `candidates`, or it is no metric of queries.
        """
        if self.sts_correlation:
            own = np.arange(len(scores)) if pair_ids is None else pair_ids
            return self.sts_correlation.compute_values(*self._check_names(scores, relevant, lengths, names), own)
        if not self.per_query:
            raise ValueError(f"{self.name} has no value for a single query")
        if self.required_candidates is not None and (lengths != self.required_candidates).any():
            raise ValueError(f"queries with other than {self.required_candidates} candidates")
        starts = np.cumsum(lengths) - lengths
        values = np.empty(len(lengths))
        for length in np.unique(lengths):
            own = np.flatnonzero(lengths == length)
            rows = starts[own, None] + np.arange(length)
            values[own] = self.function(scores[rows], relevant[rows])
        return values

    def compute_overall(
        self,
        scores: NDArray[Any],
        relevant: NDArray[Any],
        lengths: Ints,
        names: Sequence[str] | None = None,
    ) -> float:
        """One number: the mean over queries, or what the function makes of all pairs together.

        Args:
            scores: as for `values`, and so are the others.
            relevant: the same.
            lengths: the same.
            names: the same.

        Raises:
            ValueError: as for `values`.
        """
        if self.sts_correlation:
            return self.sts_correlation.compute_overall(*self._check_names(scores, relevant, lengths, names))
        if self.per_query:
            return float(self.compute_values(scores, relevant, lengths).mean())
        return float(self.function(scores, relevant))

    def _check_names(
        self,
        scores: NDArray[Any],
        relevant: NDArray[Any],
        lengths: Ints,
        names: Sequence[str] | None,
    ) -> tuple[Floats, Floats, Ints, Sequence[str]]:
        if names is None or len(names) != len(lengths):
            raise ValueError(f"{self.name} needs the name of each query, which is that of its set")
        return np.asarray(scores, np.float64), np.asarray(relevant, np.float64), lengths, names


_MEASURES = {
    one.name: one
    for one in (
        Measure("MAP", average_precision),
        Measure("MRR", reciprocal_rank),
        Measure("position", rank_of_first_relevant, lower_is_better=True),
        Measure("Brier", brier_score, lower_is_better=True, needs_logits=True),
        Measure("NLL", negative_log_likelihood, lower_is_better=True, needs_logits=True),
        Measure("ECE", expected_calibration_error, per_query=False, lower_is_better=True, needs_logits=True),
        Measure("Spearman", spearman, per_query=False),
    )
}
LOWER_IS_BETTER = tuple(name for name, one in _MEASURES.items() if one.lower_is_better)
"""Metrics of which less is better."""


@cache
def get_measure(name: str) -> Measure:
    """The metric of this name: "R10@1", "nDCG@10", "MAP", "MRR", "position", "Brier", "NLL", "ECE", "Spearman",
    "STS" (100 x Spearman, the mean over sets), "STS/STS12" (of a set) or "STS/STS12/MSRpar" (of a subset).

    Raises:
        ValueError: there is none.
    """
    if name in _MEASURES:
        return _MEASURES[name]
    if found := re.fullmatch(r"nDCG@([1-9]\d{0,5})", name):
        return Measure(name, partial(ndcg_at, int(found[1])))
    if found := re.fullmatch(r"STS(?:/(\S*[^\s/]))?", name):
        return Measure(name, spearman, sts_correlation=STSCorrelation(found[1] or ""))
    try:
        candidates, cutoff = parse_recall_name(name)
    except ValueError as error:
        raise ValueError(f"{error}, nDCG@<k>, {', '.join(_MEASURES)}, STS or STS/<set>") from None
    return Measure(name, partial(recall_at, cutoff), required_candidates=candidates)
