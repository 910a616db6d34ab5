"""Adapters compute what those of peft compute, train alone and leave the weights as they are."""

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import get_peft_model, set_peft_model_state_dict
from torch import nn

from tests.contracts.test_architectures import PAIRS, WHOLE, make_trainer
from tests.trainables.models.architectures import LAYERS, TYPES, load_oracle, make_batch, run_oracle, write_model
from trainables.models.cross_encoder import CrossEncoder
from trainables.models.dense_layers import make_adapter_config
from trainables.models.dropout import NO_DROPOUT, Dropout
from trainables.models.precision import prepare_for_scoring
from trainables.models.pretrained import check_model_settings
from trainables.models.transformer import Transformer, load_pretrained
from trainables.rankers.ranker_trainer import RankerTrainer
from trainables.specs.ranker import RankerModelSettings
from trainables.specs.run_spec import BaseModelSettings
from trainables.utils.errors import UserError

LENGTHS = [1, 2, 9, 9, 17, 40, 64, 65, 130]
every_type = pytest.mark.parametrize("kind", TYPES)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: write_model(tmp_path_factory.mktemp(kind), kind) for kind in TYPES}


def make_settings(**lora: Any) -> BaseModelSettings:
    return BaseModelSettings.model_validate({"max_length": 64, "lora": {"rank": 3, "alpha": 6.0, **lora}})


def make_encoder(path: Path, **lora: Any) -> Transformer:
    return Transformer(load_pretrained(path, 1), make_settings(**lora), 1)


def train_a_little(model: Transformer) -> None:
    """Give the matrices B, which begin as 0, other values."""
    torch.manual_seed(0)
    for name, parameter in model.adapter_parameters().items():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.3)


def load_peft(path: Path, model: Transformer, **lora: Any) -> Any:
    """The same adapters in the model of transformers."""
    weights = model.adapter_parameters()
    names = sorted({name.partition(".lora_")[0] for name in weights})
    oracle = get_peft_model(load_oracle(path), make_adapter_config(make_settings(**lora).lora, names))
    found = set_peft_model_state_dict(oracle, {f"base_model.model.{name}": own for name, own in weights.items()})
    assert not found.unexpected_keys
    return oracle.eval()


@every_type
@pytest.mark.parametrize("first_only", [False, True])
def test_outputs_and_gradients_are_those_of_peft(models: dict[str, Path], kind: str, first_only: bool) -> None:
    model, batch = make_encoder(models[kind]), make_batch(LENGTHS)
    train_a_little(model)
    oracle = load_peft(models[kind], model)
    rows = run_oracle(oracle, batch)
    expected = torch.stack([row[0] for row in rows]) if first_only else torch.cat(rows)
    found, _ = model.encode(batch, NO_DROPOUT, first_only)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    weighting = torch.randn(found.shape, generator=torch.Generator().manual_seed(0))
    (found * weighting).sum().backward()
    (expected * weighting).sum().backward()
    gradients = {
        name.removeprefix("base_model.model.").replace(".default", ""): parameter.grad
        for name, parameter in oracle.named_parameters()
        if parameter.requires_grad
    }
    own = model.adapter_parameters()
    assert own.keys() == gradients.keys()
    assert {*own.values()} == {*model.trainable_parameters().values()}
    largest = max(gradient.abs().max().item() for gradient in gradients.values() if gradient is not None)
    for name, parameter in own.items():
        gradient, expected_gradient = parameter.grad, gradients[name]
        assert gradient is not None
        assert expected_gradient is not None
        torch.testing.assert_close(gradient, expected_gradient, rtol=1e-5, atol=1e-5 * largest, msg=name)
    with prepare_for_scoring(model, "fp32"):
        merged, _ = model.encode(batch, NO_DROPOUT, first_only)
    torch.testing.assert_close(merged, found.detach(), rtol=0, atol=1e-5)
    assert torch.equal(model.encode(batch, NO_DROPOUT, first_only)[0], found)


