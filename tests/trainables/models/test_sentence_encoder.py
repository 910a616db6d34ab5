"""A sentence's embedding is transformers' own, and its two views differ by dropout alone."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModel

from tests.trainables.encoders import FROZEN, Encoders
from tests.trainables.small import ids_batch, padded
from trainables.models.dropout import NO_DROPOUT, Dropout
from trainables.models.packing import PackedBatch, duplicate_pairs
from trainables.models.sentence_encoder import SentenceEncoder
from trainables.specs.sentence_encoder import EncoderModelSettings

LENGTHS = [9, 14, 11, 30, 14, 2, 3, 9]


def fresh(path: Path, settings: dict[str, Any] | None = None, seed: int = 1) -> SentenceEncoder:
    return SentenceEncoder(path, EncoderModelSettings.model_validate(settings or {}), seed)


def sentences(path: Path) -> PackedBatch:
    """Draws sentences of tokens that the model knows."""
    batch, size = ids_batch(LENGTHS, LENGTHS), AutoModel.from_pretrained(path).config.vocab_size
    return batch._replace(inputs=batch.inputs % (size - 5) + 5)


def expected(path: Path, batch: PackedBatch, pooling: str, layers: int) -> torch.Tensor:
    """The oracle: transformers' own forward pass, padded, in evaluation mode."""
    base = AutoModel.from_pretrained(path).eval()
    inputs = padded(batch)
    del inputs["token_type_ids"]
    inputs["input_ids"][inputs["attention_mask"] == 0] = base.config.pad_token_id
    with torch.inference_mode():
        hidden = base(**inputs, output_hidden_states=True).hidden_states[layers]
    rows = [row[:length] for row, length in zip(hidden, LENGTHS, strict=True)]
    return torch.stack([row[0] if pooling == "cls" else row.mean(0) for row in rows])


def below(model: SentenceEncoder, batch: PackedBatch) -> PackedBatch:
    """The sentences as the model takes them."""
    return batch if model.lower is None else batch._replace(inputs=model.run_frozen_layers(batch))


@pytest.mark.parametrize(
    ("family", "pooling", "settings"),
    [
        ("bert", "cls", {}),
        ("bert", "mean", FROZEN),
        ("roberta", "cls", {"frozen_layers": 1, "num_layers": 2}),
        ("roberta", "mean", {}),
    ],
    ids=["all", "frozen", "fewer", "RoBERTa"],
)
def test_embeddings_are_those_of_transformers(
    encoders: Encoders, family: str, pooling: str, settings: dict[str, Any]
) -> None:
    path = encoders.path(family)
    model = fresh(path, {"pooling": pooling, **settings})
    batch, wanted = (
        below(model, sentences(path)),
        expected(path, sentences(path), pooling, settings.get("num_layers", 3)),
    )
    with torch.inference_mode():
        found = model(batch)
        first, second = model.encode_views(duplicate_pairs(batch), NO_DROPOUT)
    torch.testing.assert_close(found, wanted, rtol=0, atol=2e-6)
    if pooling == "cls":
        wanted = torch.tanh(wanted @ model.head.weight.T + model.head.bias).detach()
    torch.testing.assert_close(first, wanted, rtol=0, atol=2e-6)
    torch.testing.assert_close(second, wanted, rtol=0, atol=2e-6)


@pytest.mark.parametrize("settings", [{}, FROZEN, {"pooling": "mean"}], ids=["cls", "frozen", "mean"])
def test_two_views_differ_by_dropout_and_are_named_by_it(encoders: Encoders, settings: dict[str, Any]) -> None:
    model = fresh(encoders.bert, settings)
    batch = below(model, sentences(encoders.bert))
    with torch.inference_mode():
        first, second = model.encode_views(duplicate_pairs(batch), Dropout(0.1, 5))
        again, other = (
            model.encode_views(duplicate_pairs(batch), Dropout(0.1, 5)),
            model.encode_views(duplicate_pairs(batch), Dropout(0.1, 6)),
        )
    assert ((first - second).abs().amax(dim=1) > 1e-3).all()  # every sentence's
    assert torch.equal(first, again[0])
    assert torch.equal(second, again[1])
    assert not torch.equal(first, other[0])
    between = torch.nn.functional.cosine_similarity(first, second)
    assert (between < 1).all()
    assert (between > 0).all()


def test_the_frozen_part_has_no_gradient_and_the_rest_has(encoders: Encoders) -> None:
    model = fresh(encoders.bert, FROZEN)
    batch = below(model, sentences(encoders.bert))
    sum(view.square().sum() for view in model.encode_views(duplicate_pairs(batch), Dropout(0.1, 5))).backward()
    assert all(parameter.grad is None for parameter in model.lower.parameters())
    without = [name for name, parameter in model.trainable_parameters().items() if parameter.grad is None]
    assert without == [f"upper.{len(model.upper) - 1}.attention.self.key.bias"]  # it adds the same to all scores
    assert model.trainable_parameters().keys() == {
        name for name, _ in model.named_parameters() if not name.startswith("lower.")
    }


def test_the_dense_layer_is_the_seeds_own_and_all_that_is_fresh(encoders: Encoders) -> None:
    heads = [fresh(encoders.bert, seed=seed).head_parameters() for seed in (1, 1, 2)]
    assert list(heads[0]) == ["head.weight", "head.bias"]
    assert torch.equal(heads[0]["head.weight"], heads[1]["head.weight"])
    assert not torch.equal(heads[0]["head.weight"], heads[2]["head.weight"])
    assert fresh(encoders.bert, {"pooling": "mean"}).head_parameters() == {}


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_fresh_layers_are_the_seeds_own_and_drawn_as_before_pretraining(encoders: Encoders, family: str) -> None:
    path = encoders.path(family)
    kept = fresh(path)
    one, again, other = (fresh(path, {"reinit_layers": 2}, seed=seed) for seed in (1, 1, 2))
    whole = [name for name in kept.trainable_parameters() if not name.startswith(("upper.1.", "upper.2.", "head."))]
    assert whole
    assert all(torch.equal(kept.trainable_parameters()[name], one.trainable_parameters()[name]) for name in whole)
    for layer in (1, 2):
        names = [
            name
            for name in one.trainable_parameters()
            if name.startswith(f"upper.{layer}.") and name.endswith("weight")
        ]
        for name in names:
            drawn, norm = one.trainable_parameters()[name], "LayerNorm" in name
            assert torch.equal(drawn, again.trainable_parameters()[name])
            assert torch.equal(drawn, other.trainable_parameters()[name]) == norm
            assert not torch.equal(drawn, kept.trainable_parameters()[name]) or norm
            assert (drawn == 1).all() if norm else abs(drawn.std().item() - 0.02) < 0.004
        biases = [
            own
            for name, own in one.trainable_parameters().items()
            if name.startswith(f"upper.{layer}.") and "bias" in name
        ]
        assert not torch.cat(biases).any()


@given(st.lists(st.integers(1, 9), min_size=1, max_size=9))
def test_twice_puts_every_sentence_next_to_itself(lengths: list[int]) -> None:
    batch = ids_batch(lengths, lengths)
    doubled, parts = duplicate_pairs(batch), torch.split(batch.inputs, lengths)
    assert torch.equal(doubled.inputs, torch.cat([part for part in parts for _ in range(2)]))
    assert doubled.lengths.tolist() == doubled.starts.tolist() == [one for one in lengths for _ in range(2)]
