"""Reads rankings that MTEB and sentence-transformers write as JSON.

MTEB (`prediction_folder`, before version 2 `save_predictions`):

    {"<subset>": {"<split>": {"<query>": {"<document>": score}}}}, or {"<query>": {"<document>": score}}

sentence-transformers (`InformationRetrievalEvaluator` with `write_predictions`), one line a query:

    {"query_id": ..., "query": ..., "results": [{"corpus_id": ..., "score": ...}]}

What the file contains decides, not its name.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from trainables.text.text_files import BYTE_ORDER_MARK, decode_text, open_binary
from trainables.text.trec_files import LARGEST_SCORE, TrecRun
from trainables.utils.errors import UserError

MTEB_META = "mteb_model_meta"
_EXPECTED = (
    'one ranking, as {"query": {"document": score}} with finite scores, or one line a query with query_id and results'
)
_Score = Annotated[float, Field(strict=True, ge=-LARGEST_SCORE, le=LARGEST_SCORE, allow_inf_nan=False)]
_Rankings = dict[str, dict[str, _Score]]


class _Hit(BaseModel, coerce_numbers_to_str=True):
    corpus_id: str
    score: _Score


class _Line(BaseModel, coerce_numbers_to_str=True):
    query_id: str
    results: list[_Hit]


def read_predictions(path: Path) -> TrecRun:
    """Read the rankings of a JSON or JSONL file, plain or compressed with gzip.

    Raises:
        UserError: if the file cannot be read, holds several rankings or something else, a score is not finite in
            single precision, or a document occurs twice in a query.
    """
    with open_binary(path, _EXPECTED) as file:
        text = decode_text(file.read().removeprefix(BYTE_ORDER_MARK), path, _EXPECTED)
    lines = [line for line in text.split("\n") if line.strip()]
    try:
        if lines and '"query_id"' in lines[0]:
            parsed = [_Line.model_validate_json(line) for line in lines]
            rows = [(line.query_id, hit.corpus_id, hit.score) for line in parsed for hit in line.results]
        else:
            rankings = TypeAdapter(_Rankings).validate_python(_find_ranking(json.loads(text)))
            rows = [(query, document, score) for query, own in rankings.items() for document, score in own.items()]
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(str(path), f"{where}: {first['msg']}" if where else first["msg"], _EXPECTED) from error
    except json.JSONDecodeError as error:
        raise UserError(f"{path}, line {error.lineno}", f"no JSON ({error.msg})", _EXPECTED) from error
    if not rows:
        raise UserError(str(path), "no query with a document", _EXPECTED)
    if len({row[:2] for row in rows}) < len(rows):
        raise UserError(str(path), "a document twice in a query", "each query and each of its documents once")
    queries, documents, values = zip(*rows, strict=True)
    return TrecRun.from_columns(pa.chunked_array([queries]), pa.chunked_array([documents]), np.array(values, float))


def _find_ranking(content: Any) -> Any:
    """Return what is below the names of the only subset and the only split."""
    if isinstance(content, dict):
        content = {key: value for key, value in content.items() if key != MTEB_META}
        while len(content) == 1:
            (inner,) = content.values()
            if not isinstance(inner, dict) or not all(isinstance(value, dict) for value in inner.values()):
                break
            content = inner
    return content
