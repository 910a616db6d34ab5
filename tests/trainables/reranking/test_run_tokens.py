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
from trainables.data.ranking_tokens import PairFormat, TextTokens, join_pairs
from trainables.exchange.input_rules import InputRules
from trainables.models.pretrained import load_tokenizer
from trainables.reranking.run_tokens import open_tokens, read_pair_format, write_tokens
from trainables.reranking.texts import Text, TextSource
from trainables.utils.errors import UserError

COUNTS = (0, 1, 2, 5, 9, 10, 11, 12, 40)


def make_source(texts: dict[str, str]) -> TextSource:
    def read() -> Iterator[Text]:
        return (Text(f"line {number}", *row) for number, row in enumerate(texts.items(), 1))

    return TextSource("texts", read, lambda: "")


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=20),
    st.integers(2, 60),
    st.sampled_from(["longest_first", "query_first", "oldest", "plain"]),
)
def test_the_side_that_is_cut_first_keeps_its_share(lengths: list[tuple[int, int]], room: int, truncation: str) -> None:
    """One side of a pair is cut after the other, and the first keeps a third, or half and the odd token."""
    third = (room + 3) // 3
    rules, nothing = InputRules.model_validate({"truncation": truncation}), np.empty(0, np.int32)
    form = PairFormat(nothing, nothing, nothing, True, 3 * third, rules)
    form = form._replace(before=np.zeros(form.max_length - room, np.int32))
    sides = [[np.arange(1, count + 1, dtype=np.int32) for count in counts] for counts in zip(*lengths, strict=True)]
    stored = [
        [ids[-room:] if truncation == "oldest" and side == 0 else ids[:room] for ids in texts]
        for side, texts in enumerate(sides)
    ]
    tokens = [
        TextTokens(np.concatenate(kept), np.cumsum([0, *map(len, kept[:-1])]), np.array([*map(len, texts)]))
        for kept, texts in zip(stored, sides, strict=True)
    ]
    codes = np.arange(len(lengths))
    chunk = join_pairs(*tokens, codes, codes, form)
    for row, (query, document) in enumerate(zip(*sides, strict=True)):
        if truncation in ("longest_first", "query_first"):
            share = room - room // 2 if truncation == "longest_first" else third
            query = query[: max(share, room - len(document))]
            document = document[: room - len(query)]
        else:
            document = document[: max(third, room - len(query))]
            left = room - len(document)
            query = query[-left:] if truncation == "oldest" else query[:left]
        pair = chunk.flat[chunk.offsets[row] : chunk.offsets[row + 1]]
        assert pair.tolist() == [*form.before, *query, *document]


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


def test_a_missing_or_contradicting_text_is_an_error_before_anything_is_written(tmp_path: Path) -> None:
    tokenizer, place = load_tokenizer(write_model(tmp_path / "model", "bert")), tmp_path / "tokens"
    with pytest.raises(UserError, match="texts: no text for 2 of the run's 3, first b; expected every query"):
        write_tokens(place, make_source({"a": "1"}), pa.array(["a", "b", "c"]), tokenizer, 8)
    rows = [Text("line 1", "a", "1"), Text("line 2", "a", "1"), Text("line 3", "a", "2")]
    with pytest.raises(UserError, match="line 3: a has two different texts"):
        write_tokens(place, TextSource("t", lambda: iter(rows), lambda: ""), pa.array(["a"]), tokenizer, 8)
    assert not place.exists()
    write_tokens(place, TextSource("t", lambda: iter(rows[:2]), lambda: ""), pa.array(["a"]), tokenizer, 8)


def test_a_length_without_room_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--max-length: 4; expected a length that leaves room"):
        read_pair_format(load_tokenizer(write_model(tmp_path / "model", "bert")), 4)
