"""Loaded cross-encoders: the same logits as the libraries that saved them, and nothing loaded that is not known."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder
from sentence_transformers.base.modules import Dense
from sentence_transformers.base.modules import Transformer as TransformerModule
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForSequenceClassification

from tests.trainables.models.architectures import TYPES, make_batch, write_model
from tests.trainables.small import padded
from tests.trainables.training.test_gpu import gpu
from trainables.exchange.classifier import load_classifier
from trainables.models.packing import PackedBatch
from trainables.models.precision import prepare_for_scoring
from trainables.utils.errors import UserError

LENGTHS = [3, 9, 9, 14, 40, 64, 65, 130]


def write_classifier(place: Path, kind: str, labels: int = 1, **settings: Any) -> Path:
    """A random model for sequence classification of a type, with the tokenizer of `write_model`."""
    write_model(place, kind, **settings)
    config = AutoConfig.from_pretrained(place, num_labels=labels)
    torch.manual_seed(1)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(place)
    return place


def run_transformers(path: Path, batch: PackedBatch) -> Tensor:
    """The logits as transformers itself computes them, over padded pairs."""
    model = AutoModelForSequenceClassification.from_pretrained(path, attn_implementation="eager").eval()
    inputs = padded(batch)
    if not getattr(model.config, "type_vocab_size", 0):
        inputs.pop("token_type_ids", None)
    else:
        inputs["token_type_ids"] = inputs["token_type_ids"].clamp(max=model.config.type_vocab_size - 1)
    inputs["input_ids"][inputs["attention_mask"] == 0] = model.config.pad_token_id
    with torch.inference_mode():
        logits: Tensor = model(**inputs).logits
    return logits


def check_logits(path: Path) -> None:
    batch, model = make_batch(LENGTHS), load_classifier(path)
    with torch.inference_mode():
        found = model.compute_logits(batch)
    expected = run_transformers(path, batch)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    assert found.std() > 1e-3  # the pairs differ
    with torch.inference_mode():
        scores = model(batch)
    torch.testing.assert_close(
        scores, expected[:, -1] - expected[:, 0] if expected.shape[1] == 2 else expected[:, 0], rtol=0, atol=2e-5
    )
    with prepare_for_scoring(model.encoder, "fp32"):
        torch.testing.assert_close(model.compute_logits(batch), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("kind", "labels"), [*((kind, 1) for kind in TYPES), ("bert", 2)])
def test_logits_are_those_of_transformers(tmp_path: Path, kind: str, labels: int) -> None:
    check_logits(write_classifier(tmp_path / "model", kind, labels))


def test_modernbert_pools_as_it_says(tmp_path: Path) -> None:
    check_logits(write_classifier(tmp_path / "model", "modernbert", 1, classifier_pooling="mean"))


def write_cross_encoder(place: Path, pooling: str, layers: Sequence[nn.Module], kind: str = "bert") -> CrossEncoder:
    """A CrossEncoder of modules, saved with a tokenizer."""
    write_model(place / "base", kind)
    body = TransformerModule(str(place / "base"), transformer_task="feature-extraction")
    model = CrossEncoder(modules=[body, Pooling(32, pooling), *layers], device="cpu")
    model.save(str(place / "saved"))
    return model


def dense(inputs: int, outputs: int, activation: nn.Module, name: str | None = None, **settings: Any) -> Dense:
    return Dense(inputs, outputs, activation_function=activation, module_output_name=name, **settings)


@pytest.mark.parametrize(("pooling", "labels", "residual"), [("mean", 1, False), ("cls", 2, True), ("cls", 1, True)])
def test_scores_are_those_of_a_cross_encoder_of_modules(
    tmp_path: Path, pooling: str, labels: int, residual: bool
) -> None:
    layers = [
        dense(32, 8, nn.GELU(), use_residual=residual),
        dense(8, 8, nn.Tanh()),
        dense(8, labels, nn.Identity(), "scores"),
    ]
    oracle, batch = write_cross_encoder(tmp_path, pooling, layers), make_batch(LENGTHS)
    inputs = padded(batch)
    with torch.inference_mode():
        expected = oracle(inputs)["scores"]
        found = load_classifier(tmp_path / "saved").compute_logits(batch)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_a_saved_sequence_classifier_of_sentence_transformers_is_read(tmp_path: Path) -> None:
    write_classifier(tmp_path / "model", "roberta")
    CrossEncoder(str(tmp_path / "model"), device="cpu").save(str(tmp_path / "saved"))
    assert (tmp_path / "saved" / "modules.json").is_file()
    check_logits(tmp_path / "saved")


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        load_classifier(path)
    return str(caught.value)


def change(file: Path, **values: Any) -> None:
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | values))


def test_what_is_no_cross_encoder_is_an_error_in_one_line(tmp_path: Path) -> None:
    assert "has a BertModel; expected a model for sequence" in refusal(write_model(tmp_path / "encoder", "bert"))
    assert "has 3 labels; expected 1 label" in refusal(write_classifier(tmp_path / "three", "bert", 3))
    base = write_classifier(tmp_path / "headless", "bert")
    write_model(base, "bert")  # weights of the encoder alone
    change(base / "config.json", architectures=["BertForSequenceClassification"])
    assert "has no weights for classifier.bias" in refusal(base)


def test_other_modules_are_an_error_in_one_line(tmp_path: Path) -> None:
    score = dense(32, 1, nn.Identity(), "scores")
    write_cross_encoder(tmp_path / "a", "mean", [Normalize(), score])
    assert "has the modules Transformer, Pooling, Normalize, Dense" in refusal(tmp_path / "a" / "saved")
    write_cross_encoder(tmp_path / "b", "max", [score])
    assert "has the pooling max; expected the pooling cls or mean" in refusal(tmp_path / "b" / "saved")
    write_cross_encoder(tmp_path / "c", "mean", [score])
    saved = tmp_path / "c" / "saved"
    change(saved / "2_Dense" / "config.json", activation_function="os.system")
    assert "has the activation os.system; expected an activation of torch" in refusal(saved)
    change(saved / "2_Dense" / "config.json", activation_function="torch.nn.modules.linear.Identity")
    (saved / "2_Dense" / "model.safetensors").rename(saved / "2_Dense" / "pytorch_model.bin")
    assert "no model.safetensors in saved/2_Dense" in refusal(saved)
    modules = json.loads((saved / "modules.json").read_text())
    (saved / "modules.json").write_text(json.dumps([*modules[:2], {**modules[2], "path": "../2_Dense"}]))
    assert "'../2_Dense' in modules.json of 'saved'; expected the name of a folder inside it" in refusal(saved)
    modules[2]["type"] = "own.package.Dense"
    (saved / "modules.json").write_text(json.dumps(modules))
    assert "the module 'own.package.Dense'" in refusal(saved)
    change(saved / "config_sentence_transformers.json", default_prompt_name="query")
    modules[2]["type"] = "sentence_transformers.base.modules.dense.Dense"
    (saved / "modules.json").write_text(json.dumps(modules))
    assert "puts a prompt before every text" in refusal(saved)


OTHERS = [pytest.param(kind, marks=pytest.mark.long) for kind in TYPES if kind not in ("bert", "deberta")]


@pytest.mark.parametrize("kind", ["bert", "deberta", *OTHERS])
def test_every_type_runs_in_bf16(tmp_path: Path, kind: str) -> None:
    model, batch = load_classifier(write_classifier(tmp_path / "model", kind)), make_batch(LENGTHS)
    with torch.inference_mode():
        expected = model(batch)
    with prepare_for_scoring(model.encoder, "bf16"):
        found = model(batch)
    assert found.dtype == torch.float32
    is_fp32 = torch.allclose(found, expected, rtol=0, atol=1e-5)
    assert is_fp32 == (not model.encoder.architecture.supports_autocast)
    assert np.corrcoef(found, expected)[0, 1] > 0.99


@gpu
@pytest.mark.parametrize("kind", ["bert", "deberta", *OTHERS])
def test_a_gpu_gives_the_scores_of_the_processor(tmp_path: Path, kind: str) -> None:
    model, batch = load_classifier(write_classifier(tmp_path / "model", kind)), make_batch(LENGTHS)
    with torch.inference_mode():
        expected = model(batch)
    model.to("cuda")
    with prepare_for_scoring(model.encoder, "fp32"):
        torch.testing.assert_close(model(batch).cpu(), expected, rtol=0, atol=1e-5)
