"""Frames of PyTerrier's experiments, and models by tasks, are tables of scores."""

import os
from pathlib import Path

import pandas as pd
import pytest

from analysis.data.score_table import build_score_table
from analysis.readers.score_files import read_score_file
from trainables.utils.errors import UserError

ROWS = [
    (name, query, measure, value + 0.1 * (measure == "AP") + 0.01 * int(query))
    for name, value in (("BM25", 0.25), ("BERT", 0.5))
    for query in ("10", "9")
    for measure in ("nDCG@10", "AP")
]
PERQUERY = pd.DataFrame(ROWS, columns=["name", "qid", "measure", "value"])
"""As `pt.Experiment(..., perquery=True)` returns it."""


def write(frame: pd.DataFrame, path: Path, index: bool = False) -> Path:
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=index)
    return path


@pytest.mark.parametrize("name", ["p.csv", "p.parquet"])
@pytest.mark.parametrize("metric", ["nDCG@10", "AP"])
def test_an_experiment_of_pyterrier_is_a_table(tmp_path: Path, name: str, metric: str) -> None:
    table = build_score_table(read_score_file(write(PERQUERY, tmp_path / name, index=True), metric))
    one = PERQUERY[PERQUERY["measure"] == metric].drop(columns="measure")
    expected = build_score_table(one.rename(columns={"name": "system", "qid": "query"}))
    assert (table.seeds, table.queries, [*table.values]) == ([None], ["10", "9"], ["BM25", "BERT"])
    assert {key: own.tolist() for key, own in table.values.items()} == {
        key: own.tolist() for key, own in expected.values.items()
    }


@pytest.mark.parametrize(
    "text",
    [
        "task_name,one,two\nT1,.5,.6\nT2,,.7\n",
        "model,T1,T2\none,.5,\ntwo,.6,.7\n",
        "model_name,task_name,score\none,T1,.5\ntwo,T1,.6\ntwo,T2,.7\n",
    ],
)
def test_a_table_of_models_by_tasks_has_tasks_as_queries(tmp_path: Path, text: str) -> None:
    file = tmp_path / "table.csv"
    file.write_text(text)
    frame = read_score_file(file)
    found = {(row.system, row.query): row.value for row in frame.itertuples()}
    assert found == {("one", "T1"): 0.5, ("two", "T1"): 0.6, ("two", "T2"): 0.7}


def test_seeds_of_models_by_tasks_are_kept_and_texts_are_named(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text("system,seed,T1,T2\none,1,.5,.4\none,2,.6,.3\n")
    frame = read_score_file(file)
    assert {(row.seed, row.query): row.value for row in frame.itertuples()}[2, "T2"] == 0.3
    file.write_text("model,T1,licence\none,.5,free\n")
    with pytest.raises(UserError, match=r"the column licence, which has texts; expected a column value, or a table"):
        read_score_file(file)


@pytest.mark.parametrize("form", ["tabs", "semicolons", "index"])
def test_other_separators_and_an_index_of_pandas_do_not_matter(tmp_path: Path, form: str) -> None:
    frame = PERQUERY[PERQUERY["measure"] == "AP"].rename(columns={"name": "system", "qid": "query"})
    frame = frame[["system", "query", "value"]].reset_index(drop=True)
    path = tmp_path / ("p.parquet" if form == "index" else "p.csv")
    if form == "index":
        frame.set_index(["system", "query"]).to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep={"tabs": "\t", "semicolons": ";"}[form])
    pd.testing.assert_frame_equal(read_score_file(path).astype({"system": str, "query": str}), frame)


def test_a_row_with_more_fields_than_the_header_shifts_no_column(tmp_path: Path) -> None:
    path, header = tmp_path / "p.csv", "system,seed,query,value\n"
    for rows, fault in (
        ("A,1,q1,0.5,0.6\nA,1,q2,0.5,0.6\n", "p.csv: rows with more fields than the header; expected a name for every"),
        ("A,1,q1,0.5\nA,1,q2,0.5,0.6\n", "p.csv: .*Expected 4 fields in line 3, saw 5"),
    ):
        path.write_text(header + rows)
        with pytest.raises(UserError, match=fault):
            read_score_file(path)
    path.write_text(header + "A,1,q1,0.5,\nA,1,q2,0.25,\n")
    assert read_score_file(path).to_dict("list") == {
        "system": ["A", "A"], "seed": [1, 1], "query": ["q1", "q2"], "value": [0.5, 0.25],
    }  # fmt: skip


def test_a_decimal_comma_is_named(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("system;query;value\nA;1;0,5\nB;1;0,25\n")
    with pytest.raises(UserError, match=r"value '0,5'.*; write decimal numbers with a point"):
        build_score_table(read_score_file(tmp_path / "p.csv"))


def test_a_pipe_and_a_file_in_another_encoding_are_named_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "latin.csv").write_bytes("system,query,value\ncafé,1,0.5\n".encode("latin-1"))
    for name, message in (("pipe.csv", "a pipe; expected .*, in a file"), ("latin.csv", "not UTF-8; expected .*iconv")):
        with pytest.raises(UserError, match=message):
            read_score_file(tmp_path / name)


def test_one_measure_needs_no_metric(tmp_path: Path) -> None:
    one = PERQUERY[PERQUERY["measure"] == "AP"]
    frames = [read_score_file(write(one, tmp_path / "p.csv"), metric) for metric in (None, "AP")]
    pd.testing.assert_frame_equal(*frames)
    assert len(frames[0]) == len(one)


@pytest.mark.parametrize(
    ("frame", "metric", "message"),
    [
        (PERQUERY, None, r"2 measures, nDCG@10, AP; expected one of them, named by --metric"),
        (PERQUERY, "map", r"--metric: map; expected a measure of .*p.csv: nDCG@10, AP"),
        (PERQUERY.drop(columns="measure"), "AP", r"--metric: AP; expected a column measure"),
    ],
)
def test_what_is_no_such_table_is_an_error(
    tmp_path: Path, frame: pd.DataFrame, metric: str | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        read_score_file(write(frame, tmp_path / "p.csv"), metric)
