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
from trainables.metrics.ranking import average_precision, metric, ndcg_at, position, recall_at, reciprocal_rank
from trainables.metrics.sts import PERCENT, Similarity
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
    minimised: bool = False
    logits: bool = False
    candidates: int | None = None
    similarity: Similarity | None = None

    @property
    def largest(self) -> float:
        """What its values are at most, where more is better."""
        return PERCENT if self.similarity else 1.0

    @property
    def unit(self) -> str:
        """What its values are of."""
        return "sentence pair" if self.similarity else "query"

    @property
    def ranks(self) -> bool:
        """Whether it judges every system, query by query, by the order of its candidates alone."""
        return self.per_query and not self.logits

    def values(
        self,
        scores: NDArray[Any],
        relevant: NDArray[Any],
        lengths: Ints,
        names: Sequence[str] | None = None,
        units: NDArray[np.intp] | None = None,
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
        if self.similarity:
            own = np.arange(len(scores)) if units is None else units
            return self.similarity.values(*self._named(scores, relevant, lengths, names), own)
        if not self.per_query:
            raise ValueError(f"{self.name} has no value for a single query")
        if self.candidates is not None and (lengths != self.candidates).any():
            raise ValueError(f"queries with other than {self.candidates} candidates")
        starts = np.cumsum(lengths) - lengths
        values = np.empty(len(lengths))
        for length in np.unique(lengths):
            own = np.flatnonzero(lengths == length)
            rows = starts[own, None] + np.arange(length)
            values[own] = self.function(scores[rows], relevant[rows])
        return values

    def overall(
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
        if self.similarity:
            return self.similarity.overall(*self._named(scores, relevant, lengths, names))
        if self.per_query:
            return float(self.values(scores, relevant, lengths).mean())
        return float(self.function(scores, relevant))

    def _named(
        self,
        scores: NDArray[Any],
        relevant: NDArray[Any],
        lengths: Ints,
        names: Sequence[str] | None,
    ) -> tuple[Floats, Floats, Ints, Sequence[str]]:
        if names is None or len(names) != len(lengths):
            raise ValueError(f"{self.name} needs the name of each query, which is that of its set")
        return np.asarray(scores, np.float64), np.asarray(relevant, np.float64), lengths, names


_NAMED = {
    one.name: one
    for one in (
        Measure("MAP", average_precision),
        Measure("MRR", reciprocal_rank),
        Measure("position", position, minimised=True),
        Measure("Brier", brier_score, minimised=True, logits=True),
        Measure("NLL", negative_log_likelihood, minimised=True, logits=True),
        Measure("ECE", expected_calibration_error, per_query=False, minimised=True, logits=True),
        Measure("Spearman", spearman, per_query=False),
    )
}
MINIMISED = tuple(name for name, one in _NAMED.items() if one.minimised)
"""Metrics of which less is better."""


@cache
def measure(name: str) -> Measure:
    """The metric of this name: "R10@1", "nDCG@10", "MAP", "MRR", "position", "Brier", "NLL", "ECE", "Spearman",
    "STS" (100 x Spearman, the mean over sets), "STS/STS12" (of a set) or "STS/STS12/MSRpar" (of a subset).

    Raises:
        ValueError: there is none.
    """
    if name in _NAMED:
        return _NAMED[name]
    if found := re.fullmatch(r"nDCG@([1-9]\d{0,5})", name):
        return Measure(name, partial(ndcg_at, int(found[1])))
    if found := re.fullmatch(r"STS(?:/(\S*[^\s/]))?", name):
        return Measure(name, spearman, similarity=Similarity(found[1] or ""))
    try:
        candidates, cutoff = metric(name)
    except ValueError as error:
        raise ValueError(f"{error}, nDCG@<k>, {', '.join(_NAMED)}, STS or STS/<set>") from None
    return Measure(name, partial(recall_at, cutoff), candidates=candidates)
