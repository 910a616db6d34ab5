"""Reads and writes runs: rankings of documents for queries, in the formats of TREC and MS MARCO.

A line has its fields separated by blanks or tabs. Empty lines and comments, which begin with #, are skipped. All
other lines of a file have one format, which the first of them decides by its number of fields:

- 6 or more: `query Q0 document rank score tag`, as trec_eval reads it. The order is by descending score; equal scores
  keep the order of the file.
- 3: `query document rank`. The ranks of a query are whole numbers from 1, each once, in any order; gaps are those of a
  filtered run. No query with rank 1 means that the numbers are scores, which are refused.
- 2: `query document`. The order is that of the file.
"""

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trainables.data.files.readers import FileLocation, quote_text, read_lines
from trainables.text.trec_lines import (
    RUN_FIELDS,
    count_contradictions,
    describe_contradictions,
    drop_words_after_tag,
    parse_number,
    split_fields,
)
from trainables.utils.errors import UserError
from trainables.utils.files import read_head, write_atomically

Codes = npt.NDArray[np.int32]

_FORMATS = {
    2: "query document",
    3: "query document rank",
    RUN_FIELDS: "query Q0 document rank score tag",
}
_RANKS = (
    f"ranks from 1, each once in a query, since three columns are {_FORMATS[3]!r}; a run with scores has "
    f"{_FORMATS[RUN_FIELDS]!r}; without the third column, the order of the file counts"
)
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


class RunLine(NamedTuple):
    """Pair of a query and a document in a run."""

    location: FileLocation
    query: str
    document: str
    rank: float
    """NaN if the line has none, or no number."""
    score: float
    """NaN if the line has none."""


def read_run_lines(path: Path) -> Iterator[RunLine]:
    """Yield the pairs of a run in the order of the file, which may be gzipped.

    Raises:
        UserError: if the file cannot be read or is empty, or if a line is not in the format of the first one.
    """
    n_fields = 0
    for location, text in read_lines(path):
        fields = drop_words_after_tag(split_fields(text))
        if not fields:
            continue
        n_fields = n_fields or len(fields)
        if len(fields) != n_fields or n_fields not in _FORMATS:
            formats = [_FORMATS[n_fields]] if n_fields in _FORMATS else _FORMATS.values()
            raise UserError(str(location), f"fields: {len(fields)}", " or ".join(map(repr, formats)))
        if n_fields == RUN_FIELDS:
            query, _, document, rank, score, _ = fields
            yield RunLine(location, query, document, parse_number(rank), _parse_score(location, score))
        else:
            query, document, *ranks = fields
            yield RunLine(location, query, document, _parse_rank(location, *ranks) if ranks else np.nan, np.nan)
    if not n_fields:
        raise UserError(str(path), "an empty file", "a run")


def read_run(
    path: Path, depth: int | None = None, key: str = "--run", log: Callable[[str], object] | None = None
) -> Run:
    r"""Read the pairs of a run in the order of the file, which may be gzipped.

    Args:
        path: the file.
        depth: number of documents of each query that are kept, the first ones in the order of the format. If None,
            all are kept.
        key: setting that names the file, for errors.
        log: is called with a line if ranks contradict scores, as they do if the scores are distances, or if ranks
            without scores have gaps.

    Raises:
        UserError: if the file is missing, as `read_run_lines` does, if a pair occurs twice, or if ranks without scores
            occur twice in a query or are likely to be scores, since none is 1.

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
    numbers, ranks, scores = array("q"), array("d"), array("d")
    for location, query, document, rank, score in read_run_lines(_require_file(path, key)):
        queries.append(query)
        documents.append(document)
        numbers.append(location.line)
        ranks.append(rank)
        scores.append(score)
    (query_ids, query_codes), (document_ids, document_codes) = queries.encode(), documents.encode()
    lines = _Lines(path, np.array(numbers))
    values, places = np.array(scores), np.array(ranks)
    if not np.isnan(values[0]):
        count = count_contradictions(query_codes, places, values)
        if log and (notes := describe_contradictions(str(path), count, len(query_ids))):
            log(*notes)
    elif not np.isnan(places[0]):
        n_gaps = _check_ranks(lines, query_ids, query_codes, places)
        if log and n_gaps:
            log(f"{path}: ranks have gaps in {n_gaps:,} of {len(query_ids):,} queries; read as ranks, 1 is best")
        values = -places
    else:
        order = np.argsort(query_codes, kind="stable")
        values[order] = -_number_in_groups(query_codes[order])
    run = Run(query_ids, document_ids, query_codes, document_codes, values)
    _reject_duplicates(lines, run)
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


def is_run_with_tag(path: Path, tag: str) -> bool:
    """Return whether the first line of a file is that of a run in the format of TREC with this tag."""
    fields = read_head(path).partition("\n")[0].split()
    return len(fields) == len(_FORMATS[6].split()) and (fields[1], fields[-1]) == ("Q0", tag)


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


def _parse_score(location: FileLocation, text: str) -> float:
    value = parse_number(text)
    if not np.isfinite(value):
        raise UserError(str(location), f"score {quote_text(text)}", "a finite number")
    return value


def _parse_rank(location: FileLocation, text: str) -> float:
    value = parse_number(text)
    if not value.is_integer() or value < 1:  # also False for what is no number
        raise UserError(str(location), f"rank {quote_text(text)}", _RANKS)
    return value


class _Lines(NamedTuple):
    """Lines of the pairs of a file."""

    path: Path
    numbers: npt.NDArray[np.int64]

    def locate(self, row: int) -> str:
        return str(FileLocation(self.path, int(self.numbers[row])))


def _check_ranks(lines: _Lines, queries: pa.StringArray, query_codes: Codes, ranks: npt.NDArray[np.float64]) -> int:
    """Return the number of queries whose ranks have gaps.

    Raises:
        UserError: if a rank occurs twice in a query, or if no query has rank 1: such numbers are likely to be scores.
    """
    order = np.lexsort((ranks, query_codes))
    is_repeated = (np.diff(query_codes[order]) == 0) & (np.diff(ranks[order]) == 0)
    if is_repeated.any():
        row = int(order[1:][is_repeated].min())
        raise UserError(lines.locate(row), f"rank {ranks[row]:.0f} twice in query {queries[query_codes[row]]}", _RANKS)
    if ranks.min() > 1:
        raise UserError(str(lines.path), "no query with rank 1, so the third column seems to be scores", _RANKS)
    has_gap = ranks[order] != 1 + _number_in_groups(query_codes[order])
    return len(np.unique(query_codes[order][has_gap]))


def _reject_duplicates(lines: _Lines, run: Run) -> None:
    keys = run.query_codes.astype(np.int64) * len(run.documents) + run.document_codes
    order = np.argsort(keys, kind="stable")
    repeated = order[1:][keys[order[1:]] == keys[order[:-1]]]
    if len(repeated):
        row = int(repeated.min())
        found = f"document {run.documents[run.document_codes[row]]} twice for query {run.queries[run.query_codes[row]]}"
        raise UserError(lines.locate(row), found, "each document once for a query")


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
