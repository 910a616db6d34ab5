"""Registry of all metrics by the names that study files, run records and the analysis use."""

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
        name: name of the metric, including its parameters.
        function: maps scores and relevance, (queries, candidates) each, to (queries,), or to one number if `per_query`
            is False.
        per_query: whether each query has a value, so that differences can be tested.
        lower_is_better: whether a lower value is better.
        needs_logits: whether the scores must be logits. Scores of a model are logits; scores of BM25 are not.
        required_candidates: number of candidates that each query must have. If None, queries may have any number of
            candidates, and the numbers may differ.
        sts_correlation: for a metric of sentence pairs, the correlation and the pairs that it covers. Its values belong
            to pairs instead of queries, and it needs the names of the queries, which are those of the sets.
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
        """Largest possible value, if higher is better."""
        return PERCENT if self.sts_correlation else 1.0

    @property
    def unit(self) -> str:
        """Unit that has a value: "sentence pair" or "query"."""
        return "sentence pair" if self.sts_correlation else "query"

    @property
    def is_rank_based(self) -> bool:
        """True if each query has a value that depends only on the order of its candidates."""
        return self.per_query and not self.needs_logits

    def compute_values(
        self,
        scores: NDArray[Any],
        relevant: NDArray[Any],
        lengths: Ints,
        names: Sequence[str] | None = None,
        pair_ids: NDArray[np.intp] | None = None,
    ) -> Floats:
        """Compute the metric of each query.

        Args:
            scores: (pairs,), the candidates of a query next to each other.
            relevant: (pairs,) 0 or 1; gold similarities for a metric of sentence pairs.
            lengths: (queries,) number of candidates of each query, in the order of the pairs. The numbers may differ if
                `required_candidates` is None.
            names: (queries,) names of the queries; only a metric of sentence pairs needs them.
            pair_ids: (pairs,) number of each pair, equal for pairs of the same two sentences; only a metric of sentence
                pairs needs them. If None, all pairs differ.

        Returns:
            (queries,) values; for a metric of sentence pairs, see `STSCorrelation.compute_values`.

        Raises:
            ValueError: the function raises it, a query does not have `required_candidates` candidates, or the metric
                has no value per query.
        """
        if self.sts_correlation:
            ids = np.arange(len(scores)) if pair_ids is None else pair_ids
            return self.sts_correlation.compute_values(*self._check_names(scores, relevant, lengths, names), ids)
        if not self.per_query:
            raise ValueError(f"{self.name} has no value for a single query")
        if self.required_candidates is not None and (lengths != self.required_candidates).any():
            raise ValueError(f"{self.name} needs exactly {self.required_candidates} candidates for each query")
        starts = np.cumsum(lengths) - lengths
        values = np.empty(len(lengths))
        for length in np.unique(lengths):
            queries = np.flatnonzero(lengths == length)
            rows = starts[queries, None] + np.arange(length)
            values[queries] = self.function(scores[rows], relevant[rows])
        return values

    def compute_overall(
        self,
        scores: NDArray[Any],
        relevant: NDArray[Any],
        lengths: Ints,
        names: Sequence[str] | None = None,
    ) -> float:
        """Compute one number: the mean over queries, or the value of all pairs together.

        Args:
            scores: see `compute_values`.
            relevant: see `compute_values`.
            lengths: see `compute_values`.
            names: see `compute_values`.

        Raises:
            ValueError: see `compute_values`; a metric without a value per query is allowed here.
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
            raise ValueError(f"{self.name} needs the name of each query: <set> or <set>/<subset>")
        return np.asarray(scores, np.float64), np.asarray(relevant, np.float64), lengths, names


_MEASURES = {
    measure.name: measure
    for measure in (
        Measure("MAP", average_precision),
        Measure("MRR", reciprocal_rank),
        Measure("position", rank_of_first_relevant, lower_is_better=True),
        Measure("Brier", brier_score, lower_is_better=True, needs_logits=True),
        Measure("NLL", negative_log_likelihood, lower_is_better=True, needs_logits=True),
        Measure("ECE", expected_calibration_error, per_query=False, lower_is_better=True, needs_logits=True),
        Measure("Spearman", spearman, per_query=False),
    )
}
LOWER_IS_BETTER = tuple(name for name, measure in _MEASURES.items() if measure.lower_is_better)
"""Names of the metrics for which a lower value is better."""


@cache
def get_measure(name: str) -> Measure:
    """Return the metric of this name.

    Args:
        name: "R10@1", "nDCG@10", "MAP", "MRR", "position", "Brier", "NLL", "ECE", "Spearman", "STS" (100 x Spearman,
            the mean over sets), "STS/STS12" (one set) or "STS/STS12/MSRpar" (one subset).

    Raises:
        ValueError: there is no metric of this name.

    Example:
        >>> import numpy as np
        >>> scores, relevant = np.array([3.0, 2.0, 1.0, 1.0, 2.0]), np.array([1, 0, 0, 1, 0])
        >>> measure, lengths = get_measure("MRR"), np.array([3, 2])
        >>> measure.compute_values(scores, relevant, lengths).tolist()
        [1.0, 0.5]
        >>> measure.compute_overall(scores, relevant, lengths)
        0.75
    """
    if name in _MEASURES:
        return _MEASURES[name]
    if match := re.fullmatch(r"nDCG@([1-9]\d{0,5})", name):
        return Measure(name, partial(ndcg_at, int(match[1])))
    if match := re.fullmatch(r"STS(?:/(\S*[^\s/]))?", name):
        return Measure(name, spearman, sts_correlation=STSCorrelation(match[1] or ""))
    try:
        candidates, cutoff = parse_recall_name(name)
    except ValueError as error:
        raise ValueError(f"{error}, nDCG@<k>, {', '.join(_MEASURES)}, STS or STS/<set>") from None
    return Measure(name, partial(recall_at, cutoff), required_candidates=candidates)
