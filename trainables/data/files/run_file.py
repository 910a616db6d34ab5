"""Reads and writes runs: rankings of documents for queries, in the formats of TREC and MS MARCO.

A line has its fields separated by blanks or tabs. All lines of a file have the same number of fields:

- 6: `query Q0 document rank score tag`, as trec_eval reads it. The order is by descending score; equal scores keep
  the order of the file.
- 3: `query document rank`. The order is by ascending rank.
- 2: `query document`. The order is that of the file.
"""

import math
from array import array
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trainables.data.files.readers import FileLocation, quote_text, read_lines
from trainables.utils.errors import UserError
from trainables.utils.files import write_atomically

Codes = npt.NDArray[np.int32]

_FORMATS = {
    2: "query document",
    3: "query document rank",
    6: "query Q0 document rank score tag",
}
_LINES_PER_BLOCK = 1 << 16
"""Lines that are Python objects at once, when a file is read or written."""


@dataclass(frozen=True)
class Run:
    """Pairs of a query and a document; each pair occurs once.

    Attributes:
        queries: ids of the queries, in the order of their first pair.
        documents: ids of the documents.
        query_codes: index of the query of each pair in `queries`, shape (pairs,).
        document_codes: index of the document of each pair in `documents`, shape (pairs,).
        scores: values that order the documents of a query, higher is better, shape (pairs,): the scores of the file, or
            minus its ranks, or minus the place among the pairs of the query if it has neither. Equal values are in the
            order of the file.
    """

    queries: pa.StringArray
    documents: pa.StringArray
    query_codes: Codes
    document_codes: Codes
    scores: npt.NDArray[np.float64]

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.query_codes)


def read_run(path: Path, depth: int | None = None, key: str = "--run") -> Run:
    r"""Read the pairs of a run in the order of the file, which may be gzipped.

    Args:
        path: the file.
        depth: number of documents of each query that are kept, the first ones in the order of the format. If None,
            all are kept.
        key: setting that names the file, for errors.

    Raises:
        UserError: if the file is missing or empty, if a line is not in the format of the first line, or if a pair
            occurs twice.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "bm25.run")
        ...     _ = path.write_text("q1 Q0 d7 1 3.5 bm25\nq1 Q0 d2 2 1.5 bm25\n")
        ...     run = read_run(path, depth=1)
        >>> run.documents.to_pylist()
        ['d7']
    """
    queries, documents = _IdColumn(), _IdColumn()
    scores = array("d")
    n_fields = 0
    for location, text in read_lines(_require_file(path, key)):
        fields = text.split()
        n_fields = n_fields or len(fields)
        if len(fields) != n_fields or n_fields not in _FORMATS:
            formats = [_FORMATS[n_fields]] if n_fields in _FORMATS else _FORMATS.values()
            raise UserError(str(location), f"fields: {len(fields)}", " or ".join(map(repr, formats)))
        queries.append(fields[0])
        documents.append(fields[2 if n_fields == len(_FORMATS[6].split()) else 1])
        scores.append(0.0 if n_fields == len(_FORMATS[2].split()) else _parse_score(location, fields))
    if not scores:
        raise UserError(str(path), "an empty file", "a run")
    (query_ids, query_codes), (document_ids, document_codes) = queries.encode(), documents.encode()
    values = np.array(scores)
    if n_fields == len(_FORMATS[2].split()):
        order = np.argsort(query_codes, kind="stable")
        values[order] = -_number_in_groups(query_codes[order])
    run = Run(query_ids, document_ids, query_codes, document_codes, values)
    _reject_duplicates(path, run)
    return run if depth is None else _cut(run, depth)


