"""Reads scores of candidates from parquet files and evaluates them by query or by sentence pair.

The runs of a study rank the same candidates. What depends only on the candidates, such as their order and relevance,
is computed once and reused as long as the files' columns are equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from trainables.metrics import Measure, RetrievedDocuments, collect_documents, get_measure
from trainables.utils.arrays import Bools, Floats, Ints
from trainables.utils.errors import UserError

COLUMNS = ["split", "query_id", "document_id", "relevant", "score"]
"""Columns of scores, one row a candidate.

A row with the score -inf is a document that a first stage did not retrieve: one with a positive grade, or any of a
query without candidates.
"""
_GRADE = "grade"
"""Column of scores of candidates that a first stage retrieved: the grade, -1 for a candidate without a qrel."""
_PAIR = "pair_id"
"""Column of scores of sentence pairs: equal where two rows are the same two sentences. Without it all rows differ."""
_EXPECTED_PAIRS = "sentence pairs with different gold similarities"


@dataclass(frozen=True, eq=False)
class _Layout:
    """The candidates of a split: their columns, and their rows in order of query and document."""

    columns: Any
    rows: NDArray[np.intp]
    queries: "pd.Index[str]"
    lengths: Ints
    relevant: Floats
    retrieved: RetrievedDocuments | None

    @cached_property
    def pairs(self) -> tuple["pd.Index[str]", NDArray[np.intp]]:
        """The distinct pairs in sorted order, and the index of each row's pair.

        A pair's name is its pair_id, or "<query_id>/<document_id>".
        """
        frame = self.columns.to_pandas().iloc[self.rows]
        ids = frame[_PAIR] if _PAIR in frame else frame["query_id"] + "/" + frame["document_id"].astype(str)
        names, indices = np.unique(ids.to_numpy(dtype=object), return_inverse=True)
        return pd.Index(names, name="query_id"), indices


class GradedPairs(NamedTuple):
    """Sentence pairs with the gold similarities and the scores of a run, by set and subset."""

    scores: Floats
    """(pairs,) scores of the run."""
    grades: Floats
    """(pairs,) gold similarities."""
    subsets: list[str]
    """(pairs,) "<set>" or "<set>/<subset>" of each pair."""
    units: NDArray[np.intp]
    """(pairs,) numbers of the distinct pairs, from 0."""

    def has_same_pairs(self, other: "GradedPairs") -> bool:
        """Return whether both have the same pairs in the same subsets with the same gold similarities."""
        same = np.array_equal(self.grades, other.grades) and np.array_equal(self.units, other.units)
        return same and self.subsets == other.subsets


class Evaluator:
    """Evaluates the score files of several runs and reuses the layout of their candidates."""

    def __init__(self) -> None:
        self._last: dict[str, _Layout] = {}

    def evaluate_queries(self, path: Path, split: str, metric: str, where: str) -> "pd.Series[float]":
        """Compute a metric for each query of a split, by query_id in sorted order; NaN where a score is NaN.

        For a metric of sentence pairs, compute it for each distinct pair that it covers. The index is pair_id if the
        file has it, otherwise "<query_id>/<document_id>". All values are NaN if one of their scores is.

        Args:
            path: parquet file of scores.
            split: train, dev or test, or a further collection in the file of the test split.
            metric: name of the metric.
            where: name of the scores in errors.

        Raises:
            UserError: if the file cannot be read, or its candidates cannot be ranked.
        """
        return _evaluate_metric(metric, *self._read_split(path, split, where), where)

    def evaluate_ensemble(
        self, paths: Sequence[Path], split: str, metric: str, where: str
    ) -> "pd.Series[float] | None":
        """Compute a metric as `evaluate_queries` does, for the mean of the scores of several files.

        None if the runs retrieved different documents: a document has no score in a run that did not retrieve it.

        Args:
            paths: parquet files of scores of the same candidates, at least one.
            split: train, dev or test.
            metric: name of the metric.
            where: name of the scores in errors.

        Raises:
            UserError: if a file cannot be read, or the files have different candidates.
        """
        layouts, scores = zip(*(self._read_split(path, split, where) for path in paths), strict=True)
        if any(layout is not layouts[0] for layout in layouts):  # equal columns have the same layout
            if all(layout.retrieved is not None for layout in layouts):
                return None
            raise UserError(where, "different candidates", "runs of the same candidates")
        return _evaluate_metric(metric, layouts[0], np.mean(scores, axis=0), where)

    def evaluate_overall(self, path: Path, split: str, metric: str, where: str) -> float:
        """Compute a metric over all its queries or pairs; NaN if one of its scores is NaN.

        Raises:
            UserError: as for `evaluate_queries`.
        """
        measure, (layout, scores) = get_measure(metric), self._read_split(path, split, where)
        covered = _mask_covered_pairs(measure, layout) if measure.sts_correlation else slice(None)
        if np.isnan(scores[covered]).any():
            return float("nan")
        try:
            return measure.compute_overall(scores, layout.relevant, layout.lengths, layout.queries.tolist())
        except ValueError as error:
            raise UserError(where, error, _EXPECTED_PAIRS) from error

    def read_graded_pairs(self, path: Path, split: str, where: str) -> GradedPairs:
        """Read all sentence pairs of a split.

        Raises:
            UserError: if the file cannot be read.
        """
        layout, scores = self._read_split(path, split, where)
        return GradedPairs(scores, layout.relevant, np.repeat(layout.queries, layout.lengths).tolist(), layout.pairs[1])

    def _read_split(self, path: Path, split: str, where: str) -> tuple[_Layout, Floats]:
        """Return the candidates of a split and their scores, in the layout's order."""
        table = _select_split(_read_table(path, COLUMNS, (_PAIR, _GRADE)), split)
        columns = table.drop_columns(["split", "score"])
        layout = self._last.get(split)
        if layout is None or not layout.columns.equals(columns):
            layout = self._last[split] = _build_layout(columns, where)
        return layout, table.column("score").to_numpy().astype(float)[layout.rows]


