"""Runs and qrels are read as ir_measures does; what is written is read again; mistakes are named with their line."""

import gzip
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.text import trec_files
from trainables.text.trec_files import TrecRun, group_qrels, read_trec_qrels, read_trec_run, write_trec_run
from trainables.utils.errors import UserError

ids = st.text(st.characters(exclude_categories=["Z", "C"], exclude_characters="#"), min_size=1, max_size=4)
rows = st.lists(st.tuples(ids, ids), min_size=1, max_size=30, unique=True)
numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)
gaps = st.sampled_from([" ", "\t", "  ", " \t"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.run"


def list_pairs(run: TrecRun) -> list[tuple[str, str]]:
    return [
        (run.queries[query].as_py(), run.documents[document].as_py())
        for query, document in zip(run.query_codes, run.document_codes, strict=True)
    ]


def write(path: Path, text: str, compress: bool = False) -> Path:
    path.write_bytes(gzip.compress(text.encode()) if compress else text.encode())
    return path


def count_ranks(pairs: list[tuple[str, str]]) -> list[int]:
    return [1 + sum(q == query for q, _ in pairs[:i]) for i, (query, _) in enumerate(pairs)]


@given(st.dictionaries(st.tuples(ids, ids), numbers, min_size=1, max_size=8), gaps, st.sampled_from(["\n", "\n \n"]))
def test_a_run_is_what_ir_measures_reads(path: Path, scores: dict[tuple[str, str], float], gap: str, end: str) -> None:
    """Queries come in any order, also one after another and again."""
    lines = [gap.join([query, "Q0", document, "0", repr(score), "tag"]) for (query, document), score in scores.items()]
    run = read_trec_run(write(path, end.replace("\n", "\r\n").join(lines)))
    found = {query: list(run.get_documents(query).items()) for query in run.rows}
    write(path, end.join(lines))
    oracle: dict[str, list[tuple[str, float]]] = {}
    for row in ir_measures.read_trec_run(path.open(encoding="utf-8")):
        oracle.setdefault(row.query_id, []).append((row.doc_id, row.score))
    assert found == oracle
    assert [*found] == [*oracle]


@given(st.dictionaries(st.tuples(ids, ids), st.integers(-2, 9), min_size=1, max_size=8), gaps)
def test_qrels_are_what_ir_measures_reads(path: Path, grades: dict[tuple[str, str], int], gap: str) -> None:
    lines = [gap.join([query, "0", document, str(grade)]) for (query, document), grade in grades.items()]
    path = write(path.with_suffix(".gz"), "\n".join([*lines, lines[0]]), compress=True)  # a judgement may be repeated
    oracle: dict[str, dict[str, int]] = {}
    for row in ir_measures.read_trec_qrels(str(path)):
        oracle.setdefault(row.query_id, {})[row.doc_id] = row.relevance
    assert group_qrels(read_trec_qrels(path)) == oracle


@pytest.mark.parametrize("size", [32, 1 << 22])
def test_qrels_of_beir_are_those_of_trec_with_the_same_grades(
    path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(trec_files, "_BLOCK_BYTES", size)
    judged = [(f"q{row % 3}", f"d{row}", row % 4) for row in range(12)]
    beir = "\r\n".join(["\ufeffquery-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in judged)])
    found = group_qrels(read_trec_qrels(write(path, beir)))
    assert found == group_qrels(read_trec_qrels(write(path, "\n".join(f"{q} 0 {d} {g}" for q, d, g in judged))))


@given(rows, st.booleans())
def test_every_format_gives_the_pairs_of_the_file(path: Path, pairs: list[tuple[str, str]], compress: bool) -> None:
    ranked = zip(pairs, count_ranks(pairs), strict=True)
    for text in (
        "".join(f"{q}\t{d}\n" for q, d in pairs),
        "".join(f"{q}\t{d}\t{rank}\n" for (q, d), rank in ranked),
        "".join(f"{q} Q0 {d} 1 2.5 tag\n" for q, d in pairs),
    ):
        assert list_pairs(read_trec_run(write(path, text, compress))) == pairs


@given(rows, st.lists(st.integers(-3, 3), min_size=30, max_size=30), st.integers(1, 4))
def test_the_depth_keeps_the_first_of_each_query(
    path: Path, pairs: list[tuple[str, str]], scores: list[int], depth: int
) -> None:
    numbered = [(q, d, scores[i]) for i, (q, d) in enumerate(pairs)]
    ranks = [
        1 + sum(p == q and (-s, j) < (-score, i) for j, (p, _, s) in enumerate(numbered))
        for i, (q, _, score) in enumerate(numbered)
    ]
    kept = [pair for pair, rank in zip(pairs, ranks, strict=True) if rank <= depth]
    scored = "".join(f"{q} Q0 {d} 1 {score} tag\n" for q, d, score in numbered)
    ranked = "".join(f"{q}\t{d}\t{rank}\n" for (q, d), rank in zip(pairs, ranks, strict=True))
    for text in (scored, ranked):
        assert list_pairs(read_trec_run(write(path, text), depth)) == kept


@given(rows, st.lists(numbers, min_size=30, max_size=30))
def test_what_is_written_is_read_again_in_its_order(
    path: Path, pairs: list[tuple[str, str]], values: list[float]
) -> None:
    scores = np.array(values[: len(pairs)], dtype=np.float32)
    write_trec_run(path, read_trec_run(write(path, "".join(f"{q}\t{d}\n" for q, d in pairs))), scores, "tag")
    lines = [line.split(" ") for line in path.read_text(encoding="utf-8").splitlines()]
    assert sorted(list_pairs(read_trec_run(path))) == sorted(pairs)
    found = {(q, d): float(np.float32(score)) for q, _, d, _, score, _ in lines}
    assert found == dict(zip(pairs, scores.tolist(), strict=True))
    for query in {q for q, _ in pairs}:
        own = [(-float(score), d, int(rank)) for q, _, d, rank, score, _ in lines if q == query]
        assert [rank for *_, rank in own] == list(range(1, len(own) + 1))
        assert own == sorted(own)


def test_ir_measures_reads_what_is_written(path: Path) -> None:
    run = read_trec_run(write(path, "q1\td1\nq1\td2\nq2\td1\n"))
    write_trec_run(path, run, np.array([0.1, 0.2, 1e-9], np.float32), "tag")
    scored = [(row.query_id, row.doc_id, row.score) for row in ir_measures.read_trec_run(str(path))]
    assert scored == [("q1", "d2", 0.2), ("q1", "d1", 0.1), ("q2", "d1", 1e-9)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no lines; expected a run: 'query Q0"),
        ("# nothing else", "no lines; expected a run: 'query Q0"),
        ("q d\nq Q0 d 1 2 t\n", "line 2: fields: 6; expected 'query document'"),
        ("q\n", "line 1: fields: 1; expected a run: 'query Q0"),
        ("q Q0 d 1 high t\n", "line 1: score 'high'; expected a finite number"),
        ("q Q0 d 1 nan t\n", "line 1: score 'nan'; expected a finite number"),
        ("q Q0 d 1 1e39 t\n", "line 1: score '1e39'; expected a finite number in single precision"),
        ("q Q0 a d 1 2 t\n", "line 1: fields: 7; expected"),
        ("q Q0 d 1 1_0 t\n", "line 1: score '1_0'; expected a finite number"),
        ("q d first\n", "line 1: rank 'first'; expected ranks from 1, each once in a query"),
        ("q d 85.31\nq e 84.9\n", "line 1: rank '85.31'; expected ranks from 1, each once in a query"),
        ("q d 85\nq e 84\np d 12\n", "a.run: no query with rank 1, so the third column seems to be scores; expected"),
        ("q d 85\n", "a run with scores has 'query Q0 document rank score tag'; without the third column, the order"),
        ("# bm25\nq d 2\n\nq e 1\np d 1\np e 1\n", "line 6: rank 1 twice in query p; expected ranks from 1, each once"),
        ("q d 0\nq e 1\n", "line 1: rank '0'"),
        ("q d\np d\nq d\n", "line 3: document d twice for query q; expected each document once for a query"),
        ("q d\nq \x00\n", "line 2: a control character, b'\\x00'"),
    ],
)
def test_a_mistake_in_a_run_is_named_with_its_line(path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        read_trec_run(write(path, text))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# NIST\nq 0 d1 1 more\n", "line 2: fields: 5; expected TREC qrels: 'query iteration document grade'"),
        ("q 0 d 1.0\n", "line 1: grade '1.0'; expected a whole number"),
        ("q 0 d 1000001\n", "line 1: grade '1000001'; expected a whole number, 1,000,000 at most"),
        ("q d 1\n", "line 1: fields: 3; expected TREC qrels: 'query iteration document grade'"),
        ("query-id\tcorpus-id\tscore\n", "a.run: a header alone; expected lines 'query document grade'"),
        ("query-id\tcorpus-id\tscore\nq\td\tx\n", "line 2: grade 'x'; expected a whole number"),
        ("q 0 d 1\n\nq 0 d 2\n", "line 3: grade 2 of document d for query q, but 1 before"),
    ],
)
def test_a_mistake_in_qrels_is_named_with_its_line(path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        group_qrels(read_trec_qrels(write(path, text)))
    assert message in str(caught.value)


@pytest.mark.parametrize("size", [32, 64])
def test_blocks_do_not_matter(path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    lines = [f"q{row % 3} Q0 d{row} 1 {row}.5 t" for row in range(20)]
    text = "\ufeff" + "\r\n".join(lines)
    whole = read_trec_run(write(path, text))
    monkeypatch.setattr(trec_files, "_BLOCK_BYTES", size)
    parts = read_trec_run(path)
    assert [*whole.rows] == [*parts.rows] == ["q0", "q1", "q2"]
    assert all(whole.get_documents(query) == parts.get_documents(query) for query in whole.rows)
    with pytest.raises(UserError, match="line 22: score 'nan'"):
        read_trec_run(write(path, "\n".join([*lines, "", "q9 Q0 d1 1 nan t"])))


def test_files_are_read_as_trec_eval_10_reads_them(path: Path) -> None:
    """Comments, empty lines and words after the tag are skipped; other blanks and quotes are part of an id."""
    text = "# query d1 1\n\nq\u00a01 Q0 d\u20281 1 2.5 tag more words\n  # q Q0 d2 1 9 tag\nq\u00a01\tQ0\td#2  2 3 #t\n"
    assert list_pairs(read_trec_run(write(path, text))) == [("q\u00a01", "d\u20281"), ("q\u00a01", "d#2")]
    assert list_pairs(read_trec_run(write(path, "# ranks\nq d 2\n\nq e 1\n"), depth=1)) == [("q", "e")]
    run = read_trec_run(write(path, 'NA Q0 "nan 1 2 #t\nq Q0 NULL 1 1e-3 "\n'))
    assert {query: run.get_documents(query) for query in run.rows} == {"NA": {'"nan': 2.0}, "q": {"NULL": 0.001}}
    assert group_qrels(read_trec_qrels(write(path, "# NIST\nq 0 d1 1\n"))) == {"q": {"d1": 1}}


def test_distances_are_said(path: Path) -> None:
    notes = list[str]()
    text = "q Q0 d 1 0.1 t\nq Q0 e 2 0.2 t\np Q0 d 1 0.9 t\np Q0 e 2 0.9 t\nr Q0 d - 1 t\nr Q0 e - 2 t\n"
    read_trec_run(write(path, text), log=notes.append)
    rule = "scores decide, higher is better: negate distances"
    assert notes == [f"{path}: ranks contradict scores in 1 of 3 queries; {rule}"]


def test_ranks_of_a_filtered_run_are_ranks_and_their_gaps_are_said(path: Path) -> None:
    notes = list[str]()
    write(path, "q d9 5\nq d1 1\nq d2 2\np d1 2\nr d1 1\nr d2 2\n")
    pairs = list_pairs(read_trec_run(path, depth=2, log=notes.append))
    assert pairs == [("q", "d1"), ("q", "d2"), ("p", "d1"), ("r", "d1"), ("r", "d2")]
    assert notes == [f"{path}: ranks have gaps in 2 of 3 queries; read as ranks, 1 is best"]
