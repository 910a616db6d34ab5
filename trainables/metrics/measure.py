"""A metric of scored candidates or of sentence pairs, as the registry holds it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trainables.metrics.sts_correlation import PERCENT, STSCorrelation
from trainables.utils.arrays import Floats, Ints


class RetrievedDocuments(NamedTuple):
    """Documents that a first stage retrieved or missed, with their scores and relevance."""

    grades: Ints
    """(pairs,) Grade of each document, -1 if nobody judged it."""
    id_ranks: Ints
    """(pairs,) Place of each id in their ascending order, equal for equal ids."""


def collect_documents(grades: ArrayLike, ids: Iterable[str]) -> RetrievedDocuments:
    """Return retrieved documents by their (pairs,) grades, -1 if nobody judged them, and ids.

    Example:
        >>> collect_documents([1, -1], ["d9", "d10"]).id_ranks.tolist()
        [1, 0]
    """
    names = list(ids)
    places = {name: place for place, name in enumerate(sorted(set(names)))}  # most ids are those of several queries
    ranks = np.fromiter(map(places.__getitem__, names), np.int64, len(names))
    return RetrievedDocuments(np.asarray(grades, dtype=np.int64), ranks)


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
        labels: which labels of retrieved candidates the function reads: relevance, the grade, 0 without a judgement, or
            whether the document is judged. Sampled candidates have relevance alone.
        id_order: order by id of retrieved documents with equal scores: "descending" as in trec_eval, which compares
            scores in single precision, or "ascending" as in the programs by which ir_measures computes some metrics.
        handles_unretrieved: whether the function counts relevant documents with the score -inf as not retrieved. Only
            then can candidates be retrieved.
    """

    name: str
    function: Callable[[Floats, Floats], Any]
    per_query: bool = True
    lower_is_better: bool = False
    needs_logits: bool = False
    required_candidates: int | None = None
    sts_correlation: STSCorrelation | None = None
    labels: Literal["relevant", "grade", "judged"] = "relevant"
    id_order: Literal["descending", "ascending"] = "descending"
    handles_unretrieved: bool = False

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
        return self.is_rank_based and free and self.handles_unretrieved

    def select_inputs(
        self, scores: NDArray[Any], relevant: NDArray[Any], retrieved: RetrievedDocuments | None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return what `compute_values` is given for (pairs,) scores, -inf for what was not retrieved, and relevance.

        For candidates that were sampled, without `retrieved`, these are the arguments. Otherwise, the labels are those
        that the metric reads, and ties are broken by the documents' ids, as ir_measures breaks them.

        Raises:
            ValueError: the metric needs grades and there are none, or is not defined for retrieved candidates.

        Example:
            >>> from trainables.metrics import get_measure
            >>> retrieved = collect_documents(np.array([2, 0, -1]), ["d1", "d2", "d3"])
            >>> scores, relevant = np.array([1.0, 1.0, -np.inf]), np.array([1, 0, 0])
            >>> scores, labels = get_measure("nDCG@10").select_inputs(scores, relevant, retrieved)
            >>> scores.tolist(), labels.tolist()
            ([1.0, 2.0, -inf], [2, 0, 0])
        """
        if retrieved is None:
            if self.labels == "judged":
                raise ValueError(f"{self.name} needs candidates that a first stage retrieved, with their grades")
            return scores, relevant
        if not self.allows_unretrieved:
            raise ValueError(f"{self.name} is not defined for retrieved candidates, which may lack relevant documents")
        labels = relevant
        if self.labels == "judged":
            labels = (retrieved.grades >= 0).astype(np.float64)
        elif self.labels == "grade":
            labels = np.maximum(retrieved.grades, 0)
        return self._break_ties(scores, retrieved.id_ranks), labels

    def _break_ties(self, scores: NDArray[Any], id_ranks: Ints) -> Floats:
        """Return the places of the scores in ascending order; scores that are -inf or NaN stay."""
        is_descending = self.id_order == "descending"
        values = scores.astype(np.float32) if is_descending else scores  # trec_eval compares in single precision
        places = np.empty(len(scores))
        places[np.lexsort((id_ranks if is_descending else -id_ranks, values))] = np.arange(len(scores))
        return np.where(scores > -np.inf, places, scores)

    def compute_values(
        self,
        scores: NDArray[Any],
        relevant: NDArray[Any],
        lengths: Ints,
        names: Sequence[str] | None = None,
        pair_ids: NDArray[np.intp] | None = None,
        is_retrieved: bool = False,
    ) -> Floats:
        """Compute the metric of each query.

        Args:
            scores: (pairs,), the candidates of a query next to each other.
            relevant: (pairs,) 0 or 1, or the labels of `select_inputs`; gold similarities for a metric of sentence
                pairs.
            lengths: (queries,) number of candidates of each query, in the order of the pairs. The numbers may differ if
                `required_candidates` is None.
            names: (queries,) names of the queries; only a metric of sentence pairs needs them.
            pair_ids: (pairs,) number of each pair, equal for pairs of the same two sentences; only a metric of sentence
                pairs needs them. If None, all pairs differ.
            is_retrieved: whether a first stage retrieved the candidates. A query without any relevant document then has
                the value 0, as by ir_measures; otherwise it is an error.

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
        values, is_defined = np.zeros(len(lengths)), np.ones(len(lengths), dtype=bool)
        if is_retrieved and self.labels != "judged":
            is_defined = np.bincount(np.repeat(np.arange(len(lengths)), lengths), relevant > 0, len(lengths)) > 0
        for length in np.unique(lengths[is_defined]):
            queries = np.flatnonzero((lengths == length) & is_defined)
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
        is_retrieved: bool = False,
    ) -> float:
        """Compute one number: the mean over queries, or the value of all pairs together.

        Arguments and errors are those of `compute_values`; a metric without a value per query is allowed here.
        """
        if self.sts_correlation:
            return self.sts_correlation.compute_overall(*self._check_names(scores, relevant, lengths, names))
        if self.per_query:
            return float(self.compute_values(scores, relevant, lengths, is_retrieved=is_retrieved).mean())
        return float(self.function(scores, relevant))

    def _check_names(
        self, scores: NDArray[Any], relevant: NDArray[Any], lengths: Ints, names: Sequence[str] | None
    ) -> tuple[Floats, Floats, Ints, Sequence[str]]:
        if names is None or len(names) != len(lengths):
            raise ValueError(f"{self.name} needs the name of each query: <set> or <set>/<subset>")
        return np.asarray(scores, np.float64), np.asarray(relevant, np.float64), lengths, names
