"""Scores of candidates, read from parquet files and evaluated query by query, or pair by pair of sentences.

The runs of a study rank the same candidates. What depends on these alone, their order and their relevance, is worked
out once and used again for as long as the files' columns are equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from trainables.metrics import Measure, get_measure
from trainables.utils.arrays import Bools, Floats, Ints
from trainables.utils.errors import UserError

COLUMNS = ["split", "query_id", "document_id", "relevant", "score"]
"""Columns of scores: one row a candidate."""
_PAIR = "pair_id"
"""Column of scores of sentence pairs: equal where two rows are the same two sentences; without it all differ."""
_EXPECTED_PAIRS = "sentence pairs whose gold similarities differ"


@dataclass(frozen=True, eq=False)
class _Layout:
    """The candidates of a split: their columns, the rows in order of query and document, and what follows from it."""

    columns: Any
    rows: NDArray[np.intp]
    queries: "pd.Index[str]"
    lengths: Ints
    relevant: Floats

    @cached_property
    def pairs(self) -> tuple["pd.Index[str]", NDArray[np.intp]]:
        """The distinct pairs in sorted order, by pair_id, or "<query_id>/<document_id>"; and which each row is."""
        frame = self.columns.to_pandas().iloc[self.rows]
        ids = frame[_PAIR] if _PAIR in frame else frame["query_id"] + "/" + frame["document_id"].astype(str)
        names, places = np.unique(ids.to_numpy(dtype=object), return_inverse=True)
        return pd.Index(names, name="query_id"), places


class GradedPairs(NamedTuple):
    """Sentence pairs as people and a run see them, by set and subset."""

    scores: Floats
    """(pairs,)"""
    grades: Floats
    """(pairs,) gold similarities."""
    subsets: list[str]
    """(pairs,) "<set>" or "<set>/<subset>" of each."""
    units: NDArray[np.intp]
    """(pairs,) numbers of the distinct pairs, from 0 on."""

    def has_same_pairs(self, other: "GradedPairs") -> bool:
        """Whether both are of the same pairs in the same subsets, as people see them."""
        same = np.array_equal(self.grades, other.grades) and np.array_equal(self.units, other.units)
        return same and self.subsets == other.subsets


class Evaluator:
    """Evaluates files of scores, one run after the other."""

    def __init__(self) -> None:
        self._last: dict[str, _Layout] = {}

    def evaluate_queries(self, path: Path, split: str, metric: str, where: str) -> "pd.Series[float]":
        """Any metric of queries for each query of a split, by query_id in sorted order; NaN where a score is NaN.

        Of a metric of sentence pairs, for each distinct pair that it is about, by pair_id where the file has it, else
        by "<query_id>/<document_id>"; all NaN where one of their scores is.

        Raises:
            UserError: if the file cannot be read, or its candidates cannot be ranked.
        """
        judged, (layout, scores) = get_measure(metric), self._read_split(path, split, where)
        if judged.sts_correlation:
            return _evaluate_pairs(judged, layout, scores, where)
        size, lengths = judged.required_candidates, layout.lengths
        if size is not None and (lengths != size).any():
            raise UserError(
                where, f"a query with {lengths[lengths != size][0]} candidates", f"{size}, as {metric} needs"
            )
        lacking = np.bincount(np.repeat(np.arange(len(lengths)), lengths), np.isnan(scores), len(lengths)) > 0
        values, kept = np.full(len(lengths), np.nan), np.repeat(~lacking, lengths)
        try:
            values[~lacking] = judged.compute_values(scores[kept], layout.relevant[kept], lengths[~lacking])
        except ValueError as error:
            raise UserError(where, error, "candidates that can be ranked") from error
        return pd.Series(values, index=layout.queries)

    def evaluate_overall(self, path: Path, split: str, metrics: Sequence[str], where: str) -> list[float]:
        """One number of each of these metrics of sentence pairs; NaN where a score of theirs is.

        Raises:
            UserError: as for `per_query`.
        """
        layout, scores = self._read_split(path, split, where)
        columns, found = (scores, layout.relevant, layout.lengths, layout.queries.tolist()), []
        for judged in map(get_measure, metrics):
            try:
                lacking = np.isnan(scores[_mask_covered_pairs(judged, layout)]).any()
                found.append(float("nan") if lacking else judged.compute_overall(*columns))
            except ValueError as error:
                raise UserError(where, error, _EXPECTED_PAIRS) from error
        return found

    def read_graded_pairs(self, path: Path, split: str, where: str) -> GradedPairs:
        """All sentence pairs of a split.

        Raises:
            UserError: if the file cannot be read.
        """
        layout, scores = self._read_split(path, split, where)
        return GradedPairs(scores, layout.relevant, np.repeat(layout.queries, layout.lengths).tolist(), layout.pairs[1])

    def _read_split(self, path: Path, split: str, where: str) -> tuple[_Layout, Floats]:
        """The candidates of a split and their scores, in the layout's order."""
        table = _select_split(_read_table(path, COLUMNS, (_PAIR,)), split)
        columns = table.drop_columns(["split", "score"])
        layout = self._last.get(split)
        if layout is None or not layout.columns.equals(columns):
            layout = self._last[split] = _build_layout(columns, where)
        return layout, table.column("score").to_numpy().astype(float)[layout.rows]