def encode_scores(scores: pd.DataFrame) -> bytes:
    """Return the content of the file of scores.

    Args:
        scores: columns split, query_id, document_id, relevant and score; for sentence pairs also pair_id.
    """
    content: bytes = scores.to_parquet(index=False)
    return content


def read_scores(path: Path, split: str) -> pd.DataFrame:
    """Read the documents of a split: columns split, query_id, document_id, relevant and score.

    Scores of candidates that a first stage retrieved also have the column grade, -1 for a candidate without a qrel, and
    rows with the score -inf: documents that it missed.
    """
    frame: pd.DataFrame = _select_split(_read_table(path, COLUMNS, (_GRADE,)), split).to_pandas()
    return frame[[*COLUMNS, *(name for name in (_GRADE,) if name in frame)]]


def read_scores_and_labels(path: Path, split: str) -> tuple[Floats, Floats]:
    """Read (candidates,) scores and (candidates,) relevance, 0 or 1, of a split in the file's order.

    Documents that a first stage missed are left out.
    """
    table = _select_split(_read_table(path, ["split", "score", "relevant"]), split)
    scores, relevant = (table.column(name).to_numpy().astype(float) for name in ("score", "relevant"))
    is_candidate = scores != -np.inf
    return scores[is_candidate], relevant[is_candidate]


def _read_table(path: Path, columns: list[str], optional: Sequence[str] = ()) -> Any:
    """Read the columns of a file, and those of `optional` that it has."""
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            if missing := [name for name in columns if name not in file.schema_arrow.names]:
                raise ValueError(f"no column {missing[0]}")
            present = [name for name in optional if name in file.schema_arrow.names]
            return file.read(columns=columns + present, use_threads=False)
    except (OSError, ValueError, ArrowException) as error:
        raise UserError(str(path), error, f"a parquet file with columns {', '.join(columns)}") from error


def _select_split(table: Any, split: str) -> Any:
    from pyarrow import compute

    mask = compute.equal(table.column("split"), split)
    if compute.all(mask, min_count=0).as_py():
        return table
    own = table.filter(mask)
    return own.drop_columns(
        [name for name in (_GRADE, _PAIR) if name in own.column_names and own[name].null_count == len(own)]
    )


def _build_layout(columns: Any, where: str) -> _Layout:
    frame = columns.to_pandas().reset_index(drop=True)  # the file may contain an index
    if frame.duplicated(["query_id", "document_id"]).any():
        raise UserError(where, "the same candidate twice", "each candidate of a query once")
    ordered = frame.sort_values(["query_id", "document_id"])
    queries, lengths = np.unique(ordered["query_id"].to_numpy(dtype=object), return_counts=True)
    relevant, names = ordered["relevant"].to_numpy(dtype=float), pd.Index(queries, name="query_id")
    retrieved = collect_documents(ordered[_GRADE], ordered["document_id"]) if _GRADE in ordered else None
    return _Layout(columns, ordered.index.to_numpy(), names, lengths, relevant, retrieved)


def _evaluate_metric(metric: str, layout: _Layout, scores: Floats, where: str) -> "pd.Series[float]":
    """Compute a metric for each query, or for each distinct pair that it covers."""
    measure = get_measure(metric)
    if measure.sts_correlation:
        return _evaluate_pairs(measure, layout, scores, where)
    size, lengths = measure.required_candidates, layout.lengths
    if size is not None and (lengths != size).any():
        raise UserError(where, f"a query with {lengths[lengths != size][0]} candidates", f"{size}, as {metric} needs")
    has_nan = np.bincount(np.repeat(np.arange(len(lengths)), lengths), np.isnan(scores), len(lengths)) > 0
    values, kept = np.full(len(lengths), np.nan), np.repeat(~has_nan, lengths)
    try:
        ranked, labels = measure.select_inputs(scores, layout.relevant, layout.retrieved)
        is_retrieved = layout.retrieved is not None
        values[~has_nan] = measure.compute_values(
            ranked[kept], labels[kept], lengths[~has_nan], is_retrieved=is_retrieved
        )
    except ValueError as error:
        raise UserError(where, error, "candidates that can be ranked") from error
    return pd.Series(values, index=layout.queries)


def _mask_covered_pairs(measure: Measure, layout: _Layout) -> Bools:
    """Return (pairs,) whether a metric of sentence pairs covers each."""
    assert measure.sts_correlation is not None
    return np.repeat(measure.sts_correlation.covers(layout.queries.tolist()), layout.lengths)


def _evaluate_pairs(measure: Measure, layout: _Layout, scores: Floats, where: str) -> "pd.Series[float]":
    mask, (names, units) = _mask_covered_pairs(measure, layout), layout.pairs
    index = names[np.unique(units[mask])]
    if np.isnan(scores[mask]).any():
        return pd.Series(np.nan, index=index)
    try:
        values = measure.compute_values(scores, layout.relevant, layout.lengths, layout.queries.tolist(), units)
    except ValueError as error:
        raise UserError(where, error, _EXPECTED_PAIRS) from error
    return pd.Series(values, index=index)
