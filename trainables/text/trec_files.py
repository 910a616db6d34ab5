"""Reads runs and qrels as trec_eval 10 does, in the formats of TREC and MS MARCO, and writes runs.

Fields are separated by blanks or tabs. Empty lines and comments, which begin with #, are skipped. All other lines of a
run have one format, which the first of them decides by its number of fields:

- 6: `query Q0 document rank score tag`. Words after the tag are ignored. The order is by descending score; equal scores
  keep the order of the file. Ranks are read to count the queries in which they contradict the scores.
- 3: `query document rank`. The ranks of a query are whole numbers from 1, each once, in any order; gaps are those of a
  filtered run. No query with rank 1 means that the numbers are scores, which is an error.
- 2: `query document`. The order is that of the file.

A line of qrels is `query iteration document grade`, or `query document grade` below the header of BEIR's files,
`query-id corpus-id score`.
"""

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trainables.text.text_files import (
    BYTE_ORDER_MARK,
    MAX_LINE_BYTES,
    FileLocation,
    decode_text,
    open_binary,
    parse_number,
    quote_text,
)
from trainables.utils.arrays import Bools, Floats, Ints
from trainables.utils.errors import UserError
from trainables.utils.files import read_head, write_atomically

if TYPE_CHECKING:
    import pandas as pd

Codes = npt.NDArray[np.int32]

LARGEST_SCORE = float(np.finfo(np.float32).max)
"""trec_eval holds scores in single precision."""
_LARGEST_GRADE = 1_000_000
"""trec_eval holds a table with an entry for each grade up to the largest."""
_RUN, _RANKED, _LISTED = "query Q0 document rank score tag", "query document rank", "query document"
_QRELS = "query iteration document grade"
_BEIR_QRELS, _BEIR_HEADER = "query document grade", ["query-id", "corpus-id", "score"]
_COLUMNS = {"query": "query_id", "document": "document_id"}
_RUN_FIELDS = len(_RUN.split())
_RANKS = (
    f"ranks from 1, each once in a query, since three columns are {_RANKED!r}; a run with scores has {_RUN!r}; without "
    "the third column, the order of the file counts"
)
_BLOCK_BYTES = 1 << 22
_LINES_PER_BLOCK = 1 << 16
"""Lines that are Python objects at once, when a file is written."""


@dataclass(frozen=True)
class TrecRun:
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
    scores: Floats

    @classmethod
    def from_columns(cls, queries: pa.ChunkedArray, documents: pa.ChunkedArray, scores: Floats) -> "TrecRun":
        """Return the run of columns of ids and scores, shape (pairs,) each."""
        (query_ids, query_codes), (document_ids, document_codes) = _encode(queries), _encode(documents)
        return cls(query_ids, document_ids, query_codes, document_codes, scores)

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.query_codes)

    @cached_property
    def rows(self) -> dict[str, Ints]:
        """Rows of the pairs of each query, in the order of the file."""
        order = np.argsort(self.query_codes, kind="stable")
        ends = np.cumsum(np.bincount(self.query_codes))[:-1]
        return dict(zip(self.queries.to_pylist(), np.split(order, ends), strict=True))

    def get_documents(self, query: str) -> dict[str, float]:
        """Return the score of each document of a query, in the order of the file."""
        rows = self.rows[query]
        return dict(zip(self.get_document_ids(rows), self.scores[rows].tolist(), strict=True))

    def get_document_ids(self, rows: Ints) -> list[str]:
        """Return the ids of the documents in some rows."""
        ids: list[str] = self.documents.take(pa.array(self.document_codes[rows])).to_pylist()
        return ids


