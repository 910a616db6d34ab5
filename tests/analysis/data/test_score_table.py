"""Anyone's table of scores: what is in it comes out, and what is wrong with it is named in one line."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.data.score_table import build_score_table
from analysis.readers.score_files import read_score_file
from trainables.utils.errors import UserError

SYSTEMS, SEEDS, QUERIES = ("T-WSLS", "BERT", "LS"), (1, 2, 10), ("q10", "q2", "q1", "q3")


def table(**columns: object) -> pd.DataFrame:
    rows = [(a, s, q) for a in SYSTEMS for s in SEEDS for q in QUERIES]
    frame = pd.DataFrame(rows, columns=["system", "seed", "query"])
    frame["value"] = np.arange(len(frame)) / 100
    return frame.assign(**columns)


@given(order=st.permutations(range(36)))
def test_the_order_of_rows_does_not_matter_except_that_of_systems(order: list[int]) -> None:
    frame = table()
    plain, shuffled = build_score_table(frame), build_score_table(frame.iloc[list(order)])
    assert plain.seeds == shuffled.seeds == [1, 2, 10]
    assert plain.queries == shuffled.queries == sorted(QUERIES)
    assert list(plain.values) == list(SYSTEMS)
    for name in SYSTEMS:
        expected = frame[frame["system"] == name].pivot(index="seed", columns="query", values="value").to_numpy()
        np.testing.assert_array_equal(plain.values[name], expected)
        np.testing.assert_array_equal(shuffled.values[name], expected)
    assert plain.describe_missing() == []


def test_scores_of_whole_runs_and_of_one_seed() -> None:
    by_seed = build_score_table(table()[lambda f: f["query"] == "q1"].drop(columns="query"))
    assert by_seed.queries == [None]
    assert by_seed.values["LS"].shape == (3, 1)
    by_query = build_score_table(table()[lambda f: f["seed"] == 1].drop(columns="seed"))
    assert by_query.seeds == [None]
    assert by_query.values["LS"].shape == (1, 4)


def test_a_system_without_seeds_among_others() -> None:
    order = pd.DataFrame({"system": "BM25", "seed": None, "query": QUERIES, "value": 0.5})
    found = build_score_table(pd.concat([table(), order]))
    assert found.values["BM25"].shape == (1, 4)
    assert found.describe_missing() == []


def test_what_is_missing_is_said_and_not_averaged() -> None:
    frame = table()
    lacking = frame[~((frame["system"] == "LS") & (frame["seed"] == 2))]
    lacking = lacking[~((lacking["system"] == "BERT") & (lacking["seed"] == 10) & lacking["query"].isin(["q1", "q3"]))]
    found = build_score_table(lacking)
    assert found.describe_missing() == ["BERT seed 10 lacks 2 queries: q1, q3", "LS lacks seed 2"]
    assert found.get_complete_scores("LS") is None
    assert found.get_complete_scores("BERT") is None
    assert found.get_complete_scores("T-WSLS") is not None


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: f.drop(columns="system"), "s.csv: no column system"),
        (lambda f: f.drop(columns="value"), "s.csv: no column value"),
        (lambda f: f.assign(value=["x", *f["value"][1:]]), "s.csv, data row 1: value 'x'; expected a finite number"),
        (lambda f: f.assign(value=[*f["value"][:-2], None, np.inf]), "data row 35: value nan (and 1 more)"),
        (lambda f: pd.concat([f, f.iloc[[5]]]), "data row 37: system T-WSLS, seed 2, query q2 occurs twice"),
        (
            lambda f: pd.concat([f, f.iloc[[5]]]).assign(seed=lambda g: g["seed"].astype(float), split="test"),
            "system T-WSLS, seed 2, query q2 occurs twice; expected each score once; ignored columns: split",
        ),
        (lambda f: f[f["system"] == "LS"], "one system, 'LS'; expected two systems or more"),
        (lambda f: f.iloc[:0], "no scores; expected two systems or more"),
        (lambda f: f.assign(system=[None, *f["system"][1:]]), "data row 1: no system"),
        (lambda f: f.assign(query=[*f["query"][:-1], None]), "data row 36: no query"),
        (lambda f: f.assign(seed=[None, *f["seed"][1:]]), "T-WSLS with and without seeds"),
    ],
)
def test_every_mistake_is_named(spoil: Callable[[pd.DataFrame], pd.DataFrame], message: str) -> None:
    with pytest.raises(UserError) as caught:
        build_score_table(spoil(table()), "s.csv")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.csv", None, "no such file"),
        ("empty.csv", b"", "expected a CSV or Parquet file"),
        ("bytes.csv", b"\xff\xfe\x00system", "not UTF-8; expected UTF-8 text"),
        ("ragged.csv", b"system,value\na,1,2,3\nb\n", "expected"),
        ("text.parquet", b"system,value\n", "expected a CSV or Parquet file"),
    ],
)
def test_files_that_are_none(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        build_score_table(read_score_file(tmp_path / name), name)
    assert "\n" not in str(caught.value)
