"""Reads rankings that MTEB and sentence-transformers write as JSON.

MTEB (`prediction_folder`, before version 2 `save_predictions`):

    {"<subset>": {"<split>": {"<query>": {"<document>": score}}}}, or {"<query>": {"<document>": score}}

sentence-transformers (`InformationRetrievalEvaluator` with `write_predictions`), one line a query:

    {"query_id": ..., "query": ..., "results": [{"corpus_id": ..., "score": ...}]}

What the file contains decides, not its name.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from trainables.text.text_files import BYTE_ORDER_MARK, decode_text, open_binary
from trainables.text.trec_files import LARGEST_SCORE, TrecRun
from trainables.utils.errors import UserError

MTEB_META = "mteb_model_meta"
_EXPECTED = 'predictions as {"query": {"document": score}}, or one line a query with query_id and results'
_Scores = dict[str, dict[str, Any]]


def read_predictions(path: Path, part: str | None = None) -> TrecRun:
    """Read the rankings of a JSON or JSONL file.

    Args:
        path: path of the file, plain or compressed with gzip.
        part: which rankings to read from a file of MTEB that has several, as SUBSET/SPLIT. If None, the only ones.

    Raises:
        UserError: if the file cannot be read, holds means over queries or something else, a score is not finite in
            single precision, a document occurs twice in a query, or there is no such part.
    """
    with open_binary(path, _EXPECTED) as file:
        text = decode_text(file.read().removeprefix(BYTE_ORDER_MARK), path, _EXPECTED)
    first = _parse_json(text.partition("\n")[0])
    if isinstance(first, dict) and "query_id" in first:
        return _build_run(_read_json_lines(text, path), path)
    try:
        content = json.loads(text, object_pairs_hook=_build_object)
    except json.JSONDecodeError as error:
        raise UserError(f"{path}, line {error.lineno}", f"no JSON ({error.msg})", _EXPECTED) from error
    except (_RepeatedKeyError, RecursionError) as error:
        raise UserError(str(path), error, _EXPECTED) from error
    check_means(content, path)
    return _build_run(_select_part(content, part, path), path)


def check_means(content: object, path: Path) -> None:
    """Refuse a result file of MTEB.

    Raises:
        UserError: if the content is a result of MTEB, which has no values of queries.
    """
    keys = content.keys() if isinstance(content, dict) else ()
    if ("scores" in keys and "task_name" in keys) or "mteb_dataset_name" in keys:
        raise UserError(
            str(path),
            "means over queries, a result of MTEB",
            "values per query: mteb.evaluate(..., prediction_folder=FOLDER) writes rankings, for --qrels and --runs",
        )


class _RepeatedKeyError(ValueError):
    """Raised if a key occurs twice in a JSON object."""


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) < len(pairs):
        names = [name for name, _ in pairs]
        raise _RepeatedKeyError(f"{next(name for name in names if names.count(name) > 1)} twice in an object")
    return built


def _parse_json(line: str) -> object:
    try:
        value: object = json.loads(line)
    except ValueError:
        return None
    return value


def _read_json_lines(text: str, path: Path) -> _Scores:
    scores: _Scores = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where, row = f"{path}, line {number}", _parse_json(line)
        if not isinstance(row, dict) or "query_id" not in row:
            raise UserError(where, "no JSON object with query_id", _EXPECTED)
        if not isinstance(row.get("results"), list):
            found = "no results" + ", but texts of documents without ids" * ("documents" in row)
            raise UserError(where, found, "a list results with corpus_id and score")
        query = str(row["query_id"])
        if query in scores:
            raise UserError(where, f"query {query} occurs twice", "each query once")
        scores[query] = {}
        for hit in row["results"]:
            if not isinstance(hit, dict) or not {"corpus_id", "score"} <= hit.keys():
                raise UserError(where, "a result without corpus_id and score", "corpus_id and score of each result")
            document = str(hit["corpus_id"])
            if document in scores[query]:
                raise UserError(where, f"document {document} twice in query {query}", "each document once")
            scores[query][document] = hit["score"]
    return scores


def _select_part(content: object, part: str | None, path: Path) -> _Scores:
    """Return the scores by document by query of the only part, or of the named one."""
    if isinstance(content, dict) and MTEB_META in content:
        content = {key: value for key, value in content.items() if key != MTEB_META}
    parts = dict(_iter_parts(content))
    if not parts:
        raise UserError(str(path), "no scores of documents by query", _EXPECTED)
    if part is None and len(parts) == 1:
        return next(iter(parts.values()))
    if part is None:
        raise UserError(str(path), f"{len(parts)} rankings, {', '.join(parts)}", "one of them, named by --part")
    if part not in parts:
        names = ", ".join(parts) if "" not in parts else "no --part, since the file has one ranking"
        raise UserError("--part", f"{part}, which {path} has not", names)
    return parts[part]


def _iter_parts(content: object, name: str = "") -> Iterator[tuple[str, _Scores]]:
    """Yield the objects of the form {query: {document: score}} with the path of their keys."""
    if not isinstance(content, dict) or not content or not all(isinstance(value, dict) for value in content.values()):
        return
    inner = next((value for value in content.values() if value), None)
    if inner is None or any(not isinstance(value, dict) for value in inner.values()):
        yield name, content
        return
    for key, value in content.items():
        yield from _iter_parts(value, f"{name}/{key}" if name else key)


def _build_run(scores: _Scores, path: Path) -> TrecRun:
    rows = [(query, document, score) for query, own in scores.items() for document, score in own.items()]
    for query, document, score in rows:
        if isinstance(score, bool) or not isinstance(score, int | float) or not abs(score) <= LARGEST_SCORE:
            found = f"score {score!r:.40} of document {document} for query {query}"
            raise UserError(str(path), found, "finite numbers in single precision as scores")
    if not rows:
        raise UserError(str(path), "no query with a document", _EXPECTED)
    queries, documents, values = zip(*rows, strict=True)
    return TrecRun.from_columns(pa.chunked_array([queries]), pa.chunked_array([documents]), np.array(values, float))
