"""The contract of every architecture: what the layers compute here is what transformers computes over padded texts."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.trainables.models.architectures import (
    LAYERS,
    LONGEST,
    SEPARATE,
    TYPES,
    WORDS,
    load_oracle,
    make_batch,
    name_weights,
    run_oracle,
    write_model,
)
from trainables.difficulty.word_vectors import load_vectors_from_model
from trainables.models.architectures import ARCHITECTURES, get_architecture
from trainables.models.cross_encoder import CrossEncoder
from trainables.models.dropout import NO_DROPOUT, Dropout
from trainables.models.packing import PackedBatch, duplicate_pairs
from trainables.models.pretrained import (
    check_model_settings,
    count_layers_to_reinitialize,
    load_tokenizer,
    read_max_tokens,
)
from trainables.models.sentence_encoder import SentenceEncoder
from trainables.models.transformer import Transformer, load_pretrained
from trainables.rankers.ranker_trainer import Pairs, RankerTrainer
from trainables.specs.checkpoint_chain import Checkpoint, Segment
from trainables.specs.ranker import LabelSmoothing, RankerModelSettings, RankerTrainingSettings
from trainables.specs.run_spec import BaseModelSettings
from trainables.specs.sentence_encoder import EncoderModelSettings
from trainables.utils.arrays import Ints
from trainables.utils.errors import UserError

MIXED = [1, 1, 2, 3, 8, 9, 17, 33, 64, 65, LONGEST]
SHORT = [9, 14, 11, 30, 14, 64, 3, 9]
every_type = pytest.mark.parametrize("kind", TYPES)
every_separate_type = pytest.mark.parametrize("kind", SEPARATE)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model of every type."""
    return {kind: write_model(tmp_path_factory.mktemp(kind), kind) for kind in TYPES}


def make_encoder(path: Path, **settings: int) -> Transformer:
    return Transformer(load_pretrained(path, 1), BaseModelSettings.model_validate(settings))


def assert_gradients_equal(found: dict[str, Tensor], expected: nn.Module, tolerance: float) -> None:
    """Relative to the largest gradient, since some gradients are 0 except for rounding."""
    names = {name: parameter.grad for name, parameter in expected.named_parameters()}
    largest = max(gradient.abs().max().item() for gradient in names.values() if gradient is not None)
    for name, gradient in names.items():
        own = found[name].grad
        assert (own is None) == (gradient is None), name
        if own is not None:
            torch.testing.assert_close(own, gradient, rtol=tolerance, atol=tolerance * largest, msg=name)


@every_type
def test_hidden_states_and_gradients_are_those_of_transformers(models, kind):
    base, weights = name_weights(models[kind])
    model, oracle, batch = Transformer(base, BaseModelSettings()), load_oracle(models[kind]), make_batch(MIXED)
    found, _ = model.encode(batch, NO_DROPOUT)
    expected = torch.cat(run_oracle(oracle, batch))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    weighting = torch.randn(found.shape, generator=torch.Generator().manual_seed(0))
    (found * weighting).sum().backward()
    (expected * weighting).sum().backward()
    assert_gradients_equal(weights, oracle, 1e-5)


@every_type
def test_the_first_token_alone_has_the_output_and_the_gradients_that_it_has_among_all(models, kind):
    base, weights = name_weights(models[kind])
    model, batch = Transformer(base, BaseModelSettings()), make_batch(SHORT)
    everything, layout = model.encode(batch, NO_DROPOUT)
    expected = everything[layout.first_tokens]
    weighting = torch.randn(expected.shape, generator=torch.Generator().manual_seed(0))
    gradients = list[dict[str, Tensor | None]]()
    for output in (expected, model.encode(batch, NO_DROPOUT, first_only=True)[0]):
        torch.testing.assert_close(output, expected, rtol=0, atol=1e-5)
        model.zero_grad()
        (output * weighting).sum().backward()
        gradients.append({name: None if own.grad is None else own.grad.clone() for name, own in weights.items()})
    largest = max(own.abs().max().item() for own in gradients[0].values() if own is not None)
    for name, gradient in gradients[0].items():
        if gradient is not None:
            own = torch.zeros_like(gradient) if (own := gradients[1][name]) is None else own  # the last keys' bias
            torch.testing.assert_close(own, gradient, rtol=1e-5, atol=1e-5 * largest, msg=name)
    found = model.encode(batch, NO_DROPOUT)[0]  # the next pass has all tokens again
    assert torch.equal(found, everything)


