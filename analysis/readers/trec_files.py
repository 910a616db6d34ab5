"""Reads runs and qrels in the format of trec_eval, plain or compressed with gzip, and refuses any other line.

    run      query Q0 document rank score tag, one line a document
    qrels    query iteration document grade, one line a judgement

Fields are separated by blanks or tabs. Comments, which begin with #, and words after the tag of a run are ignored, as
in trec_eval 10. Scores decide; ranks are read to count the queries in which they contradict the scores.
"""

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, NamedTuple, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from trainables.text.trec_lines import (
    RUN_FIELDS,
    count_contradictions,
    drop_words_after_tag,
    parse_number,
    split_fields,
)
from trainables.utils.errors import UTF8_TEXT, UserError

LARGEST_SCORE = float(np.finfo(np.float32).max)
"""trec_eval holds scores in single precision."""
_LARGEST_GRADE = 1_000_000
"""trec_eval holds a table with an entry for each grade up to the largest."""
_GRADE = r"[+-]?[0-9]+"
_BLOCK = 1 << 24
_CONTROL_BYTES = bytes({*range(32), 127} - {9, 10})


class _Layout(NamedTuple):
    description: str
    fields: int
    columns: dict[int, str]
    value_name: str
    dtype: type
    largest: float
    expected_value: str


_RUN = _Layout(
    "a TREC run: query, Q0, document, rank, score and tag in each line",
    RUN_FIELDS,
    {0: "query_id", 2: "doc_id", 3: "rank", 4: "value"},
    "score",
    np.float64,
    LARGEST_SCORE,
    "a finite number in single precision as score",
)
_QRELS = _Layout(
    "TREC qrels: query, iteration, document and grade in each line",
    4,
    {0: "query_id", 2: "doc_id", 3: "value"},
    "grade",
    np.int64,
    _LARGEST_GRADE,
    f"a whole number as grade, {_LARGEST_GRADE:,} at most",
)


@dataclass(frozen=True)
class Ranking:
    """Scored documents of a run, by query in the order of the file.

    Attributes:
        bounds: (first, last + 1) row of each query.
        documents: ids of the documents.
        scores: their scores, higher is better.
        contradictions: number of queries in which ranks contradict scores, as they do if the scores are distances.
    """

    bounds: dict[str, tuple[int, int]]
    documents: pa.Array
    scores: np.ndarray[tuple[int], np.dtype[np.float64]]
    contradictions: int = 0

    def get_documents(self, query: str) -> dict[str, float]:
        """Return the score of each document of a query, in the order of the file."""
        start, stop = self.bounds[query]
        names = self.documents[start:stop].to_numpy(zero_copy_only=False)
        return dict(zip(names.tolist(), self.scores[start:stop].tolist(), strict=True))


def read_trec_run(path: Path) -> Ranking:
    r"""Read a run.

    Raises:
        UserError: if the file cannot be read, a line is no line of a run, a score is not finite in single precision, or
            a document occurs twice in a query. It names the line.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "bm25.run")
        ...     _ = path.write_text("q1 Q0 d2 1 2.5 bm25\nq1 Q0 d1 2 1.0 bm25\n")
        ...     read_trec_run(path).get_documents("q1")
        {'d2': 2.5, 'd1': 1.0}
    """
    frame = _read_lines(path, _RUN)
    codes, names = pd.factorize(frame["query_id"])
    if (np.diff(codes) < 0).any():
        order = np.argsort(codes, kind="stable")
        codes, frame = codes[order], frame.take(order)
    places = np.searchsorted(codes, np.arange(len(names) + 1)).tolist()
    bounds = dict(zip(names, pairwise(places), strict=True))
    scores = frame["value"].to_numpy()
    contradictions = count_contradictions(codes, frame["rank"].to_numpy(), scores)
    ranking = Ranking(bounds, _to_array(frame["doc_id"]), scores, contradictions)
    for query, (start, stop) in bounds.items():
        if len(ranking.get_documents(query)) < stop - start:
            row = start + int(np.argmax(frame["doc_id"].iloc[start:stop].duplicated().to_numpy()))
            document, line = frame.iloc[row][["doc_id", "line"]]
            raise UserError(f"{path}, line {line}", f"document {document} twice in query {query}", "each document once")
    return ranking