def test_dropout_before_an_adapter_is_that_of_peft(models: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same masks one after another, for a text that needs no padding."""
    model, batch, masks = make_encoder(models["bert"], dropout=0.3), make_batch([64]), Dropout(0.3, 6)
    train_a_little(model)
    oracle = load_peft(models["bert"], model, dropout=0.3).train()
    monkeypatch.setattr(nn.functional, "dropout", lambda values, p, *others, **named: masks(values) if p else values)
    monkeypatch.setattr(oracle.base_model.model.config, "attention_probs_dropout_prob", 0.0)
    for module in oracle.modules():
        if isinstance(module, nn.Dropout) and module.p != 0.3:
            module.p = 0.0
    with torch.no_grad():
        found, same, other, none = (
            model.encode(batch, Dropout(0.0, 5, adapters))[0]
            for adapters in (Dropout(0.3, 6), Dropout(0.3, 6), Dropout(0.3, 7), None)
        )
        torch.testing.assert_close(found, torch.cat(run_oracle(oracle, batch)), rtol=0, atol=1e-5)
    assert torch.equal(found, same)
    assert not torch.equal(found, other)
    assert not torch.equal(found, none)


def test_the_seed_draws_adapters_that_change_nothing_and_the_head_of_full_training(models: dict[str, Path]) -> None:
    settings = RankerModelSettings.model_validate({"lora": {"rank": 3}})
    plain = CrossEncoder(models["bert"], RankerModelSettings(), 1)
    one, same, other = (CrossEncoder(models["bert"], settings, seed) for seed in (1, 1, 2))
    assert all(torch.equal(own, same.adapter_parameters()[name]) for name, own in one.adapter_parameters().items())
    drawn = "encoder.layer.0.attention.self.query.lora_A.weight"
    assert not torch.equal(one.adapter_parameters()[drawn], other.adapter_parameters()[drawn])
    assert torch.equal(one.head.weight, plain.head.weight)
    with torch.no_grad():
        torch.testing.assert_close(one(make_batch(LENGTHS)), plain(make_batch(LENGTHS)), rtol=0, atol=1e-5)


def test_adapters_are_of_the_named_dense_layers_that_are_not_frozen(models: dict[str, Path]) -> None:
    settings = {"frozen_layers": 1, "num_layers": 3, "lora": {"rank": 2, "target_modules": ["query", "output.dense"]}}
    base = load_pretrained(models["bert"], 1)
    model, whole = Transformer(base, BaseModelSettings.model_validate(settings)), make_encoder(models["bert"])
    places = ("attention.self.query", "attention.output.dense", "output.dense")
    assert {name.partition(".lora_")[0] for name in model.adapter_parameters()} == {
        f"encoder.layer.{number}.{place}" for number in (1, 2) for place in places
    }
    assert len(whole.adapter_parameters()) == 2 * 6 * LAYERS
    batch = make_batch(LENGTHS)
    features = batch._replace(inputs=model.run_frozen_layers(batch))
    with torch.no_grad():
        expected = torch.cat(run_oracle(load_oracle(models["bert"]), batch, layers=3))
        torch.testing.assert_close(model.encode(features, NO_DROPOUT)[0], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", TYPES)
def test_the_files_say_which_dense_layers_there_are(models: dict[str, Path], kind: str) -> None:
    """A message names them all, and each can get adapters."""
    with pytest.raises(UserError) as caught:
        check_model_settings(models[kind], make_settings(target_modules=["nothing"]))
    start = "model.lora.target_modules: 'nothing'; expected names of dense layers: "
    names = str(caught.value).removeprefix(start).split(", ")
    assert names[0].isidentifier()
    model = make_encoder(models[kind])
    assert {name.split(".lora_")[0].rpartition(".")[2] for name in model.adapter_parameters()} == {*names}
    check_model_settings(models[kind], make_settings(target_modules=names))


def test_without_peft_one_line_says_how_to_install_it(models: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError) as caught:
        check_model_settings(models["bert"], make_settings())
    expected = 'model.lora.rank: the package peft is not installed; expected `pip install ".[lora]"`'
    assert str(caught.value) == expected


@every_type
def test_layers_that_are_computed_again_give_the_same_bits(
    models: dict[str, Path], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With dropout in the layers and before the adapters, in several micro-batches."""
    trainers, again = list[RankerTrainer](), list[int]()
    draw_again = Dropout.draw_again
    monkeypatch.setattr(
        Dropout, "draw_again", lambda self, position: (again.append(len(trainers)), draw_again(self, position))[1]
    )
    for is_on in (False, True):
        settings = RankerModelSettings.model_validate({"lora": {"rank": 2, "dropout": 0.2}})
        trainer = make_trainer(models[kind], settings, precision="fp32", gradient_checkpointing=is_on)
        trainer.train(WHOLE, 16, PAIRS)
        trainers.append(trainer)
    assert trainers[0].hash_weights() == trainers[1].hash_weights()
    assert trainers[0].history == trainers[1].history
    assert {*again} == {1}
    assert len(again) >= 2 * LAYERS
