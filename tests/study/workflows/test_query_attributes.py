"""The attributes of queries in a study's folder, which keep what a trainable no longer provides."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from records.queries import QUERIES_FILE, encode_queries
from study.workflows.query_attributes import write_query_attributes

QUERIES = pd.DataFrame({"split": ["dev", "test"], "query_id": ["a", "b"], "turns": [1, 2]})
EARLIER = QUERIES.assign(**{"difficulty/words": [0.5, 0.25]})


def write(folder: Path) -> pd.DataFrame:
    """Return what the file has after a start in which the trainable provides QUERIES."""
    backend = SimpleNamespace(compute_query_attributes=lambda *_: QUERIES.copy())
    made: Any = SimpleNamespace(
        folder=folder, study_type=SimpleNamespace(trainable=SimpleNamespace(data_backend=backend))
    )
    write_query_attributes(made, made, "scorer")
    return pd.read_parquet(folder / QUERIES_FILE)


def test_an_attribute_of_an_earlier_start_is_kept(tmp_path: Path) -> None:
    (tmp_path / QUERIES_FILE).write_bytes(encode_queries(EARLIER))
    pd.testing.assert_frame_equal(write(tmp_path), EARLIER)


@pytest.mark.parametrize("renamed", ["difficulty/wordr", "difficulty/words"])
def test_a_damaged_table_is_no_earlier_one(tmp_path: Path, renamed: str) -> None:
    path = tmp_path / QUERIES_FILE
    path.write_bytes(encode_queries(EARLIER))
    table = pd.read_parquet(path).rename(columns={"difficulty/words": renamed})
    table.assign(**{renamed: [0.5, 0.75]}).to_parquet(path)
    pd.testing.assert_frame_equal(write(tmp_path), QUERIES)