def write_run(path: Path, run: Run, scores: npt.NDArray[np.float32], tag: str) -> None:
    """Write a run in the format of TREC, as a whole or not at all.

    Queries are in the order of `run.queries`, and their documents in descending order of their score. Equal scores are
    in ascending order of the document's id, compared by code points. A score has the fewest digits that give the same
    number in single precision.

    Args:
        path: the file; its folder exists.
        run: the pairs.
        scores: score of each pair, shape (pairs,).
        tag: last field of every line, without blanks.
    """
    order_of_ids = np.empty(len(run.documents), dtype=np.int64)
    order_of_ids[pc.sort_indices(run.documents).to_numpy()] = np.arange(len(run.documents))
    order = np.lexsort((order_of_ids[run.document_codes], -scores, run.query_codes))
    ranks = 1 + _number_in_groups(run.query_codes[order])
    with write_atomically(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as stream:
        for start in range(0, len(order), _LINES_PER_BLOCK):
            rows = order[start : start + _LINES_PER_BLOCK]
            columns = (
                run.queries.take(pa.array(run.query_codes[rows])).to_pylist(),
                run.documents.take(pa.array(run.document_codes[rows])).to_pylist(),
                ranks[start : start + _LINES_PER_BLOCK].tolist(),
                map(str, scores[rows]),  # numpy's shortest digits of a float32
            )
            stream.writelines(f"{q} Q0 {d} {rank} {score} {tag}\n" for q, d, rank, score in zip(*columns, strict=True))


class _IdColumn:
    """Column of ids, of which few are Python objects at once."""

    def __init__(self) -> None:
        self._block, self._chunks = list[str](), list[pa.Array]()

    def append(self, value: str) -> None:
        self._block.append(value)
        if len(self._block) == _LINES_PER_BLOCK:
            self._flush()

    def encode(self) -> tuple[pa.StringArray, Codes]:
        """Return the different ids in the order of their first occurrence, and the index of each value among them."""
        self._flush()
        encoded = pa.chunked_array(self._chunks, pa.string()).dictionary_encode().unify_dictionaries()
        codes = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
        return encoded.chunk(0).dictionary, codes

    def _flush(self) -> None:
        if self._block:
            self._chunks.append(pa.array(self._block, pa.string()))
            self._block = []


def _require_file(path: Path, key: str) -> Path:
    if not path.is_file():
        raise UserError(key, f"{path} is no file", "a file, which may be gzipped")
    return path


def _parse_score(location: FileLocation, fields: list[str]) -> float:
    """Return a number that is larger for a better document."""
    text, name = (fields[4], "score") if len(fields) == len(_FORMATS[6].split()) else (fields[2], "rank")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UserError(str(location), f"{name} {quote_text(text)}", "a finite number")
    return value if name == "score" else -value


def _reject_duplicates(path: Path, run: Run) -> None:
    keys = run.query_codes.astype(np.int64) * len(run.documents) + run.document_codes
    order = np.argsort(keys, kind="stable")
    repeated = order[1:][keys[order[1:]] == keys[order[:-1]]]
    if len(repeated):
        row = int(repeated.min())
        found = f"document {run.documents[run.document_codes[row]]} twice for query {run.queries[run.query_codes[row]]}"
        raise UserError(str(FileLocation(path, row + 1)), found, "each document once for a query")


def sort_pairs(run: Run) -> npt.NDArray[np.int64]:
    """Return the positions of the pairs by query, best document first; equal ones keep the order of the file."""
    return np.lexsort((-run.scores, run.query_codes))


def _cut(run: Run, depth: int) -> Run:
    order = sort_pairs(run)
    kept = np.sort(order[_number_in_groups(run.query_codes[order]) < depth])
    codes, document_codes = np.unique(run.document_codes[kept], return_inverse=True)
    return Run(
        queries=run.queries,
        documents=run.documents.take(pa.array(codes)),
        query_codes=run.query_codes[kept],
        document_codes=document_codes.astype(np.int32),
        scores=run.scores[kept],
    )


def _number_in_groups(groups: Codes) -> npt.NDArray[np.int64]:
    """Return 0, 1, ... within each of several consecutive groups, shape of `groups`."""
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    return np.arange(len(groups)) - np.repeat(starts, np.diff(starts, append=len(groups)))