def list_subsets(path: Path, split: str) -> list[str]:
    """The queries of a split, in sorted order: of sentence pairs, the subsets."""
    return sorted(
        _select_split(_read_table(path, ["split", "query_id"]), split).column("query_id").unique().to_pylist()
    )


def read_scores(path: Path, split: str) -> pd.DataFrame:
    """Candidates of a split, columns split, query_id, document_id, relevant, score."""
    frame: pd.DataFrame = _select_split(_read_table(path, COLUMNS), split).to_pandas()
    return frame[COLUMNS]


def read_scores_and_labels(path: Path, split: str) -> tuple[Floats, Floats]:
    """(candidates,) scores and (candidates,) 0 or 1 for relevance, of a split, in the file's order."""
    table = _select_split(_read_table(path, ["split", "score", "relevant"]), split)
    return table.column("score").to_numpy().astype(float), table.column("relevant").to_numpy().astype(float)


def list_splits(path: Path) -> list[str]:
    """The splits that a file has scores of; its statistics suffice where every part is of one split."""
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    found: dict[str, None] = {}
    try:
        with ParquetFile(path) as file:
            column = file.schema_arrow.names.index("split")
            for number in range(file.num_row_groups):
                statistics = file.metadata.row_group(number).column(column).statistics
                if statistics is not None and statistics.has_min_max and statistics.min == statistics.max:
                    found[str(statistics.min)] = None
                else:
                    part = file.read_row_group(number, columns=["split"]).column(0)
                    found |= dict.fromkeys(map(str, part.unique().to_pylist()))
    except (OSError, ValueError, ArrowException) as error:
        raise _make_read_error(path, error, ["split"]) from error
    return list(found)


def _read_table(path: Path, columns: list[str], optional: Sequence[str] = ()) -> Any:
    """The columns of a file, and of `further` those that it has."""
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            if lacking := [name for name in columns if name not in file.schema_arrow.names]:
                raise ValueError(f"no column {lacking[0]}")
            present = [name for name in optional if name in file.schema_arrow.names]
            return file.read(columns=columns + present, use_threads=False)
    except (OSError, ValueError, ArrowException) as error:
        raise _make_read_error(path, error, columns) from error


def _make_read_error(path: Path, error: Exception, columns: list[str]) -> UserError:
    return UserError(str(path), error, f"a parquet file with columns {', '.join(columns)}")


def _select_split(table: Any, split: str) -> Any:
    from pyarrow import compute

    mask = compute.equal(table.column("split"), split)
    return table if compute.all(mask, min_count=0).as_py() else table.filter(mask)


def _build_layout(columns: Any, where: str) -> _Layout:
    frame = columns.to_pandas().reset_index(drop=True)  # whatever index the file keeps
    if frame.duplicated(["query_id", "document_id"]).any():
        raise UserError(where, "the same candidate twice", "each candidate of a query once")
    ordered = frame.sort_values(["query_id", "document_id"])
    queries, lengths = np.unique(ordered["query_id"].to_numpy(dtype=object), return_counts=True)
    relevant, names = ordered["relevant"].to_numpy(dtype=float), pd.Index(queries, name="query_id")
    return _Layout(columns, ordered.index.to_numpy(), names, lengths, relevant)


def _mask_covered_pairs(judged: Measure, layout: _Layout) -> Bools:
    """(pairs,) whether a metric of sentence pairs is about them."""
    assert judged.sts_correlation is not None
    return np.repeat(judged.sts_correlation.covers(layout.queries.tolist()), layout.lengths)


def _evaluate_pairs(judged: Measure, layout: _Layout, scores: Floats, where: str) -> "pd.Series[float]":
    mask, (names, units) = _mask_covered_pairs(judged, layout), layout.pairs
    index = names[np.unique(units[mask])]
    if np.isnan(scores[mask]).any():
        return pd.Series(np.nan, index=index)
    try:
        values = judged.compute_values(scores, layout.relevant, layout.lengths, layout.queries.tolist(), units)
    except ValueError as error:
        raise UserError(where, error, _EXPECTED_PAIRS) from error
    return pd.Series(values, index=index)
