"""Queries and documents: every source gives the same texts, and every mistake is named with its line."""

import gzip
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import ir_datasets
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.reranking.texts import Kind, open_texts
from trainables.utils.errors import UserError

words = st.text(st.characters(exclude_categories=["C", "Z"]), max_size=5)
texts = st.dictionaries(words.filter(bool), words, max_size=8)


def read(source: str, kind: Kind = "documents") -> dict[str, str]:
    return {text.id: text.text for text in open_texts(source, kind).read()}


@given(texts, st.booleans())
def test_tables_json_lines_and_beir_folders_give_the_same_texts(given_texts: dict[str, str], compress: bool) -> None:
    end = ".gz" if compress else ""
    with TemporaryDirectory() as folder:
        table = "".join(f"{identity}\t{text}\n" for identity, text in given_texts.items())
        for key, name in (("_id", "corpus.jsonl"), ("id", "other.jsonl")):
            lines = "".join(json.dumps({key: identity, "text": text}) + "\n" for identity, text in given_texts.items())
            content = lines.encode()
            Path(folder, name + end).write_bytes(gzip.compress(content) if compress else content)
        Path(folder, f"a.tsv{end}").write_bytes(gzip.compress(table.encode()) if compress else table.encode())
        for source in (f"{folder}/a.tsv{end}", f"{folder}/other.jsonl{end}", f"{folder}/corpus.jsonl{end}", folder):
            assert read(source) == given_texts


def test_a_title_is_put_before_the_text(tmp_path: Path) -> None:
    rows = [{"_id": "a", "title": "T", "text": "x"}, {"_id": "b", "title": "", "text": "y"}]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert read(str(tmp_path)) == {"a": "T x", "b": "y"}


def test_a_dataset_of_ir_datasets_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "docs.tsv").write_text("d1\tone\nd2\ttwo\n")
    (tmp_path / "queries.tsv").write_text("q1\twhich\n")
    own = ir_datasets.create_dataset(docs_tsv=str(tmp_path / "docs.tsv"), queries_tsv=str(tmp_path / "queries.tsv"))
    ir_datasets.registry.register("own-reranking", own)
    assert read("irds:own-reranking") == {"d1": "one", "d2": "two"}
    assert read("irds:own-reranking", "queries") == {"q1": "which"}
    with pytest.raises(UserError, match="--documents: ir_datasets has no 'nothing-here'"):
        read("irds:nothing-here")
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    with pytest.raises(UserError, match=r"--documents: .* not installed"):
        read("irds:own-reranking")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "d1\tone\nd2 two\n", "line 2: fields: 1; expected 2, separated by a tab: id, text"),
        ("a.tsv", "\tone\n", "line 1: an empty id"),
        ("a.jsonl", '{"_id": "a"}\n', "line 1: no text; expected text under that name"),
        ("a.jsonl", '{"_id": 1, "text": ""}\n', "line 1: _id is 1; expected text in quotation marks"),
        ("a.jsonl", "d1\tone\n", "line 1: not JSON"),
        ("a.jsonl", '{"text": "x"}\n', "line 1: no _id"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError) as caught:
        read(str(tmp_path / name))
    assert message in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--queries: .*none\.tsv does not exist; expected a TSV"):
        read(str(tmp_path / "none.tsv"), "queries")
    with pytest.raises(UserError, match=r"--queries: .* has no queries\.jsonl"):
        read(str(tmp_path), "queries")
