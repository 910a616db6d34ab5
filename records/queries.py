"""Attributes of each query: turns of the dialogue, domain and difficulty, in queries.parquet."""

import hashlib
from pathlib import Path

import pandas as pd

from records.json_files import EXPECTED
from trainables.utils.checksums import hash_file
from trainables.utils.errors import UserError

QUERIES_FILE = "queries.parquet"
"""Name of the file in the study's folder and in the W&B artifact `queries-<plan hash>` of the run of that name."""
SHA256_KEY = "queries_sha256"
"""Key of the file's SHA-256 in the summary of that run."""
DIFFICULTY_PREFIX = "difficulty/"
"""Prefix of difficulty columns; the name of the score follows."""
_CONTENT_KEY = "sha256"
_KEY = ["split", "query_id"]
_EXPECTED = "a parquet file with a row a query: split, query_id, and optionally turns, domain, difficulty/..."


def encode_queries(queries: pd.DataFrame) -> bytes:
    """Return the content of the file, with the SHA-256 of the table among its attributes."""
    queries = queries.copy()
    queries.attrs = {_CONTENT_KEY: _hash_content(queries)}
    content: bytes = queries.to_parquet(index=False)
    return content


def is_intact_table(queries: pd.DataFrame) -> bool:
    """Return whether a table is as `encode_queries` got it."""
    return bool(queries.attrs.get(_CONTENT_KEY) == _hash_content(queries))


def _hash_content(queries: pd.DataFrame) -> str:
    return hashlib.sha256(queries.to_csv(index=False).encode()).hexdigest()


def read_queries(path: Path, expected_sha256: str | None = None) -> pd.DataFrame:
    """Read the table of queries: one row a query, in order of split and query_id.

    Args:
        path: path of the file.
        expected_sha256: SHA-256 of the file. If None, it is not checked.

    Returns:
        Columns split and query_id, then those of the following that the file has: turns (int), domain (text, empty
            where a query has none), and difficulty/<score> (float, low is easy), these in the file's order.

    Raises:
        UserError: if the file has another SHA-256, is damaged or not such a file, or lacks a value.
    """
    from pyarrow import ArrowException

    try:
        if expected_sha256 is not None and (sha256 := hash_file(path)) != expected_sha256:
            raise UserError(str(path), f"SHA-256 {sha256:.12}...", f"{expected_sha256:.12}..., as the study recorded")
        frame = pd.read_parquet(path)
    except (OSError, ValueError, ArrowException) as error:
        raise UserError(str(path), error, _EXPECTED) from error
    if _CONTENT_KEY in frame.attrs and not is_intact_table(frame):
        raise UserError(str(path), "it does not match its checksum", EXPECTED)
    if missing := [name for name in _KEY if name not in frame]:
        raise UserError(str(path), f"no column {missing[0]}", _EXPECTED)
    for name in _KEY:
        _refuse_if(path, name, not frame[name].map(lambda value: isinstance(value, str)).all(), "text in every row")
    if frame.duplicated(_KEY).any():
        raise UserError(str(path), f"query {frame['query_id'][frame.duplicated(_KEY)].iloc[0]} twice", "each once")
    columns = {name: frame[name] for name in _KEY}
    if "turns" in frame:
        _refuse_if(path, "turns", not pd.api.types.is_integer_dtype(frame["turns"]), "whole numbers")
        _refuse_if(path, "turns", not frame["turns"].ge(0).all(), "a count in every row")
        columns["turns"] = frame["turns"].astype("int64")
    if "domain" in frame:
        columns["domain"] = frame["domain"].astype(object).where(frame["domain"].notna(), "").astype(str)
    for name in map(str, frame):
        if name.startswith(DIFFICULTY_PREFIX):
            _refuse_if(path, name, not pd.api.types.is_float_dtype(frame[name]), "floats")
            _refuse_if(path, name, not frame[name].abs().lt(float("inf")).all(), "a finite number in every row")
            columns[name] = frame[name].astype("float64")
    return pd.DataFrame(columns).sort_values(_KEY, ignore_index=True)


def _refuse_if(path: Path, column: str, bad: bool, expected: str) -> None:
    if bad:
        raise UserError(str(path), f"column {column} is damaged", expected)
