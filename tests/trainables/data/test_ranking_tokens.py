import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainables.data.library import tiny_settings, write_library
from trainables.data.ranking_dataset import RankingDataset
from trainables.data.ranking_preparation import prepare_data
from trainables.data.ranking_tokens import PairTokens, tokenize_pairs
from trainables.data.tasks import SPLITS, get_task
from trainables.exchange.input_rules import InputRules
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.text.tokens import get_special_tokens


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RankingDataset]:
    folder = tmp_path_factory.mktemp("tokens")
    module = write_library(folder / "site")
    long = "A very long summary of words, " + "more " * 20 + "and\n    more.\n\n    " + "tail " * 2000
    module.write_text(module.read_text() + f'\ndef long():\n    """{long}"""\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder / "site")
        yield prepare_data(tiny_settings(document_words=2000), folder / "cache")


def make(prepared: RankingDataset, tokenizer: Any, max_length: int) -> PairTokens:
    return tokenize_pairs(prepared, tokenizer, "sha256:0", max_length, prepared.folder.parents[1])


def test_untruncated_rows_are_what_the_tokenizer_makes_of_a_pair(prepared: RankingDataset, tokenizer: Any) -> None:
    made = make(prepared, tokenizer, 512)
    query = prepared.read_queries().set_index("query_id")["text"]
    document = prepared.read_documents().set_index("document_id")["text"]
    table = prepared.read_candidates()
    assert len(made) == len(table)
    checked = 0
    for row, (query_id, document_id) in enumerate(zip(table["query_id"], table["document_id"], strict=True)):
        if document_id.endswith("long"):
            continue
        ids, start = made.get_ids(row), made.starts[row]
        expected = tokenizer(query[query_id], document[document_id])
        assert ids.tolist() == expected["input_ids"]
        assert (np.arange(len(ids)) >= start).astype(int).tolist() == expected["token_type_ids"]
        checked += 1
    assert checked > 100
    assert made.specials == (1, 1, 1)


@pytest.mark.parametrize("max_length", [8, 33])
def test_the_query_is_cut_to_what_is_left_or_a_third_and_the_document_to_the_rest(
    prepared: RankingDataset, tokenizer: Any, max_length: int
) -> None:
    made = make(prepared, tokenizer, max_length)
    query = prepared.read_queries().set_index("query_id")["text"]
    document = prepared.read_documents().set_index("document_id")["text"]
    table = prepared.read_candidates()
    for row, (query_id, document_id) in enumerate(zip(table["query_id"], table["document_id"], strict=True)):
        body = tokenizer(document[document_id], add_special_tokens=False)["input_ids"]
        room = max(max_length // 3, max_length - 3 - len(body))
        head = tokenizer(query[query_id], add_special_tokens=False)["input_ids"][:room]
        body = body[: max_length - 3 - len(head)]
        ids, start = made.get_ids(row), made.starts[row]
        assert ids.tolist() == [101, *head, 102, *body, 102]
        assert start == len(head) + 2
    assert made.lengths.max() == max_length


def test_only_the_model_reads_documents_cut_after_document_words(
    prepared: RankingDataset, tokenizer: Any, tmp_path: Path
) -> None:
    """Samplers search whole documents, so the prepared data are the same for every value."""
    cut = prepare_data(tiny_settings(document_words=3), tmp_path / "cut")
    assert cut.fingerprint == prepared.fingerprint
    for read in (RankingDataset.read_candidates, RankingDataset.read_documents):
        pd.testing.assert_frame_equal(read(cut), read(prepared))
    assert prepare_data(tiny_settings(document_words=3), prepared.folder.parents[1]).folder == prepared.folder
    document = cut.read_documents().set_index("document_id")["text"]
    whole, made = (make(replace(prepared, settings=data.settings), tokenizer, 512) for data in (prepared, cut))
    assert len(made.flat) < len(whole.flat)
    for row, name in enumerate(cut.read_candidates()["document_id"]):
        ids, start = made.get_ids(row), made.starts[row]
        first = " ".join(document[name].split()[:3])
        assert ids[start:-1].tolist() == tokenizer(first, add_special_tokens=False)["input_ids"]


def test_tokens_are_mapped_and_made_once(
    prepared: RankingDataset, tokenizer: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def tokenize(maker: Any, max_length: int = 32, name: str = "sha256:0") -> PairTokens:
        return tokenize_pairs(prepared, maker, name, max_length, tmp_path)

    with caplog.at_level(logging.WARNING):
        first = tokenize(tokenizer)
    assert "longer than" not in caplog.text
    again = tokenize(None)  # no tokenizer is asked
    assert isinstance(again.flat, np.memmap)
    assert first.flat.dtype == np.int32
    assert first.offsets.dtype == np.int64
    np.testing.assert_array_equal(first.flat, again.flat)
    tokenize(tokenizer, 33)
    tokenize(tokenizer, name="sha256:1")
    assert len(list((tmp_path / "tokens").iterdir())) == 3


@pytest.mark.parametrize("at_once", [1, 12])
def test_the_files_are_the_same_however_many_pairs_are_joined_at_once(
    prepared: RankingDataset, tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """They are those of `np.save`."""
    whole = make(prepared, tokenizer, 32)
    monkeypatch.setattr("trainables.data.ranking_tokens._PAIRS_PER_BLOCK", at_once)
    parts = tokenize_pairs(prepared, tokenizer, "sha256:0", 32, tmp_path / "parts")
    np.testing.assert_array_equal(parts.flat, whole.flat)
    np.save(tmp_path / "saved.npy", np.array(whole.flat))
    (file,) = (tmp_path / "parts").rglob("ids.npy")
    assert file.read_bytes() == (tmp_path / "saved.npy").read_bytes()


def test_special_tokens_of_roberta_are_doubled_between() -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    engine = Tokenizer(models.WordLevel({"<s>": 0, "</s>": 2, "<unk>": 3, "a": 4, "b": 5}, unk_token="<unk>"))
    engine.pre_tokenizer = pre_tokenizers.Whitespace()
    engine.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    tokenizer: Any = PreTrainedTokenizerFast(tokenizer_object=engine)
    before, between, after = get_special_tokens(tokenizer, 2)
    assert (before.tolist(), between.tolist(), after.tolist()) == ([0], [2, 2], [2])


def test_a_long_response_keeps_what_a_short_context_leaves(tmp_path: Path, tokenizer: Any) -> None:
    response = "word " * 40
    for split in SPLITS:
        lines = [f"1\tshort {i}\tanswer {i} {response}" for i in range(5)]
        (tmp_path / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    prepared = prepare_data(RankerTaskSettings(name="dialogues", path=str(tmp_path), candidates=3), tmp_path / "cache")
    made = make(prepared, tokenizer, 48)
    assert (made.lengths == 48).all()
    assert made.n_truncated == len(made)
    assert make(prepared, tokenizer, 128).n_truncated == 0


@pytest.mark.parametrize("truncation", ["oldest", "plain"])
def test_a_long_context_loses_its_beginning_or_plainly_its_end(tmp_path: Path, tokenizer: Any, truncation: str) -> None:
    from trainables.models.pretrained import load_tokenizer as with_tokens

    for split in SPLITS:
        lines = [
            f"1\tfirst {split} {i} words\t{'middle ' * i}\tlast question {i}\tthe answer is {i}" for i in range(20)
        ]
        (tmp_path / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    settings = RankerTaskSettings(name="dialogues", path=str(tmp_path), candidates=3, truncation=truncation)
    prepared = prepare_data(settings, tmp_path / "cache")
    knows = with_tokens(Path(tokenizer.name_or_path), get_task("dialogues").added_tokens)
    made = make(prepared, knows, 24)
    query = prepared.read_queries().set_index("query_id")["text"]
    document = prepared.read_documents().set_index("document_id")["text"]
    table, cut = prepared.read_candidates(), 0
    for row, (query_id, document_id) in enumerate(zip(table["query_id"], table["document_id"], strict=True)):
        context = knows(query[query_id], add_special_tokens=False, truncation=False)["input_ids"]
        body = knows(document[document_id], add_special_tokens=False)["input_ids"][:8]
        room = 24 - 3 - len(body)
        kept = context[-room:] if truncation == "oldest" else context[:room]
        ids, start = made.get_ids(row), made.starts[row]
        assert ids.tolist() == [101, *kept, 102, *body, 102]
        assert start == len(kept) + 2
        cut += len(context) > room
    assert 0 < cut < len(table)
    assert made.n_truncated == cut
    assert len(tokenizer) in made.flat  # [UTTERANCE_SEP] is one token, behind the model's own


@given(st.integers(0, 60), st.integers(0, 60), st.integers(2, 60))
def test_longest_first_is_the_strategy_of_slow_tokenizers(n_query: int, n_document: int, room: int) -> None:
    """Those of the authors: the query keeps the odd token."""
    from transformers import PreTrainedTokenizer

    *expected, _ = PreTrainedTokenizer.truncate_sequences(
        SimpleNamespace(truncation_side="right"), [0] * n_query, [1] * n_document, n_query + n_document - room
    )
    rules = InputRules(truncation="longest_first")
    kept = rules.cut_pairs(np.array([n_query]), np.array([n_document]), room, third=0)
    assert [side.item() for side in kept] == [*map(len, expected)]


@pytest.mark.parametrize("separators", [True, False])
def test_a_pair_loses_a_token_of_its_longer_side_at_a_time(
    tmp_path: Path, tokenizer: Any, caplog: pytest.LogCaptureFixture, separators: bool
) -> None:
    """Contexts and responses of up to 700 words: more than the tokenizer's own limit."""
    draw, folder = np.random.default_rng(1), tmp_path / "dialogues"
    folder.mkdir()
    for split in SPLITS:
        lines = []
        for number in range(20):
            texts = [" ".join(draw.choice(["word", "other", "third"], draw.integers(1, 700))) for _ in range(3)]
            lines.append("\t".join(["1", f"{split} {number} {texts[0]}", *texts[1:]]))
        (folder / f"{split}.tsv").write_text("\n".join(lines), encoding="utf-8")
    settings = RankerTaskSettings(name="dialogues", path=str(folder), truncation="longest_first", separators=separators)
    prepared, task = prepare_data(settings, tmp_path / "cache"), get_task("dialogues")
    added = task.list_added_tokens(settings)
    assert bool(added) == separators
    from trainables.models.pretrained import load_tokenizer as with_tokens

    tokenizer = with_tokens(Path(tokenizer.name_or_path), added)
    with caplog.at_level(logging.WARNING):
        made = make(prepared, tokenizer, 128)
    assert "longer than" not in caplog.text
    queries = prepared.read_queries().set_index("query_id")["text"]
    documents = prepared.read_documents().set_index("document_id")["text"]
    table = prepared.read_candidates()
    for row, (query_id, document_id) in enumerate(zip(table["query_id"], table["document_id"], strict=True)):
        query = queries[query_id] if separators else " ".join(task.split_utterances(queries[query_id]))
        assert ("_SEP]" in query) == separators
        ids = made.get_ids(row)
        head, body = (
            tokenizer(text, add_special_tokens=False)["input_ids"] for text in (query, documents[document_id])
        )
        while len(head) + len(body) > 125:
            (head if len(head) > len(body) else body).pop()
        assert ids.tolist() == [101, *head, 102, *body, 102]
