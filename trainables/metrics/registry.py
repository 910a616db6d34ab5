"""Registry of all metrics by the names that study files, run records and the analysis use."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trainables.metrics.calibration import brier_score, expected_calibration_error, negative_log_likelihood
from trainables.metrics.correlation import spearman
from trainables.metrics.ranking import (
    average_precision,
    judged_at,
    ndcg_at,
    parse_recall_name,
    precision_at,
    rank_of_first_relevant,
    recall_at,
    reciprocal_rank,
    reciprocal_rank_at,
)
from trainables.metrics.sts import PERCENT, STSCorrelation
from trainables.utils.arrays import Floats, Ints
from trainables.utils.errors import UserError
from trainables.utils.registry import Entry, Registry


@dataclass(frozen=True)
class Measure:
    """A metric of scored candidates.

    Attributes:
        name: name of the metric, including its parameters.
        function: maps scores and labels, (queries, candidates) each, to (queries,), or to one number if `per_query` is
            False. A score of -inf means that the document was not retrieved.
        per_query: whether each query has a value, so that differences can be tested.
        lower_is_better: whether a lower value is better.
        needs_logits: whether the scores must be logits. Scores of a model are logits; scores of BM25 are not.
        required_candidates: number of candidates that each query must have. If None, queries may have any number of
            candidates, and the numbers may differ.
        sts_correlation: for a metric of sentence pairs, the correlation and the pairs that it covers. Its values belong
            to pairs instead of queries, and it needs the names of the queries, which are those of the sets.
        labels: which labels the function reads, see `select_labels`.
        needs_relevant: whether a query of which no relevant document was retrieved has no value.
    """

    name: str
    function: Callable[[Floats, Floats], Any]
    per_query: bool = True
    lower_is_better: bool = False
    needs_logits: bool = False
    required_candidates: int | None = None
    sts_correlation: STSCorrelation | None = None
    labels: Literal["relevant", "grade", "judged"] = "relevant"
    needs_relevant: bool = False

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

    @property
    def allows_unretrieved(self) -> bool:
        """True if queries have a value although relevant documents are not retrieved, which have the score -inf."""
        free = self.required_candidates is None and self.sts_correlation is None
        return self.is_rank_based and free and not self.needs_relevant

    def select_labels(self, relevant: NDArray[Any], grades: Ints | None) -> NDArray[Any]:
        """Return the labels that the metric reads, to be given to `compute_values` as `relevant`.

        Args:
            relevant: (pairs,) 0 or 1.
            grades: (pairs,) grade of each candidate, -1 if nobody judged it; None if the scores have no grades.

        Returns:
            (pairs,) `relevant` if `labels` is "relevant". If it is "grade", the grades, 0 where there is none, or
            `relevant` without grades. If it is "judged", 1.0 where a candidate was judged and 0.0 elsewhere.

        Raises:
            ValueError: the metric needs grades and there are none, or their shape is not that of `relevant`.

        Example:
            >>> relevant, grades = np.array([1, 0, 0]), np.array([2, 0, -1])
            >>> [get_measure(name).select_labels(relevant, grades).tolist() for name in ("MAP", "nDCG@10", "Judged@10")]
            [[1, 0, 0], [2, 0, 0], [1.0, 1.0, 0.0]]
        """
        if grades is not None and grades.shape != relevant.shape:
            raise ValueError(f"expected as many grades as labels, but got {grades.shape} and {relevant.shape}")
        if self.labels == "judged":
            if grades is None:
                raise ValueError(
                    f"{self.name} needs the grades of the candidates, which only scores of retrieved candidates have"
                )
            return (grades >= 0).astype(np.float64)
        if self.labels == "relevant" or grades is None:
            return relevant
        return np.maximum(grades, 0)

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
            relevant: (pairs,) 0 or 1, or what `select_labels` returns; gold similarities for a metric of sentence
                pairs.
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
            found = np.asarray(self.function(scores[rows], relevant[rows]))
            if found.shape != queries.shape:
                raise ValueError(f"{self.name} returned the shape {found.shape}; expected one value per query")
            values[queries] = found
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


def _make_recall(n: str, k: str) -> Measure:
    candidates, cutoff = parse_recall_name(f"R{n}@{k}")
    return Measure(f"R{n}@{k}", partial(recall_at, cutoff), required_candidates=candidates)


def _make_ndcg(k: str) -> Measure:
    return Measure(f"nDCG@{k}", partial(ndcg_at, int(k)), labels="grade")


def _make_retrieval_recall(k: str) -> Measure:
    return Measure(f"R@{k}", partial(recall_at, int(k)))


def _make_precision(k: str) -> Measure:
    return Measure(f"P@{k}", partial(precision_at, int(k)))


def _make_reciprocal_rank(k: str) -> Measure:
    return Measure(f"MRR@{k}", partial(reciprocal_rank_at, int(k)))


def _make_judged(k: str) -> Measure:
    return Measure(f"Judged@{k}", partial(judged_at, int(k)), labels="judged")


def _make_sts(scope: str) -> Measure:
    return Measure(f"STS/{scope}", spearman, sts_correlation=STSCorrelation(scope))


def _check_measure(entry: Entry, others: Sequence[Entry]) -> Entry:
    """Return the entry of a metric that is a Measure under each of its names."""
    if entry.provider is None:  # those of this project are tested
        return entry
    if entry.pattern is not None and not entry.examples:
        raise UserError(entry.place, "a pattern without examples", 'names for lists, such as examples=("S@3",)')
    target = entry.load_target()
    for name in entry.examples or (entry.name,):
        match = re.fullmatch(entry.pattern, name) if entry.pattern else None
        if entry.pattern and match is None:
            raise UserError(entry.place, f"the example {name}", f"a name with the pattern {entry.pattern}")
        measure = target(*match.groups()) if match and match.groups() else target
        if not isinstance(measure, Measure):
            raise UserError(entry.place, repr(measure), "a Measure of trainables.metrics.registry")
    return entry


METRICS: Registry[Measure] = Registry(
    Entry(
        "R<n>@<k>",
        _make_recall,
        "share of the relevant documents that are among the first k of n candidates, k at most n",
        "Penha and Hauff (2021), section 4",
        pattern=r"R([1-9]\d*)@([1-9]\d*)",
        examples=("R10@1",),
    ),
    Entry(
        "R@<k>",
        _make_retrieval_recall,
        "share of the relevant documents that are among the first k, of any number of candidates",
        "trec_eval, ir_measures R@k",
        pattern=r"R@([1-9]\d{0,5})",
        examples=("R@100",),
    ),
    Entry(
        "P@<k>",
        _make_precision,
        "number of relevant documents among the first k, divided by k",
        "trec_eval, ir_measures P@k",
        pattern=r"P@([1-9]\d{0,5})",
        examples=("P@10",),
    ),
    Entry(
        "nDCG@<k>",
        _make_ndcg,
        "normalised discounted cumulative gain of the first k",
        "Järvelin and Kekäläinen (2002)",
        pattern=r"nDCG@([1-9]\d{0,5})",
        examples=("nDCG@10",),
    ),
    Entry(
        "MAP",
        Measure("MAP", average_precision),
        "mean average precision",
        "Buckley and Voorhees (2005)",
    ),
    Entry(
        "MRR",
        Measure("MRR", reciprocal_rank),
        "mean reciprocal rank of the first relevant document",
        "Voorhees (1999)",
    ),
    Entry(
        "MRR@<k>",
        _make_reciprocal_rank,
        "the same, but 0 if this document is not among the first k",
        "Voorhees (1999), ir_measures RR@k",
        pattern=r"MRR@([1-9]\d{0,5})",
        examples=("MRR@10",),
    ),
    Entry(
        "position",
        Measure("position", rank_of_first_relevant, lower_is_better=True, needs_relevant=True),
        "mean rank of the first relevant document; lower is better",
        "slides on WSLS with hard negatives, which report 10 minus it",
    ),
    Entry(
        "Judged@<k>",
        _make_judged,
        "share of the first k, or of the retrieved if they are fewer, that someone judged",
        "ir_measures Judged@k",
        pattern=r"Judged@([1-9]\d{0,5})",
        examples=("Judged@10",),
    ),
    Entry(
        "Brier",
        Measure("Brier", brier_score, lower_is_better=True, needs_logits=True),
        "mean squared difference of probability and relevance; lower is better",
        "Brier (1950)",
    ),
    Entry(
        "NLL",
        Measure("NLL", negative_log_likelihood, lower_is_better=True, needs_logits=True),
        "mean negative log-likelihood of the labels, in nats; lower is better",
        "Good (1952)",
    ),
    Entry(
        "ECE",
        Measure("ECE", expected_calibration_error, per_query=False, lower_is_better=True, needs_logits=True),
        "expected calibration error of all pairs together; lower is better",
        "Naeini, Cooper and Hauskrecht (2015)",
    ),
    Entry(
        "Spearman",
        Measure("Spearman", spearman, per_query=False),
        "rank correlation of scores and labels over all pairs together",
        "Spearman (1904)",
    ),
    Entry(
        "STS",
        Measure("STS", spearman, sts_correlation=STSCorrelation()),
        "100 x Spearman of cosine and gold similarity, mean over the sets of sentence pairs",
        "Gao et al. (2021), Wu et al. (2021)",
    ),
    Entry(
        "STS/<set>",
        _make_sts,
        "the same for one set, such as STS/STS12, or one subset, such as STS/STS12/MSRpar",
        "Gao et al. (2021), Wu et al. (2021)",
        pattern=r"STS/(\S*[^\s/])",
        examples=("STS/STS12",),
    ),
    group="metrics",
    complete=_check_measure,
)
"""Metrics by name."""


class _LowerIsBetter(Collection[str]):
    """Names of the metrics for which a lower value is better.

    It asks the registry each time, because metrics of other packages cannot be imported before this module is.
    """

    def __contains__(self, name: object) -> bool:
        try:
            return get_measure(str(name)).lower_is_better
        except ValueError:
            return False

    def __iter__(self) -> Iterator[str]:
        return (name for name, measure in METRICS.items() if measure.lower_is_better)

    def __len__(self) -> int:
        return sum(1 for _ in self)


LOWER_IS_BETTER: Collection[str] = _LowerIsBetter()
"""Names of the metrics for which a lower value is better."""


@cache
def get_measure(name: str) -> Measure:
    """Return the metric of this name.

    Args:
        name: a name in `METRICS`, such as "R10@1", "MAP" or "STS/STS12".

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
    try:
        return METRICS[name]
    except KeyError:
        expected = f"one of {METRICS.format_names()}, with k at most n"
        raise ValueError(f"{name!r} is not a metric; expected {expected}") from None
