"""Token ids of sentences are what the tokenizer makes of each, and pairs find their rows."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from tests.sts import sentence, write_settings
from tests.trainables.small import write_word_tokenizer
from trainables.data.sentence_dataset import SentenceDataset, prepare_data
from trainables.data.sentence_tokens import SentenceTokens, tokenize_sentences
from trainables.utils.errors import UserError

SPLITS = ("dev", "test")
LONGEST = 64
"""Tokens that the model takes."""


@pytest.fixture(scope="module")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Words of the tiny evaluation alone, between <s> and </s>."""
    place = tmp_path_factory.mktemp("roberta")
    write_word_tokenizer(place, sorted({word for i in range(512) for word in sentence(i).split()}))
    return AutoTokenizer.from_pretrained(place)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> SentenceDataset:
    place = tmp_path_factory.mktemp("sentences")
    return prepare_data(write_settings(place), place / "cache")


def make(prepared: SentenceDataset, tokenizer: Any, max_length: int, cache: Path) -> SentenceTokens:
    return tokenize_sentences(prepared, tokenizer, "sha256:0", max_length, LONGEST, cache)


def check(made: SentenceTokens, prepared: SentenceDataset, tokenizer: Any, max_length: int) -> None:
    """Against the tokenizer, one text after the other."""
    texts = dict(enumerate(prepared.read_sentences()))
    for split in SPLITS:
        table = prepared.read_pairs(split)
        for rows, name in zip(made.get_pairs(split).tolist(), ("first", "second"), strict=True):
            texts.update(zip(rows, table[name], strict=True))
    assert sorted(texts) == list(range(len(made)))
    for part in (range(made.n_training), range(made.n_training, len(made))):
        assert len({texts[row] for row in part}) == len(part)  # every text once
    cut = 0
    for row, text in texts.items():
        whole, most = tokenizer(text, truncation=False)["input_ids"], max_length if row < made.n_training else LONGEST
        assert made.get_ids(row).tolist() == tokenizer(text, truncation=True, max_length=most)["input_ids"]
        assert made.lengths[row] == len(made.get_ids(row)) <= most
        cut += len(whole) > most
    assert made.n_truncated == cut


@pytest.mark.parametrize(("name", "max_length"), [("tokenizer", 3), ("roberta", 8), ("tokenizer", 11), ("roberta", 32)])
def test_every_sentence_is_what_the_tokenizer_makes_of_it(
    prepared: SentenceDataset, name: str, max_length: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    tokenizer = request.getfixturevalue(name)
    made = make(prepared, tokenizer, max_length, tmp_path)
    check(made, prepared, tokenizer, max_length)
    assert made.n_training == len(prepared.read_sentences())
    assert len(make(prepared, tokenizer, max_length, tmp_path)) == len(made)


def test_a_sentence_that_is_cut_in_training_is_whole_where_it_is_evaluated(
    prepared: SentenceDataset, roberta: Any, tmp_path: Path
) -> None:
    made = make(prepared, roberta, 5, tmp_path)
    rows = {text: row for row, text in enumerate(prepared.read_sentences())}
    both = [
        (found, rows[text])
        for found, text in zip(made.get_pairs("test")[0], prepared.read_pairs("test")["first"], strict=True)
        if text in rows
    ]
    assert both
    assert all(made.lengths[found] > made.lengths[row] == 5 for found, row in both)


@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1), min_size=1, max_size=8))
@settings(max_examples=20)
def test_any_text_is_what_the_tokenizer_makes_of_it(
    tokenizer: Any, tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    place = tmp_path_factory.mktemp("texts")
    task = write_settings(place, sets=("SICK-R",))
    Path(str(task.path)).write_text("\n".join([*texts, "one"]) + "\n", encoding="utf-8")
    prepared = prepare_data(task, place / "cache")
    check(make(prepared, tokenizer, 6, place / "cache"), prepared, tokenizer, 6)


def test_tokens_are_mapped_and_made_once(
    prepared: SentenceDataset, tokenizer: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        first = make(prepared, tokenizer, 8, tmp_path)
    assert "longer than" not in caplog.text
    again = make(prepared, None, 8, tmp_path)  # no tokenizer is asked
    assert isinstance(again.flat, np.memmap)
    assert (first.flat.dtype, first.offsets.dtype, first.pairs.dtype) == (np.int32, np.int64, np.int64)
    np.testing.assert_array_equal(first.flat, again.flat)
    make(prepared, tokenizer, 9, tmp_path)
    tokenize_sentences(prepared, tokenizer, "sha256:1", 8, 512, tmp_path)
    assert len(list((tmp_path / "tokens").iterdir())) == 3


def test_the_size_of_a_part_changes_nothing(
    prepared: SentenceDataset, roberta: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = make(prepared, roberta, 8, tmp_path / "whole")
    monkeypatch.setattr("trainables.text.tokens._BLOCK_SIZE", 7)
    parts = make(prepared, roberta, 8, tmp_path / "parts")
    np.testing.assert_array_equal(whole.flat, parts.flat)
    np.testing.assert_array_equal(whole.offsets, parts.offsets)
    assert whole.n_truncated == parts.n_truncated


def test_a_slow_tokenizer_is_an_error(prepared: SentenceDataset, tmp_path: Path) -> None:
    class Slow:
        is_fast = False

    with pytest.raises(UserError, match=r"model\.name: Slow; expected a model with a fast tokenizer"):
        make(prepared, Slow(), 32, tmp_path)
    assert not (tmp_path / "tokens").exists()
