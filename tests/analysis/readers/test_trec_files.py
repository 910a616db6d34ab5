"""Runs and qrels are read as ir_measures reads them, whatever their blanks, ends of lines and compression."""

import gzip
from pathlib import Path

import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.readers import trec_files
from analysis.readers.trec_files import read_trec_qrels, read_trec_run
from trainables.utils.errors import UserError

IDS = st.text(
    st.characters(codec="utf-8", exclude_categories=("C", "Z"), exclude_characters="#"), min_size=1, max_size=4
)
SCORES = st.floats(width=32, allow_nan=False, allow_infinity=False)
GAPS = st.sampled_from([" ", "\t", "  ", " \t"])


@given(
    st.dictionaries(st.tuples(IDS, IDS), SCORES, min_size=1, max_size=8), GAPS, st.sampled_from(["\n", "\r\n", "\n \n"])
)
def test_a_run_is_what_ir_measures_reads(
    tmp_path_factory: pytest.TempPathFactory, scores: dict[tuple[str, str], float], gap: str, end: str
) -> None:
    """Queries come in any order, also one after another and again."""
    lines = [gap.join([query, "Q0", document, "0", repr(score), "tag"]) for (query, document), score in scores.items()]
    path = tmp_path_factory.mktemp("runs") / "a.run"
    path.write_bytes(end.join(lines).encode())
    ranking = read_trec_run(path)
    expected: dict[str, dict[str, float]] = {}
    for (query, document), score in scores.items():
        expected.setdefault(query, {})[document] = score
    found = {query: ranking.get_documents(query) for query in ranking.bounds}
    assert found == expected
    assert [*map(list, found.values())] == [*map(list, expected.values())]  # also the order of the documents
    oracle: dict[str, dict[str, float]] = {}
    for row in ir_measures.read_trec_run(path.open(encoding="utf-8")):  # type: ignore[arg-type]
        oracle.setdefault(row.query_id, {})[row.doc_id] = row.score
    assert found == oracle


@given(st.dictionaries(st.tuples(IDS, IDS), st.integers(-2, 9), min_size=1, max_size=8), GAPS)
def test_qrels_are_what_ir_measures_reads(
    tmp_path_factory: pytest.TempPathFactory, grades: dict[tuple[str, str], int], gap: str
) -> None:
    path = tmp_path_factory.mktemp("qrels") / "q.gz"
    lines = [gap.join([query, "0", document, str(grade)]) for (query, document), grade in grades.items()]
    path.write_bytes(gzip.compress("\n".join([*lines, lines[0]]).encode()))  # a judgement may be repeated
    oracle: dict[str, dict[str, int]] = {}
    for row in ir_measures.read_trec_qrels(str(path)):
        oracle.setdefault(row.query_id, {})[row.doc_id] = row.relevance
    assert read_trec_qrels(path) == oracle


@pytest.mark.parametrize("size", [1, 7, 64])
def test_blocks_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    lines = [f"q{row % 3} Q0 d{row} 1 {row}.5 t" for row in range(20)]
    (tmp_path / "a.run").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    whole = read_trec_run(tmp_path / "a.run")
    monkeypatch.setattr(trec_files, "_BLOCK", max(size, 32))
    parts = read_trec_run(tmp_path / "a.run")
    assert whole.bounds == parts.bounds
    assert [*whole.bounds] == ["q0", "q1", "q2"]
    assert all(whole.get_documents(query) == parts.get_documents(query) for query in whole.bounds)
    (tmp_path / "a.run").write_text("\n".join([*lines, "", "q9 Q0 d1 1 nan t"]))
    with pytest.raises(UserError, match="line 22: score nan"):
        read_trec_run(tmp_path / "a.run")


def test_a_blank_that_trec_eval_does_not_know_is_part_of_an_id(tmp_path: Path) -> None:
    (tmp_path / "a.run").write_text("q\u00a01 Q0 d\u20281 1 2 t\n", encoding="utf-8")
    assert read_trec_run(tmp_path / "a.run").get_documents("q\u00a01") == {"d\u20281": 2.0}


def test_missing_values_and_quotes_are_plain_text(tmp_path: Path) -> None:
    (tmp_path / "a.run").write_text('NA Q0 "nan 1 2 #t\nq Q0 NULL 1 1e-3 "\n')
    ranking = read_trec_run(tmp_path / "a.run")
    assert {query: ranking.get_documents(query) for query in ranking.bounds} == {
        "NA": {'"nan': 2.0},
        "q": {"NULL": 0.001},
    }


def test_comments_and_words_after_the_tag_are_skipped_as_in_trec_eval_10(tmp_path: Path) -> None:
    lines = ["# bm25", "q Q0 d#1 1 2 t k1 = .9", " # q Q0 d9 1 2 t", "q Q0 d2 2 3 #t"]
    (tmp_path / "a.run").write_text("\n".join(lines))
    ranking = read_trec_run(tmp_path / "a.run")
    assert ranking.get_documents("q") == {"d#1": 2.0, "d2": 3.0}
    assert ranking.contradictions == 1
    (tmp_path / "qrels").write_text("# NIST\nq 0 d1 1\n")
    assert read_trec_qrels(tmp_path / "qrels") == {"q": {"d1": 1}}
    (tmp_path / "qrels").write_text("# NIST\nq 0 d1 1 more\n")
    with pytest.raises(UserError, match="line 2: 5 columns"):
        read_trec_qrels(tmp_path / "qrels")
    for text in ("# nothing else", "q Q0 d 1 1_0 t"):
        (tmp_path / "a.run").write_text(text)
        with pytest.raises(UserError, match=r"no lines|line 1: score 1_0; expected a finite number"):
            read_trec_run(tmp_path / "a.run")