def read_trec_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Read qrels: grade by document by query, in the order of the file.

    Raises:
        UserError: if the file cannot be read, a line is no line of qrels, a grade is no whole number, or a document has
            two grades for a query. It names the line.
    """
    frame = _read_lines(path, _QRELS)
    qrels: dict[str, dict[str, int]] = {}
    columns = (frame[name].tolist() for name in ("query_id", "doc_id", "value", "line"))
    for query, document, grade, line in zip(*columns, strict=True):
        known = qrels.setdefault(query, {}).setdefault(document, grade)
        if known != grade:
            raise UserError(
                f"{path}, line {line}",
                f"grade {grade} of document {document} for query {query}, but {known} before",
                "one grade of each document for a query",
            )
    return qrels


@contextmanager
def open_binary(path: Path, expected: str) -> Iterator[IO[bytes]]:
    """Open a file that may be compressed with gzip, which its first bytes tell.

    Args:
        path: path of the file.
        expected: what the file should be, for errors.

    Yields:
        The content, decompressed.

    Raises:
        UserError: if the file does not exist, cannot be read, or is a damaged gzip file or a pipe.
    """
    if path.is_fifo():  # it cannot be read twice, and without a writer the command would wait for ever
        raise UserError(str(path), "a pipe", f"{expected}, in a file")
    try:
        with path.open("rb") as plain:
            is_compressed = plain.read(2) == b"\x1f\x8b"
            plain.seek(0)
            if is_compressed:
                with gzip.open(plain) as file:
                    yield cast(IO[bytes], file)
            else:
                yield plain
    except FileNotFoundError as error:
        raise UserError(str(path), "no such file", expected) from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(str(path), f"a damaged gzip file ({error})", expected) from error
    except OSError as error:
        raise UserError(str(path), error.strerror or error, expected) from error


def decode_text(content: bytes, path: Path, expected: str, first_line: int = 1) -> str:
    """Decode UTF-8.

    Raises:
        UserError: if there are control characters other than blanks, tabs and ends of lines, or the text is not UTF-8.
            It names the line.
    """
    if len(content.translate(None, _CONTROL_BYTES)) < len(content):
        match = re.search(b"[" + re.escape(_CONTROL_BYTES) + b"]", content)
        assert match
        line = first_line + content.count(b"\n", 0, match.start())
        raise UserError(f"{path}, line {line}", f"a control character, {match[0]!r}", f"{expected}, as text")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first_line + content.count(b"\n", 0, error.start)
        raise UserError(f"{path}, line {line}", "not UTF-8", UTF8_TEXT) from error


def _read_lines(path: Path, layout: _Layout) -> pd.DataFrame:
    """Read query_id, doc_id, value and the number of the line, which counts from 1."""
    with open_binary(path, layout.description) as file:
        blocks = [_parse_block(content, line, path, layout) for line, content in _iter_blocks(file, path, layout)]
    frames = [frame for frame in blocks if len(frame)]
    if not frames:
        raise UserError(str(path), "no lines", layout.description)
    return pd.concat(frames, ignore_index=True)


def _iter_blocks(file: IO[bytes], path: Path, layout: _Layout) -> Iterator[tuple[int, bytes]]:
    """Yield the number of the first line and the content of blocks of whole lines."""
    line, rest = 1, b""
    while content := file.read(_BLOCK):
        if line == 1 and not rest:
            content = content.removeprefix(b"\xef\xbb\xbf")
        whole, end, rest = (rest + content).rpartition(b"\n")
        if not end and len(rest) > _BLOCK:
            raise UserError(f"{path}, line {line}", f"more than {_BLOCK:,} bytes", layout.description)
        if end:
            yield line, (whole + end).replace(b"\r\n", b"\n")
            line += whole.count(b"\n") + 1
    if rest:
        yield line, rest.removesuffix(b"\r")


def _parse_block(content: bytes, first_line: int, path: Path, layout: _Layout) -> pd.DataFrame:
    decode_text(content, path, layout.description, first_line)
    content = _drop_ignored(content, layout)
    counts = _count_fields(content)
    filled = np.flatnonzero(counts)
    lines = first_line + filled
    if not len(filled):
        return pd.DataFrame()
    wrong = counts[filled] != layout.fields
    if wrong.any():
        place = int(np.argmax(wrong))
        number = int(counts[filled[place]])
        found = f"{number} column{'s' * (number != 1)}"
        raise UserError(f"{path}, line {lines[place]}", found, f"{layout.fields}, {layout.description}")
    frame = pd.read_csv(
        io.BytesIO(content),
        sep=r"\s+",
        header=None,
        usecols=[*layout.columns],
        dtype=str,
        quoting=csv.QUOTE_NONE,
        na_filter=False,
        engine="c",
    ).rename(columns=layout.columns)
    values = _parse_numbers(frame["value"])
    bad = ~(np.abs(values) <= layout.largest)
    if layout is _QRELS:
        bad |= ~frame["value"].str.fullmatch(_GRADE).to_numpy(dtype=bool)
    if bad.any():
        place = int(np.argmax(bad))
        found = f"{layout.value_name} {frame['value'].iloc[place]}"
        raise UserError(f"{path}, line {lines[place]}", found, layout.expected_value)
    if layout is _RUN:
        frame = frame.assign(rank=_parse_numbers(frame["rank"]))
    return frame.assign(value=values.astype(layout.dtype), line=lines)


def _drop_ignored(content: bytes, layout: _Layout) -> bytes:
    """Return the same lines without comments and, of a run, without the words after the tag."""
    too_many = np.flatnonzero(_count_fields(content) > layout.fields).tolist() if layout is _RUN else []
    if not too_many and b"#" not in content:
        return content
    lines = content.split(b"\n")
    comments = (number for number, line in enumerate(lines) if line.lstrip()[:1] == b"#")
    for number in {*comments, *too_many}:
        lines[number] = " ".join(drop_words_after_tag(split_fields(lines[number].decode()))).encode()
    return b"\n".join(lines)


def _count_fields(content: bytes) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """Return the number of fields of each line of a text that is not empty."""
    codes = np.frombuffer(content, dtype=np.uint8)
    ends = codes == ord("\n")
    is_gap = ends | (codes == ord(" ")) | (codes == ord("\t"))
    starts = ~is_gap
    starts[1:] &= is_gap[:-1]
    first = np.concatenate([[0], np.flatnonzero(ends) + 1])
    first = first[first < len(codes)]
    counts: np.ndarray[tuple[int], np.dtype[np.int32]] = np.add.reduceat(starts, first, dtype=np.int32)
    return counts


def _parse_numbers(text: pd.Series) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the numbers, NaN where there is none."""
    try:
        values: np.ndarray[tuple[int], np.dtype[np.float64]] = pc.cast(pa.array(text), pa.float64()).to_numpy()
        return values
    except pa.ArrowInvalid:  # at least one is no number
        return np.array([parse_number(value) for value in text.tolist()])


def _to_array(text: pd.Series) -> pa.Array:
    """Return strings as one array without chunks, whose slices are fast."""
    array = pa.array(text)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