def count_products(model: Transformer, first_only: bool) -> int:
    """Return how many layers of a pass compute queries, keys and values by one product."""
    sizes, linear = list[int](), nn.functional.linear

    def count(values: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        sizes.append(len(weight))
        return linear(values, weight, bias)

    with pytest.MonkeyPatch.context() as patch, torch.inference_mode():
        patch.setattr(nn.functional, "linear", count)
        model.encode(make_batch([9, 9]), NO_DROPOUT, first_only=first_only)
    return sizes.count(3 * model.hidden_size)


@every_type
def test_queries_keys_and_values_are_one_product_and_the_last_layer_makes_no_keys_for_a_first_token(models, kind):
    """Not all types can do either."""
    base, weights = name_weights(models[kind])
    model = Transformer(base, BaseModelSettings())
    if ARCHITECTURES[kind].padding_mask is None:
        assert {id(weight) for weight in model.parameters()} <= {id(weight) for weight in weights.values()}
        assert count_products(model, first_only=False) == LAYERS
    if ARCHITECTURES[kind].before_output is not None:
        assert count_products(model, first_only=True) == LAYERS - 1


@pytest.mark.parametrize(
    ("kind", "pooling"), [*((kind, "cls") for kind in TYPES), ("bert", "mean"), ("modernbert", "cosine")]
)
def test_logits_are_those_of_transformers(models: dict[str, Path], kind: str, pooling: str) -> None:
    model = CrossEncoder(models[kind], RankerModelSettings.model_validate({"pooling": pooling}), 1)
    oracle, batch = load_oracle(models[kind]), make_batch(SHORT)
    with torch.inference_mode():
        rows = run_oracle(oracle, batch)
        if pooling == "cls":
            assert model.pooler is not None
            pooled = model.pooler(torch.stack([row[0] for row in rows]))
        elif pooling == "mean":
            pooled = torch.stack([row.mean(dim=0) for row in rows])
        else:
            parts = [
                (row[:start].mean(dim=0), row[start:].mean(dim=0))
                for row, start in zip(rows, batch.starts, strict=True)
            ]
            pooled = torch.stack([nn.functional.cosine_similarity(*own, dim=0) for own in parts])[:, None]
        torch.testing.assert_close(model(batch), model.head(pooled), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", [kind for kind in TYPES if ARCHITECTURES[kind].pooler])
def test_the_models_own_pooler_is_used(models, kind):
    model, oracle = CrossEncoder(models[kind], RankerModelSettings(), 1), load_oracle(models[kind])
    assert model.pooler is not None
    types = {"token_type_ids": (torch.arange(9) >= 4).long()[None]} if hasattr(oracle.config, "type_vocab_size") else {}
    with torch.inference_mode():
        output = oracle(make_batch([9]).inputs[None], **types)
        found = model.pooler(output.last_hidden_state[:, 0])
    torch.testing.assert_close(found, output.pooler_output, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", [kind for kind in TYPES if not ARCHITECTURES[kind].pooler])
def test_a_fresh_pooler_is_the_seeds_own(models, kind):
    one, same, other = (CrossEncoder(models[kind], RankerModelSettings(), seed).pooler for seed in (1, 1, 2))
    assert torch.equal(one.dense.weight, same.dense.weight)
    assert not torch.equal(one.dense.weight, other.dense.weight)


@every_type
def test_the_first_layers_are_kept(models, kind):
    count, oracle, batch = LAYERS - 1, load_oracle(models[kind]), make_batch(SHORT)
    model = make_encoder(models[kind], num_layers=count)
    with torch.inference_mode():
        found, _ = model.encode(batch, NO_DROPOUT)
        torch.testing.assert_close(found, torch.cat(run_oracle(oracle, batch, count)), rtol=0, atol=1e-5)


@every_separate_type
def test_frozen_and_trained_layers_are_the_whole_model(models, kind):
    whole, split = make_encoder(models[kind]), make_encoder(models[kind], frozen_layers=1)
    batch = make_batch(SHORT)
    features = split.run_frozen_layers(batch)
    assert not features.requires_grad
    found, _ = split.encode(batch._replace(inputs=features), NO_DROPOUT)
    expected, _ = whole.encode(batch, NO_DROPOUT)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    found.square().sum().backward()
    expected.square().sum().backward()
    trained = [p for layer in split.upper for p in layer.parameters()]
    same = [p for layer in whole.upper[1:] for p in layer.parameters()]
    for own, other in zip(trained, same, strict=True):
        assert own.grad is not None
        assert other.grad is not None
        torch.testing.assert_close(own.grad, other.grad, rtol=1e-4, atol=1e-4)
    assert all(parameter.grad is None for parameter in split.lower.parameters())
    assert not {name for name in split.trainable_parameters() if name.startswith(("lower", "projection"))}


@every_type
def test_dropout_is_named_and_none_at_rate_0(models, kind):
    model, batch = make_encoder(models[kind]), make_batch(SHORT)
    with torch.inference_mode():
        plain, one, same, other, zero = (
            model.encode(batch, dropout)[0]
            for dropout in (NO_DROPOUT, Dropout(0.1, 5), Dropout(0.1, 5), Dropout(0.1, 6), Dropout(0.0, 5))
        )
    assert torch.equal(one, same)
    assert torch.equal(plain, zero)
    assert not torch.equal(one, other)
    assert not torch.equal(one, plain)


@every_type
def test_dropout_is_that_of_transformers_in_training_mode(
    models: dict[str, Path], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same masks one after another, for a text that needs no padding, everything is equal."""
    config = load_oracle(models[kind]).config.to_dict()
    rates = {name: 0.1 for name in config if "dropout" in name and isinstance(config[name], float)}
    oracle, batch, masks, drawn = load_oracle(models[kind], **rates).train(), make_batch([64]), Dropout(0.1, 5), []
    base, weights = name_weights(models[kind])

    def drop(values: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        if not (training and p):
            return values
        drawn.append(values.shape)
        return masks(values)

    with monkeypatch.context() as patch:
        patch.setattr(nn.functional, "dropout", drop)
        expected = torch.cat(run_oracle(oracle, batch))
    found, _ = Transformer(base, BaseModelSettings()).encode(batch, Dropout(0.1, 5))
    assert len(drawn) > 2 * LAYERS
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    weighting = torch.randn(found.shape, generator=torch.Generator().manual_seed(0))
    (found * weighting).sum().backward()
    (expected * weighting).sum().backward()
    assert_gradients_equal(weights, oracle, 1e-5)


@every_type
def test_added_tokens_are_known_and_the_same_for_every_seed(models, kind):
    one, other = (load_pretrained(models[kind], seed, WORDS + 3) for seed in (1, 2))
    rows = [model.get_input_embeddings().weight for model in (one, other)]
    assert rows[0].shape[0] == WORDS + 3
    assert torch.equal(rows[0], rows[1])
    model = Transformer(one, BaseModelSettings())
    batch = PackedBatch(torch.tensor([5, WORDS + 1, WORDS + 2]), np.array([3]), np.array([2]))
    hidden, _ = model.encode(batch, NO_DROPOUT)
    assert torch.isfinite(hidden).all()


@pytest.mark.parametrize(("kind", "pooling"), [*((kind, "cls") for kind in TYPES), ("bert", "mean")])
def test_two_views_of_a_sentence(models: dict[str, Path], kind: str, pooling: str) -> None:
    model = SentenceEncoder(models[kind], EncoderModelSettings.model_validate({"pooling": pooling}), 1)
    batch, oracle = make_batch(SHORT), load_oracle(models[kind])
    batch = batch._replace(starts=batch.lengths)
    with torch.inference_mode():
        first, second = model.encode_views(duplicate_pairs(batch), NO_DROPOUT)
        rows = run_oracle(oracle, batch)
        expected = torch.stack([row[0] if pooling == "cls" else row.mean(dim=0) for row in rows])
        torch.testing.assert_close(model(batch), expected, rtol=0, atol=1e-5)
        wanted = torch.tanh(model.head(expected)) if model.head is not None else expected
        dropped = model.encode_views(duplicate_pairs(batch), Dropout(0.1, 3))
    torch.testing.assert_close(first, wanted, rtol=0, atol=1e-5)
    torch.testing.assert_close(second, wanted, rtol=0, atol=1e-5)
    assert ((dropped[0] - dropped[1]).abs().amax(dim=1) > 1e-3).all()


@every_separate_type
def test_fresh_layers_are_drawn_and_the_others_kept(models, kind):
    kept, fresh = (
        SentenceEncoder(models[kind], EncoderModelSettings(reinit_layers=count), 1).upper for count in (0, 1)
    )
    for number in range(LAYERS):
        pairs = zip(kept[number].named_parameters(), fresh[number].parameters(), strict=True)
        for (name, own), other in pairs:
            last = number == LAYERS - 1
            assert torch.equal(own, other) == (not last or own.dim() == 1), name
            if last and own.dim() == 1:
                assert torch.equal(other, torch.full_like(other, float(name.endswith("weight")))), name


class RandomPairs:
    """Pairs of different lengths, by number."""

    lengths: Ints = np.random.default_rng(0).integers(4, 40, 24)

    def read(self, rows: Ints) -> PackedBatch:
        batches = [make_batch([int(self.lengths[row])], seed=int(row)) for row in rows]
        parts = zip(*batches, strict=True)
        ids, lengths, starts = (list(part) for part in parts)
        return PackedBatch(torch.cat(ids), np.concatenate(lengths), np.concatenate(starts))


def make_trainer(path: Path, model: RankerModelSettings | None = None, **settings: object) -> RankerTrainer:
    sizes = {"instances": 32, "batch_size": 8, "negatives": 1, "tokens_per_micro_batch": 100}
    training = RankerTrainingSettings.model_validate({**sizes, "learning_rate": 1e-3, **settings})
    return RankerTrainer(CrossEncoder(path, model or RankerModelSettings(), 1), training, 1, RandomPairs())


LABELS = np.tile([1, 0], 12)
PAIRS = Pairs(0, LABELS, LABELS, np.tile([np.nan, 0.5], 12), LABELS)
WHOLE = Segment(0, 32, LabelSmoothing())


@every_type
def test_a_resumed_training_ends_with_the_same_bits(models, kind):
    whole, half, rest = (make_trainer(models[kind], precision="fp32") for _ in range(3))
    before = whole.hash_weights()
    whole.train(WHOLE, 32, PAIRS)
    half.train(WHOLE, 16, PAIRS)
    saved = half.make_checkpoint(final=False)
    copied = {name: tensor.clone() for name, tensor in saved.tensors.items()}
    rest.restore(Checkpoint(saved.instances, copied, saved.history))
    rest.train(WHOLE, 32, PAIRS)
    assert whole.hash_weights() == rest.hash_weights() != before
    assert whole.history == rest.history
    np.testing.assert_array_equal(whole.score_pairs(PAIRS), rest.score_pairs(PAIRS))


@every_type
def test_training_and_evaluation_in_bf16_are_near_those_in_fp32(models, kind):
    exact, rounded = (
        make_trainer(models[kind], precision=precision, evaluation_precision=precision, dropout=0.0)
        for precision in ("fp32", "bf16")
    )
    for trainer in (exact, rounded):
        trainer.train(WHOLE, 32, PAIRS)
    losses = [[row["train/loss"] for row in trainer.history] for trainer in (exact, rounded)]
    np.testing.assert_allclose(losses[1], losses[0], atol=0.03)
    np.testing.assert_allclose(rounded.score_pairs(PAIRS), exact.score_pairs(PAIRS), atol=0.1)


@every_type
def test_limits_of_a_model_are_read_from_its_files(models, kind):
    longest = read_max_tokens(models[kind])
    assert longest == (LONGEST if ARCHITECTURES[kind].positions_follow_padding else LONGEST + 2)
    check_model_settings(models[kind], RankerModelSettings(max_length=longest, num_layers=LAYERS))
    for settings, problem in (
        ({"max_length": longest + 1}, f"model.max_length: {longest + 1}; expected at most the model's {longest}"),
        ({"num_layers": LAYERS + 1}, f"model.num_layers: {LAYERS + 1}; expected at most the model's {LAYERS}"),
        ({"frozen_layers": LAYERS}, f"model.frozen_layers: {LAYERS}; expected fewer than the {LAYERS} in use"),
    ):
        with pytest.raises(UserError) as caught:
            check_model_settings(models[kind], RankerModelSettings.model_validate(settings))
        assert str(caught.value) == problem


@every_separate_type
def test_layers_that_can_be_fresh_are_counted(models, kind):
    assert count_layers_to_reinitialize(models[kind], 1) == LAYERS


def test_layers_that_share_weights_can_be_neither_frozen_nor_fresh(models: dict[str, Path]) -> None:
    path, reason = models["albert"], "expected 0, since the layers of the type albert share their weights"
    for check, key in (
        (lambda: check_model_settings(path, RankerModelSettings(frozen_layers=1)), "model.frozen_layers"),
        (lambda: count_layers_to_reinitialize(path, 1), "model.reinit_layers"),
    ):
        with pytest.raises(UserError) as caught:
            check()
        assert str(caught.value) == f"{key}: 1; {reason}"


@every_type
def test_word_vectors_are_the_input_embeddings(models, kind):
    values, known = load_vectors_from_model(models[kind])(["7", "no-word"])
    assert known.tolist() == [True, False]
    place = load_tokenizer(models[kind]).convert_tokens_to_ids("7")
    expected = load_oracle(models[kind]).get_input_embeddings().weight[place]
    np.testing.assert_array_equal(values[0], expected.detach().numpy())


def test_an_unknown_architecture_is_an_error_in_one_line(tmp_path: Path) -> None:
    from transformers import GPT2Config, GPT2Model

    GPT2Model(GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=1)).save_pretrained(tmp_path)
    expected = f"model.name: a model of type 'gpt2'; expected an encoder of one of the types {', '.join(TYPES)}"
    for load in (
        lambda: CrossEncoder(tmp_path, RankerModelSettings(), 1),
        lambda: check_model_settings(tmp_path, RankerModelSettings()),
        lambda: get_architecture("gpt2"),
    ):
        with pytest.raises(UserError) as caught:
            load()
        assert str(caught.value) == expected


def test_weights_in_half_precision_are_trained_in_single_precision(models: dict[str, Path], tmp_path: Path) -> None:
    oracle = load_oracle(models["bert"])
    shutil.copytree(models["bert"], tmp_path / "half")
    oracle.half().save_pretrained(tmp_path / "half")
    assert {parameter.dtype for parameter in make_encoder(tmp_path / "half").parameters()} == {torch.float32}