def read_trec_run(path: Path, depth: int | None = None, log: Callable[[str], object] | None = None) -> TrecRun:
    r"""Read the pairs of a run in the order of the file.

    Args:
        path: the file.
        depth: number of documents of each query that are kept, the first ones in the order of the format. If None,
            all are kept.
        log: is called with a line if ranks contradict scores, as they do if the scores are distances, or if ranks
            without scores have gaps.

    Raises:
        UserError: as `read_run_blocks` does, if a pair occurs twice, or if ranks without scores occur twice in a query
            or are likely to be scores, since none is 1.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "bm25.run")
        ...     _ = path.write_text("q1 Q0 d7 1 3.5 bm25\nq1 Q0 d2 2 1.5 bm25\n")
        ...     run = read_trec_run(path)
        >>> run.get_documents("q1")
        {'d7': 3.5, 'd2': 1.5}
    """
    blocks = pa.concat_tables(pa.Table.from_pandas(own, preserve_index=False) for own in read_run_blocks(path))
    ranks, scores, lines = (blocks[name].to_numpy() for name in ("rank", "score", "line"))
    run = TrecRun.from_columns(blocks["query_id"], blocks["document_id"], scores)
    if not np.isnan(scores[0]):
        if log and (count := _count_contradictions(run.query_codes, ranks, scores)):
            rule = "scores decide, higher is better: negate distances"
            log(f"{path}: ranks contradict scores in {count:,} of {len(run.queries):,} queries; {rule}")
    elif not np.isnan(ranks[0]):
        n_gaps = _check_ranks(path, lines, run, ranks)
        if log and n_gaps:
            log(f"{path}: ranks have gaps in {n_gaps:,} of {len(run.queries):,} queries; read as ranks, 1 is best")
        run = replace(run, scores=-ranks)
    else:
        places = np.empty(len(run))
        places[np.concatenate([*run.rows.values()])] = _number_in_groups(np.sort(run.query_codes))
        run = replace(run, scores=-places)
    _reject_duplicates(path, lines, run)
    return run if depth is None else _cut(run, depth)


def read_run_blocks(path: Path) -> "Iterator[pd.DataFrame]":
    """Yield the pairs of a run in the order of the file, in blocks of lines.

    Yields:
        Columns query_id and document_id (text), line (from 1), and rank and score, NaN if the line has none or the rank
            is no number.

    Raises:
        UserError: if the file cannot be read or has no pairs, if a line is not in the format of the first one, a score
            is not finite in single precision, or a rank without a score is no whole number from 1.
    """
    for block in _read_blocks(path, "a run", (_RUN, _RANKED, _LISTED)):
        none = np.full(len(block), np.nan)
        ranks, scores = (_parse_numbers(block[name]) if name in block else none for name in ("rank", "score"))
        if "score" in block:
            _require(np.abs(scores) <= LARGEST_SCORE, path, block, "score", "a finite number in single precision")
        elif "rank" in block:
            _require((ranks % 1 == 0) & (ranks >= 1), path, block, "rank", _RANKS)
        yield block[["query_id", "document_id", "line"]].assign(rank=ranks, score=scores)


class Judgement(NamedTuple):
    """A line of qrels."""

    query: str
    document: str
    grade: int
    location: FileLocation


def read_trec_qrels(path: Path) -> list[Judgement]:
    """Read qrels in the order of the file, of TREC or, by the header of its first line, of BEIR.

    Raises:
        UserError: if the file cannot be read, a line is no line of qrels, or a grade is no whole number.
    """
    expected = f"a whole number, {_LARGEST_GRADE:,} at most"
    rows, is_beir = list[Judgement](), _has_beir_header(path)
    for content in _read_blocks(path, "TREC qrels", (_BEIR_QRELS if is_beir else _QRELS,)):
        block = content[content["line"] > is_beir].reset_index(drop=True)
        grades, is_whole = _parse_numbers(block["grade"]), block["grade"].str.fullmatch("[+-]?[0-9]+").to_numpy(bool)
        _require(is_whole & (np.abs(grades) <= _LARGEST_GRADE), path, block, "grade", expected)
        columns = (column.tolist() for column in (block["query_id"], block["document_id"], grades.astype(np.int64)))
        rows += map(Judgement, *columns, map(FileLocation, repeat(path), block["line"]))
    if not rows:
        raise UserError(str(path), "a header alone", f"lines {_BEIR_QRELS!r}")
    return rows


def group_qrels(qrels: Iterable[Judgement]) -> dict[str, dict[str, int]]:
    """Return the grade by document by query, in the order of the rows.

    Raises:
        UserError: if a document has two grades for a query.
    """
    grouped: dict[str, dict[str, int]] = {}
    for query, document, grade, location in qrels:
        known = grouped.setdefault(query, {}).setdefault(document, grade)
        if known != grade:
            found = f"grade {grade} of document {document} for query {query}, but {known} before"
            raise UserError(str(location), found, "one grade of each document for a query")
    return grouped


