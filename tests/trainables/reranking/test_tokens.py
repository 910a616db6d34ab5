"""Tokens of pairs: what the tokenizer gives for the two texts together, cut by its own rule."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainables.models.architectures import write_model
from tests.trainables.small import write_roberta
from trainables.data.ranking_tokens import truncate_longest_first
from trainables.models.tokenizer import load_tokenizer
from trainables.reranking.texts import Text, TextSource
from trainables.reranking.tokens import cut_longest_first, join_pairs, open_tokens, read_pair_format, write_tokens
from trainables.utils.errors import UserError

COUNTS = (0, 1, 2, 5, 9, 10, 11, 12, 40)


def make_source(texts: dict[str, str]) -> TextSource:
    def read() -> Iterator[Text]:
        return (Text(f"line {number}", *row) for number, row in enumerate(texts.items(), 1))

    return TextSource("texts", read, lambda: "")


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=20),
    st.integers(2, 60),
)
def test_cuts_are_those_of_training(lengths: list[tuple[int, int]], room: int) -> None:
    queries, documents = np.array(lengths).T
    found = cut_longest_first(queries, documents, room)
    for number, (query, document) in enumerate(lengths):
        expected = truncate_longest_first(np.arange(query, dtype=np.int32), np.arange(document, dtype=np.int32), room)
        assert [side[number] for side in found] == [len(side) for side in expected]


@pytest.mark.parametrize("kind", ["bert", "roberta"])
@pytest.mark.parametrize("max_length", [23, 24])
def test_pairs_are_those_of_the_tokenizer(tmp_path: Path, kind: str, max_length: int) -> None:
    texts = {f"t{count}": " ".join(str(number % 100) for number in range(count)) for count in COUNTS}
    path = tmp_path / "model"
    if kind == "bert":
        write_model(path, "bert")
    else:
        write_roberta(path, list(texts.values()))
    tokenizer = load_tokenizer(path)
    form = read_pair_format(tokenizer, max_length)
    ids = pa.array(list(texts))
    write_tokens(tmp_path / "tokens", make_source(texts | {"other": "1 2"}), ids, tokenizer, form.room)
    tokens = open_tokens(tmp_path / "tokens")
    first, second = (side.reshape(-1) for side in np.meshgrid(np.arange(len(ids)), np.arange(len(ids))))
    chunk = join_pairs(tokens, tokens, first, second, form)
    for row, (query, document) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        pair = texts[ids[query].as_py()], texts[ids[document].as_py()]
        expected = tokenizer([pair[0]], [pair[1]], truncation="longest_first", max_length=max_length)
        found = chunk.flat[chunk.offsets[row] : chunk.offsets[row + 1]]
        assert found.tolist() == expected["input_ids"][0]
        types = (np.arange(len(found)) >= chunk.starts[row]).astype(int).tolist()
        assert types == expected.get("token_type_ids", [[0] * len(found)])[0]


def test_a_missing_or_contradicting_text_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    tokenizer, place = load_tokenizer(write_model(tmp_path / "model", "bert")), tmp_path / "tokens"
    with pytest.raises(UserError, match="texts: no text for 2 of the run's 3, first b; expected every query"):
        write_tokens(place, make_source({"a": "1"}), pa.array(["a", "b", "c"]), tokenizer, 8)
    rows = [Text("line 1", "a", "1"), Text("line 2", "a", "1"), Text("line 3", "a", "2")]
    with pytest.raises(UserError, match="line 3: a has two different texts"):
        write_tokens(place, TextSource("t", lambda: iter(rows), lambda: ""), pa.array(["a"]), tokenizer, 8)
    assert not place.exists()
    write_tokens(place, TextSource("t", lambda: iter(rows[:2]), lambda: ""), pa.array(["a"]), tokenizer, 8)


def test_a_length_without_room_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--max-length: 4; expected a length that leaves room"):
        read_pair_format(load_tokenizer(write_model(tmp_path / "model", "bert")), 4)
