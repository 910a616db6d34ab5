"""What is known of each query beside its scores: turns of the dialogue, domain, difficulty; in queries.parquet."""

import hashlib
from pathlib import Path

import pandas as pd

from trainables.utils.errors import UserError

QUERIES_FILE = "queries.parquet"
"""In the study's folder, and in the artifact `queries-<plan hash>` of the W&B run of that name."""
SHA256_KEY = "queries_sha256"
"""Where the summary of that run notes the file's digest."""
DIFFICULTY_PREFIX = "difficulty/"
"""What the names of columns of difficulty begin with; the name of the score follows."""
_KEY = ["split", "query_id"]
_EXPECTED = "a parquet file with a row a query: split, query_id, and of turns, domain, difficulty/... what there is"


def compute_sha256(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_queries(path: Path, expected_sha256: str | None = None) -> pd.DataFrame:
    """One row a query, in order of split and query_id.

    Args:
        path: of the file.
        noted: its SHA-256, as far as it was noted.

    Returns:
        Columns split and query_id; then, as far as the file has them, turns (int), domain (text, empty where a query
        has none), and difficulty/<score> (float, low is easy), these in the file's order.

    Raises:
        UserError: it is not the file that was noted, or not such a file, or a value in it is missing.
    """
    from pyarrow import ArrowException

    try:
        if expected_sha256 is not None and (found := compute_sha256(path)) != expected_sha256:
            raise UserError(str(path), f"SHA-256 {found:.12}...", f"{expected_sha256:.12}..., which the study noted")
        frame = pd.read_parquet(path)
    except (OSError, ValueError, ArrowException) as error:
        raise UserError(str(path), error, _EXPECTED) from error
    if lacking := [name for name in _KEY if name not in frame]:
        raise UserError(str(path), f"no column {lacking[0]}", _EXPECTED)
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


def merge_query_tables(first: pd.DataFrame | None, second: pd.DataFrame | None) -> pd.DataFrame | None:
    """Of two tables of a study's queries the one with more columns, the second of equals; None of none.

    Raises:
        UserError: they say different things.
    """
    if first is None or second is None:
        return second if first is None else first
    shared = [name for name in first if name in second]
    for name in shared:
        if not first[name].equals(second[name]):
            raise UserError(f"{QUERIES_FILE} of the records", f"{name} is not that in W&B", "the same queries in both")
    return first if len(first.columns) > len(second.columns) else second


def _refuse_if(path: Path, column: str, bad: bool, expected: str) -> None:
    if bad:
        raise UserError(str(path), f"column {column} is damaged", expected)