def write_trec_run(path: Path, run: TrecRun, scores: npt.NDArray[np.float32], tag: str) -> None:
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
                run.get_document_ids(rows),
                ranks[start : start + _LINES_PER_BLOCK].tolist(),
                map(str, scores[rows]),  # numpy's shortest digits of a float32
            )
            stream.writelines(f"{q} Q0 {d} {rank} {score} {tag}\n" for q, d, rank, score in zip(*columns, strict=True))


def is_run_with_tag(path: Path, tag: str) -> bool:
    """Return whether the first line of a file is that of a run in the format of TREC with this tag."""
    fields = read_head(path).partition("\n")[0].split()
    return len(fields) == _RUN_FIELDS and (fields[1], fields[-1]) == ("Q0", tag)


def _has_beir_header(path: Path) -> bool:
    with open_binary(path, f"TREC qrels: {_QRELS!r}") as file:
        head = file.readline(MAX_LINE_BYTES).removeprefix(BYTE_ORDER_MARK)
    return head.decode(errors="replace").split() == _BEIR_HEADER


def _read_blocks(path: Path, kind: str, formats: Sequence[str]) -> "Iterator[pd.DataFrame]":
    """Yield the fields as text in columns of their names, and the number of the line."""
    import pandas as pd

    by_count = {len(names.split()): names for names in formats}
    format_of_file, expected = "", f"{kind}: {' or '.join(map(repr, formats))}"
    with open_binary(path, expected) as file:
        for first, content in _iterate_blocks(file, path):
            decode_text(content, path, expected, first)
            content = _drop_ignored(content, by_count)
            counts = _count_fields(content)
            filled = np.flatnonzero(counts)
            if not len(filled):
                continue
            format_of_file = format_of_file or by_count.get(int(counts[filled[0]]), "")
            names = format_of_file.split()
            wrong = filled[counts[filled] != len(names)]
            if len(wrong):
                where, found = FileLocation(path, first + int(wrong[0])), f"fields: {counts[wrong[0]]}"
                raise UserError(str(where), found, repr(format_of_file) if names else expected)
            frame = pd.read_csv(
                io.BytesIO(content), sep=r"\s+", names=names, dtype=str, quoting=csv.QUOTE_NONE, na_filter=False
            )
            yield frame.rename(columns=_COLUMNS).assign(line=first + filled)
    if not format_of_file:
        raise UserError(str(path), "no lines", expected)


