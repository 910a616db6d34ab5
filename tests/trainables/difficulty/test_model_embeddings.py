"""A model's embeddings as transformers gives them."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from trainables.difficulty.word_vectors import load_vectors_from_model
from trainables.utils.errors import UserError

if TYPE_CHECKING:
    from tests.trainables.small import World


def test_a_models_vectors_are_the_mean_embeddings_of_word_pieces(world: "World") -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    words = ["matrix", "Inverting", "the", "☃", "foo-☃", "polynomials"]
    tokenizer, embeddings = AutoTokenizer.from_pretrained(world.bert), AutoModel.from_pretrained(world.bert)
    values, known = load_vectors_from_model(world.bert)(words)
    assert known.tolist() == [True, True, True, False, True, True]
    pieces = [tokenizer.tokenize(word) for word in words]
    assert max(map(len, pieces)) > 1
    for row, own in enumerate(pieces):
        ids = tokenizer.convert_tokens_to_ids([piece for piece in own if piece != "[UNK]"])
        with torch.no_grad():
            rows = embeddings.get_input_embeddings()(torch.tensor(ids, dtype=torch.long)).double().numpy()
        np.testing.assert_allclose(values[row], rows.mean(axis=0) if ids else np.zeros(32), rtol=1e-12)
    assert [part.shape for part in load_vectors_from_model(world.bert)([])] == [(0, 32), (0,)]


def test_of_a_word_of_very_many_pieces_the_first_512_count(world: "World") -> None:
    values, _ = load_vectors_from_model(world.bert)(["the-", "the-" * 256 + "matrix-" * 9])
    np.testing.assert_allclose(values[1], values[0], rtol=1e-12)


def test_a_model_that_knows_only_the_lower_case_word_gives_that(world: "World") -> None:
    values, known = load_vectors_from_model(world.roberta)(["the", "THE", "Invert", "invert", "INVERT", "zzz"])
    assert known.tolist() == [True, True, True, True, True, False]
    np.testing.assert_array_equal(values[0], values[1])
    np.testing.assert_array_equal(values[3], values[4])
    assert np.any(values[2] != values[3])


def test_a_word_is_the_pieces_that_it_has_within_a_text(tmp_path: Path) -> None:
    """A byte-level tokenizer has one piece for a word after a space, another one for the beginning of a text."""
    from safetensors.numpy import save_file
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {"<unk>": 0, "a": 1, "Ġ": 2, "Ġa": 3}
    engine = Tokenizer(models.BPE(vocabulary, [("Ġ", "a")], unk_token="<unk>"))
    engine.pre_tokenizer, engine.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=engine, unk_token="<unk>").save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "roberta"}')
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    save_file({"roberta.embeddings.word_embeddings.weight": rows}, tmp_path / "model.safetensors")
    assert load_vectors_from_model(tmp_path)(["a"])[0].tolist() == [[6.0, 7.0]]
    save_file({"roberta.embeddings.word_embeddings.weight": rows[:3]}, tmp_path / "model.safetensors")
    assert load_vectors_from_model(tmp_path)(["a"])[1].tolist() == [
        False
    ]  # a piece that was added without an embedding
    save_file({"weight": rows}, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match=r"^model\.name: 0 tensors embeddings\.word_embeddings\.weight; expected one"):
        load_vectors_from_model(tmp_path)
