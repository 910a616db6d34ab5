"""Runs: what is written is read again, the formats agree, and every mistake is named with its line."""

import gzip
from pathlib import Path
from tempfile import TemporaryDirectory

import ir_measures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.data.files.run_file import Run, read_run, write_run
from trainables.utils.errors import UserError

ids = st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1, max_size=4)
rows = st.lists(st.tuples(ids, ids), min_size=1, max_size=30, unique=True)
numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)


def list_pairs(run: Run) -> list[tuple[str, str]]:
    return [
        (run.queries[query].as_py(), run.documents[document].as_py())
        for query, document in zip(run.query_codes, run.document_codes, strict=True)
    ]


def read(text: str, depth: int | None = None, compress: bool = False) -> list[tuple[str, str]]:
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.run")
        path.write_bytes(gzip.compress(text.encode()) if compress else text.encode())
        return list_pairs(read_run(path, depth))


@given(rows, st.booleans())
def test_every_format_gives_the_pairs_of_the_file(pairs: list[tuple[str, str]], compress: bool) -> None:
    assert read("".join(f"{q}\t{d}\n" for q, d in pairs), None, compress) == pairs
    assert read("".join(f"{q}\t{d}\t{i}\n" for i, (q, d) in enumerate(pairs)), None, compress) == pairs
    assert read("".join(f"{q} Q0 {d} 1 2.5 tag\n" for q, d in pairs), None, compress) == pairs


@given(rows, st.lists(st.integers(-3, 3), min_size=30, max_size=30), st.integers(1, 4))
def test_the_depth_keeps_the_first_of_each_query(pairs: list[tuple[str, str]], scores: list[int], depth: int) -> None:
    numbered = [(q, d, scores[i]) for i, (q, d) in enumerate(pairs)]
    kept = [
        (q, d)
        for i, (q, d, score) in enumerate(numbered)
        if sum(other == q and (-s, j) < (-score, i) for j, (other, _, s) in enumerate(numbered)) < depth
    ]
    assert read("".join(f"{q} Q0 {d} 1 {score} tag\n" for q, d, score in numbered), depth) == kept
    assert read("".join(f"{q}\t{d}\t{-score}\n" for q, d, score in numbered), depth) == kept


@given(rows, st.lists(numbers, min_size=30, max_size=30))
def test_what_is_written_is_read_again_in_its_order(pairs: list[tuple[str, str]], values: list[float]) -> None:
    scores = np.array(values[: len(pairs)], dtype=np.float32)
    given_scores = dict(zip(pairs, scores.tolist(), strict=True))
    with TemporaryDirectory() as folder:
        source, out = Path(folder, "a.run"), Path(folder, "b.run")
        source.write_text("".join(f"{q}\t{d}\n" for q, d in pairs), encoding="utf-8")
        write_run(out, read_run(source), scores, "tag")
        lines = [line.split(" ") for line in out.read_text(encoding="utf-8").splitlines()]
        assert sorted(list_pairs(read_run(out))) == sorted(pairs)
    assert {(q, d): float(np.float32(score)) for q, _, d, _, score, _ in lines} == given_scores
    for query in {q for q, _ in pairs}:
        own = [(-float(score), d, int(rank)) for q, _, d, rank, score, _ in lines if q == query]
        assert [rank for *_, rank in own] == list(range(1, len(own) + 1))
        assert own == sorted(own)


def test_ir_measures_reads_what_is_written(tmp_path: Path) -> None:
    (tmp_path / "a.run").write_text("q1\td1\nq1\td2\nq2\td1\n")
    write_run(tmp_path / "b.run", read_run(tmp_path / "a.run"), np.array([0.1, 0.2, 1e-9], np.float32), "tag")
    scored = [(row.query_id, row.doc_id, row.score) for row in ir_measures.read_trec_run(str(tmp_path / "b.run"))]
    assert scored == [("q1", "d2", 0.2), ("q1", "d1", 0.1), ("q2", "d1", 1e-9)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "an empty file; expected a run"),
        ("q d\nq Q0 d 1 2 t\n", "line 2: fields: 6; expected 'query document'"),
        ("q\n", "line 1: fields: 1; expected 'query document' or"),
        ("q d\n\n", "line 2: fields: 0"),
        ("q Q0 d 1 high t\n", "line 1: score 'high'; expected a finite number"),
        ("q Q0 d 1 nan t\n", "line 1: score 'nan'; expected a finite number"),
        ("q d first\n", "line 1: rank 'first'; expected a finite number"),
        ("q d\np d\nq d\n", "line 3: document d twice for query q; expected each document once for a query"),
    ],
)
def test_a_mistake_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        read(text)
    assert message in str(caught.value)


def test_a_missing_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--run: .* is no file"):
        read_run(tmp_path / "none.run")
