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

ids = st.text(st.characters(exclude_categories=["Z", "C"], exclude_characters="#"), min_size=1, max_size=4)
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


def count_ranks(pairs: list[tuple[str, str]]) -> list[int]:
    return [1 + sum(q == query for q, _ in pairs[:i]) for i, (query, _) in enumerate(pairs)]


@given(rows, st.booleans())
def test_every_format_gives_the_pairs_of_the_file(pairs: list[tuple[str, str]], compress: bool) -> None:
    assert read("".join(f"{q}\t{d}\n" for q, d in pairs), None, compress) == pairs
    assert (
        read(
            "".join(f"{q}\t{d}\t{rank}\n" for (q, d), rank in zip(pairs, count_ranks(pairs), strict=True)),
            None,
            compress,
        )
        == pairs
    )
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
    ranks = [
        1 + sum(p == q and (-s, j) < (-score, i) for j, (p, _, s) in enumerate(numbered))
        for i, (q, _, score) in enumerate(numbered)
    ]
    assert read("".join(f"{q}\t{d}\t{rank}\n" for (q, d), rank in zip(pairs, ranks, strict=True)), depth) == kept


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
        ("q Q0 d 1 high t\n", "line 1: score 'high'; expected a finite number"),
        ("q Q0 d 1 nan t\n", "line 1: score 'nan'; expected a finite number"),
        ("q Q0 a d 1 2 t\n", "line 1: fields: 7; expected"),
        ("q Q0 d 1 1_0 t\n", "line 1: score '1_0'; expected a finite number"),
        ("q d first\n", "line 1: rank 'first'; expected ranks from 1, each once in a query"),
        ("q d 85.31\nq e 84.9\n", "line 1: rank '85.31'; expected ranks from 1, each once in a query"),
        ("q d 85\nq e 84\np d 12\n", "a.run: no query with rank 1, so the third column seems to be scores; expected"),
        ("q d 85\n", "a run with scores has 'query Q0 document rank score tag'; without the third column, the order"),
        ("# bm25\nq d 2\n\nq e 1\np d 1\np e 1\n", "line 6: rank 1 twice in query p; expected ranks from 1, each once"),
        ("q d 0\nq e 1\n", "line 1: rank '0'"),
        ("q d\np d\nq d\n", "line 3: document d twice for query q; expected each document once for a query"),
    ],
)
def test_a_mistake_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        read(text)
    assert message in str(caught.value)


def test_a_run_is_read_as_trec_eval_10_reads_it() -> None:
    """Comments, empty lines and words after the tag are skipped; a no-break space is part of an id."""
    text = "# query d1 1\n\nq\u00a01 Q0 d1 1 2.5 tag more words\n  # q Q0 d2 1 9 tag\nq\u00a01\tQ0\td#2  2 3 tag\n"
    assert read(text) == [("q\u00a01", "d1"), ("q\u00a01", "d#2")]
    assert read("# ranks\nq d 2\n\nq e 1\n", depth=1) == [("q", "e")]


def test_distances_are_said(tmp_path: Path) -> None:
    path, notes = tmp_path / "knn.run", list[str]()
    path.write_text("q Q0 d 1 0.1 t\nq Q0 e 2 0.2 t\np Q0 d 1 0.9 t\np Q0 e 2 0.9 t\nr Q0 d - 1 t\nr Q0 e - 2 t\n")
    read_run(path, log=notes.append)
    assert notes == [
        f"{path}: ranks contradict scores in 1 of 3 queries; scores decide, higher is better: negate distances"
    ]


def test_ranks_of_a_filtered_run_are_ranks_and_their_gaps_are_said(tmp_path: Path) -> None:
    path, notes = tmp_path / "judged.run", list[str]()
    path.write_text("q d9 5\nq d1 1\nq d2 2\np d1 2\nr d1 1\nr d2 2\n")
    run = read_run(path, depth=2, log=notes.append)
    assert list_pairs(run) == [("q", "d1"), ("q", "d2"), ("p", "d1"), ("r", "d1"), ("r", "d2")]
    assert notes == [f"{path}: ranks have gaps in 2 of 3 queries; read as ranks, 1 is best"]


def test_a_missing_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--run: .* is no file"):
        read_run(tmp_path / "none.run")