def _iterate_blocks(file: IO[bytes], path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number of the first line and the content of blocks of whole lines."""
    line, rest = 1, b""
    while content := file.read(_BLOCK_BYTES):
        if line == 1 and not rest:
            content = content.removeprefix(BYTE_ORDER_MARK)
        whole, end, rest = (rest + content).rpartition(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            where = FileLocation(path, line + whole.count(b"\n") + bool(end))
            raise UserError(str(where), f"more than {MAX_LINE_BYTES} bytes", "a shorter line")
        if end:
            yield line, (whole + end).replace(b"\r\n", b"\n")
            line += whole.count(b"\n") + 1
    if rest:
        yield line, rest.removesuffix(b"\r")


def _drop_ignored(content: bytes, formats: Mapping[int, str]) -> bytes:
    """Return the same lines without comments and, of a run, without the words after the tag.

    If the fourth of more than six fields is no rank, all are kept: a blank within an id has shifted them.
    """
    too_long = np.flatnonzero(_count_fields(content) > _RUN_FIELDS).tolist() if _RUN_FIELDS in formats else []
    if not too_long and b"#" not in content:
        return content
    lines = content.split(b"\n")
    for number in too_long:
        fields = [field for field in lines[number].replace(b"\t", b" ").split(b" ") if field]
        if not math.isnan(parse_number(fields[3].decode())):
            lines[number] = b" ".join(fields[:_RUN_FIELDS])
    return b"\n".join(b"" if line.lstrip(b" \t")[:1] == b"#" else line for line in lines)


def _count_fields(content: bytes) -> Ints:
    """Return the number of fields of each line of a text that is not empty."""
    codes = np.frombuffer(content, dtype=np.uint8)
    ends = codes == ord("\n")
    is_gap = ends | (codes == ord(" ")) | (codes == ord("\t"))
    starts = ~is_gap
    starts[1:] &= is_gap[:-1]
    first = np.concatenate([[0], np.flatnonzero(ends) + 1])
    return np.add.reduceat(starts, first[first < len(codes)], dtype=np.int64)


def _parse_numbers(text: "pd.Series[str]") -> Floats:
    """Return the numbers, NaN where there is none."""
    try:
        values: Floats = pc.cast(pa.array(text), pa.float64()).to_numpy()
        return values
    except pa.ArrowInvalid:  # at least one is no number
        return np.array([*map(parse_number, text.tolist())])


def _require(valid: Bools, path: Path, block: "pd.DataFrame", name: str, expected: str) -> None:
    if not valid.all():
        row = block.iloc[int(np.argmin(valid))]
        raise UserError(str(FileLocation(path, row["line"])), f"{name} {quote_text(row[name])}", expected)


def _encode(ids: pa.ChunkedArray) -> tuple[pa.StringArray, Codes]:
    """Return the different ids in the order of their first occurrence, and the index of each id among them."""
    encoded = ids.cast(pa.string()).dictionary_encode().unify_dictionaries()
    return encoded.chunk(0).dictionary, np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])


def _count_contradictions(queries: Codes, ranks: Floats, scores: Floats) -> int:
    """Return the number of queries in which a document has a better rank than another one, and a lower score."""
    order = np.lexsort((-scores, ranks, queries))
    queries, ranks, scores = queries[order], ranks[order], scores[order]
    is_wrong = (queries[1:] == queries[:-1]) & (ranks[1:] > ranks[:-1]) & (scores[1:] > scores[:-1])
    return len(np.unique(queries[1:][is_wrong]))


def _check_ranks(path: Path, lines: Ints, run: TrecRun, ranks: Floats) -> int:
    """Return the number of queries with gaps in their ranks.

    Raises:
        UserError: if a rank occurs twice in a query, or if no query has rank 1: such numbers are likely to be scores.
    """
    order = np.lexsort((ranks, run.query_codes))
    queries, sorted_ranks = run.query_codes[order], ranks[order]
    is_repeated = (np.diff(queries) == 0) & (np.diff(sorted_ranks) == 0)
    if is_repeated.any():
        row = int(order[1:][is_repeated].min())
        found = f"rank {ranks[row]:.0f} twice in query {run.queries[run.query_codes[row]]}"
        raise UserError(str(FileLocation(path, lines[row])), found, _RANKS)
    if ranks.min() > 1:
        raise UserError(str(path), "no query with rank 1, so the third column seems to be scores", _RANKS)
    return len(np.unique(queries[sorted_ranks != 1 + _number_in_groups(queries)]))


def _reject_duplicates(path: Path, lines: Ints, run: TrecRun) -> None:
    keys = run.query_codes.astype(np.int64) * len(run.documents) + run.document_codes
    order = np.argsort(keys, kind="stable")
    repeated = order[1:][keys[order[1:]] == keys[order[:-1]]]
    if len(repeated):
        row = int(repeated.min())
        found = f"document {run.documents[run.document_codes[row]]} twice for query {run.queries[run.query_codes[row]]}"
        raise UserError(str(FileLocation(path, lines[row])), found, "each document once for a query")


def _cut(run: TrecRun, depth: int) -> TrecRun:
    order = np.lexsort((-run.scores, run.query_codes))  # equal ones keep the order of the file
    kept = np.sort(order[_number_in_groups(run.query_codes[order]) < depth])
    codes, document_codes = np.unique(run.document_codes[kept], return_inverse=True)
    documents = run.documents.take(pa.array(codes))
    return TrecRun(run.queries, documents, run.query_codes[kept], document_codes.astype(np.int32), run.scores[kept])


def _number_in_groups(groups: Codes) -> npt.NDArray[np.int64]:
    """Return 0, 1, ... within each of several consecutive groups, shape of `groups`."""
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    return np.arange(len(groups)) - np.repeat(starts, np.diff(starts, append=len(groups)))
