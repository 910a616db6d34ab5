"""Scores of candidates, read from parquet files and evaluated query by query.

The runs of a study rank the same candidates. What depends on these alone, their order and their relevance, is worked
out once and used again for as long as the files' columns are equal.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from trainables.errors import UserError
from trainables.metrics import measure

COLUMNS = ["split", "query_id", "document_id", "relevant", "score"]
"""Columns of scores: one row a candidate."""
_CANDIDATE = COLUMNS[1:4]


class _Layout(NamedTuple):
    """The candidates of a split: their columns, the rows in order of query and document, and what follows from it."""

    columns: Any
    rows: NDArray[np.intp]
    queries: "pd.Index[str]"
    lengths: NDArray[np.int64]
    relevant: NDArray[np.float64]


class Evaluator:
    """Evaluates files of scores, one run after the other."""

    def __init__(self) -> None:
        self._last: dict[str, _Layout] = {}

    def per_query(self, path: Path, split: str, metric: str, where: str) -> "pd.Series[float]":
        """Any metric of queries for each query of a split, by query_id in sorted order; NaN where a score is NaN.

        Raises:
            UserError: if the file cannot be read, or its candidates cannot be ranked.
        """
        judged, table = measure(metric), _of_split(_table(path, COLUMNS), split)
        layout = self._last.get(split)
        if layout is None or not layout.columns.equals(table.select(_CANDIDATE)):
            layout = self._last[split] = _layout(table.select(_CANDIDATE), where)
        size, lengths = judged.candidates, layout.lengths
        if size is not None and (lengths != size).any():
            raise UserError(
                where, f"a query with {lengths[lengths != size][0]} candidates", f"{size}, as {metric} needs"
            )
        scores = table.column("score").to_numpy().astype(float)[layout.rows]
        lacking = np.bincount(np.repeat(np.arange(len(lengths)), lengths), np.isnan(scores), len(lengths)) > 0
        values, kept = np.full(len(lengths), np.nan), np.repeat(~lacking, lengths)
        try:
            values[~lacking] = judged.values(scores[kept], layout.relevant[kept], lengths[~lacking])
        except ValueError as error:
            raise UserError(where, error, "candidates that can be ranked") from error
        return pd.Series(values, index=layout.queries)


def read_scores(path: Path, split: str) -> pd.DataFrame:
    """Candidates of a split, columns split, query_id, document_id, relevant, score."""
    frame: pd.DataFrame = _of_split(_table(path, COLUMNS), split).to_pandas()
    return frame[COLUMNS]


def labelled(path: Path, split: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(candidates,) scores and (candidates,) 0 or 1 for relevance, of a split, in the file's order."""
    table = _of_split(_table(path, ["split", "score", "relevant"]), split)
    return table.column("score").to_numpy().astype(float), table.column("relevant").to_numpy().astype(float)


def splits(path: Path) -> list[str]:
    """The splits that a file has scores of; its statistics suffice where every part is of one split."""
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    found: dict[str, None] = {}
    try:
        with ParquetFile(path) as file:
            column = file.schema_arrow.names.index("split")
            for number in range(file.num_row_groups):
                told = file.metadata.row_group(number).column(column).statistics
                if told is not None and told.has_min_max and told.min == told.max:
                    found[str(told.min)] = None
                else:
                    part = file.read_row_group(number, columns=["split"]).column(0)
                    found |= dict.fromkeys(map(str, part.unique().to_pylist()))
    except (OSError, ValueError, ArrowException) as error:
        raise _unreadable(path, error, ["split"]) from error
    return list(found)


def _table(path: Path, columns: list[str]) -> Any:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            if lacking := [name for name in columns if name not in file.schema_arrow.names]:
                raise ValueError(f"no column {lacking[0]}")
            return file.read(columns=columns, use_threads=False)
    except (OSError, ValueError, ArrowException) as error:
        raise _unreadable(path, error, columns) from error


def _unreadable(path: Path, error: Exception, columns: list[str]) -> UserError:
    return UserError(str(path), error, f"a parquet file with columns {', '.join(columns)}")


def _of_split(table: Any, split: str) -> Any:
    from pyarrow import compute

    own = compute.equal(table.column("split"), split)
    return table if compute.all(own, min_count=0).as_py() else table.filter(own)


def _layout(columns: Any, where: str) -> _Layout:
    frame = columns.to_pandas()
    if frame.duplicated(["query_id", "document_id"]).any():
        raise UserError(where, "the same candidate twice", "each candidate of a query once")
    ordered = frame.sort_values(["query_id", "document_id"])
    queries, lengths = np.unique(ordered["query_id"].to_numpy(dtype=object), return_counts=True)
    relevant, names = ordered["relevant"].to_numpy(dtype=float), pd.Index(queries, name="query_id")
    return _Layout(columns, ordered.index.to_numpy(), names, lengths, relevant)
