"""Two libraries compute with an exported folder what the model computes here."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder as LoadedCrossEncoder
from sentence_transformers import SentenceTransformer
from torch import Tensor
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface

from tests.trainables.exchange.exports import score_with_transformers
from tests.trainables.models.architectures import LAYERS, SEPARATE, TYPES, name_token_types, write_model
from trainables.exchange.classifier import load_classifier
from trainables.exchange.saved_models import (
    explain_padding,
    has_classifier,
    load_cross_encoder,
    save_adapter,
    save_cross_encoder,
    save_sentence_encoder,
    score_with_adapter,
)
from trainables.models.architectures import ARCHITECTURES
from trainables.models.cross_encoder import CrossEncoder
from trainables.models.dense_layers import merge_adapters
from trainables.models.packing import PackedBatch
from trainables.models.pretrained import load_tokenizer
from trainables.models.sentence_encoder import SentenceEncoder
from trainables.rankers.ranker_export import _check_adapter, _choose_classifier
from trainables.specs.plugin import ExportForm
from trainables.specs.ranker import RankerModelSettings
from trainables.specs.sentence_encoder import EncoderModelSettings
from trainables.text.tokens import get_special_tokens
from trainables.utils.errors import UserError

QUERIES = ["11 12 13", "14 15", "16", "17 18 19 20 21 22"]
DOCUMENTS = ["31 32 33 34 35 36 37", "38", "39 40 41", "42 43 44 45 46 47 48 49 50"]
PAIRS = list(zip(QUERIES, DOCUMENTS, strict=True))
MAX_LENGTH = 64
FAST = ("bert", "deberta", "modernbert", "mpnet")
"""Types with different classifiers and token types."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model of every type."""
    paths = {kind: write_model(tmp_path_factory.mktemp(kind), kind) for kind in TYPES}
    for path in paths.values():
        name_token_types(path)
    return paths


def encode_pairs(path: Path) -> PackedBatch:
    """The pairs as this project gives them to a model."""
    tokenizer = load_tokenizer(path)
    before, between, after = get_special_tokens(tokenizer, 2)
    rows, starts = [], []
    for query, document in PAIRS:
        head, body = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in (query, document))
        rows.append(np.concatenate([before, head, between, body, after]))
        starts.append(len(before) + len(head) + len(between))
    ids = torch.from_numpy(np.concatenate(rows).astype(np.int64))
    return PackedBatch(ids, np.array([len(row) for row in rows]), np.array(starts))


def make_ranker(path: Path, seed: int = 3, outputs: int = 2, **settings: object) -> CrossEncoder:
    """A ranker with a bias in its head, as after training."""
    model = CrossEncoder(path, RankerModelSettings.model_validate(settings), seed, outputs=outputs).eval()
    torch.nn.init.normal_(model.head.bias)
    if model.pooler is not None:
        torch.nn.init.normal_(model.pooler.dense.bias)
    return model


def compute_scores(model: CrossEncoder, path: Path) -> np.ndarray:
    batch = encode_pairs(path)
    if model.lower is not None:
        batch = batch._replace(inputs=model.run_frozen_layers(batch))
    with torch.inference_mode():
        logits = model(batch).double().numpy().T
    if len(logits) == 1 or model.ranking_score == "relevant_logit":
        return np.asarray(logits[-1])
    return np.asarray(logits[1] - logits[0])


def export(model: CrossEncoder, path: Path, folder: Path, as_classifier: bool | None = None) -> Path:
    folder.mkdir()
    is_classifier = has_classifier(model) if as_classifier is None else as_classifier
    save_cross_encoder(model, path, load_tokenizer(path), MAX_LENGTH, folder, is_classifier)
    return folder


@pytest.mark.parametrize(
    ("kind", "pooling"),
    [
        *((kind, "cls") for kind in FAST),
        *((kind, "mean") for kind in ("bert", "deberta")),
        *(pytest.param(kind, "cls", marks=pytest.mark.long) for kind in TYPES if kind not in FAST),
        pytest.param("mpnet", "mean", marks=pytest.mark.long),
    ],
)
def test_both_libraries_give_the_scores_of_the_model(
    models: dict[str, Path], kind: str, pooling: str, tmp_path: Path
) -> None:
    path = models[kind]
    model = make_ranker(path, pooling=pooling)
    expected = compute_scores(model, path)
    folder = export(model, path, tmp_path / "model")
    np.testing.assert_allclose(LoadedCrossEncoder(str(folder)).predict(PAIRS), expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(score_with_transformers(folder, PAIRS), expected, rtol=0, atol=1e-5)
    is_classifier = pooling == "cls" and ARCHITECTURES[kind].classifier is not None
    assert (folder / "2_Dense").is_dir() != is_classifier
    assert not [*folder.rglob("*.bin"), *folder.rglob("*.pt")]


def attend_without_padding(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: None, scaling: float, **given: Any
) -> tuple[Tensor, None]:
    """Compute what flash attention does over cumulative lengths, with an array of (tokens, tokens)."""
    places = torch.arange(query.shape[2])
    pair = torch.bucketize(places, given["cu_seq_lens_q"][1:].long(), right=True)
    attended = pair[:, None] == pair
    if window := given.get("sliding_window"):
        attended &= (places[:, None] - places).abs() < window
    weights = (query @ key.transpose(2, 3) * scaling).masked_fill(~attended, -torch.inf).softmax(-1)
    return (weights @ value).transpose(1, 2).contiguous(), None


def predict_as_on_a_gpu(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[bool, np.ndarray]:
    """Return whether sentence-transformers leaves out padding with flash attention, and its scores then."""
    name = "without-padding"
    AttentionInterface.register(name, attend_without_padding)
    AttentionMaskInterface.register(name, lambda *given, **also_given: None)
    module = LoadedCrossEncoder(str(folder), device="cpu")
    functions = (None, attend_without_padding, None, None, None), (None, None)
    monkeypatch.setattr("transformers.modeling_flash_attention_utils.lazy_import_flash_attention", lambda _: functions)
    monkeypatch.setattr("transformers.utils.generic.is_flash_attention_requested", lambda **given: True)
    module[0].unpad_inputs = module[0].unpad_inputs  # decides again
    if module[0].can_flatten_inputs:
        module[0].model.set_attn_implementation(name)
    return module[0].can_flatten_inputs, np.asarray(module.predict(PAIRS))


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "modernbert", "deberta", "mpnet"])
def test_modules_give_the_scores_of_the_model_also_without_padding(
    models: dict[str, Path], kind: str, pooling: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of roberta here has one token type, as the published models of its kind."""
    path = models[kind]
    if kind == "roberta":
        path = write_model(tmp_path / "base", kind, type_vocab_size=1)
    model = make_ranker(path, pooling=pooling)
    folder, expected = export(model, path, tmp_path / "model", as_classifier=False), compute_scores(model, path)
    assert (folder / "2_Dense").is_dir()
    np.testing.assert_allclose(load_cross_encoder(folder).predict(PAIRS), expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(score_with_transformers(folder, PAIRS), expected, rtol=0, atol=1e-5)
    with torch.inference_mode():
        np.testing.assert_allclose(load_classifier(folder)(encode_pairs(path)), expected, rtol=0, atol=1e-5)
    is_unpadded, found = predict_as_on_a_gpu(folder, monkeypatch)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    assert is_unpadded == (explain_padding(model) is None) == (kind in ("roberta", "distilbert", "modernbert"))


@pytest.mark.parametrize(
    ("kind", "pooling", "form", "chosen"),
    [
        ("bert", "cls", None, True),
        ("bert", "cls", "modules", "since a batch without padding has no token types there; expected classification"),
        ("mpnet", "cls", "modules", "since the attention of this type of encoder needs padding; expected"),
        ("bert", "mean", None, False),
        ("bert", "mean", "modules", False),
        ("bert", "cosine", "classification", "--form: classification; expected modules: transformers has no model"),
        ("distilbert", "cls", "classification", "--form: classification; expected modules: transformers has no model"),
        ("distilbert", "cls", None, False),
    ],
)
def test_the_form_is_that_which_is_asked_for_or_an_error_in_one_line(
    models: dict[str, Path], kind: str, pooling: str, form: ExportForm | None, chosen: bool | str
) -> None:
    model = make_ranker(models[kind], pooling=pooling)
    if isinstance(chosen, bool):
        assert _choose_classifier(model, form) == chosen
        return
    with pytest.raises(UserError) as caught:
        _choose_classifier(model, form)
    assert chosen in str(caught.value)


@pytest.mark.parametrize("kind", ["bert", "roberta", "albert", "deberta-v2", "deberta", "mpnet"])
def test_adapters_give_the_scores_of_the_model_merged_and_in_peft(
    models: dict[str, Path], kind: str, tmp_path: Path
) -> None:
    path, settings = models[kind], {"lora": {"rank": 3}, "num_layers": LAYERS - 1}
    model = make_ranker(path, **settings)
    for name, parameter in model.adapter_parameters().items():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    expected = compute_scores(model, path)
    assert np.abs(expected - compute_scores(make_ranker(path, num_layers=LAYERS - 1), path)).max() > 0.01
    (tmp_path / "adapter").mkdir()
    own = RankerModelSettings.model_validate({**settings, "max_length": MAX_LENGTH})
    save_adapter(model, own, path, load_tokenizer(path), tmp_path / "adapter")
    assert not [*(tmp_path / "adapter").glob("model*")]
    found = score_with_adapter(tmp_path / "adapter", path, PAIRS)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    with merge_adapters(model.upper):
        folder = export(model, path, tmp_path / "model")
    np.testing.assert_allclose(LoadedCrossEncoder(str(folder)).predict(PAIRS), expected, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(compute_scores(model, path), expected)
    with pytest.raises(UserError, match=r"an adapter in 'adapter'; expected weights that the adapter is merged into"):
        load_classifier(tmp_path / "adapter")


@pytest.mark.parametrize(
    ("kind", "settings", "added", "reason"),
    [
        ("bert", {}, (), "the ranker was trained without adapters (model.lora.rank)"),
        ("bert", {"pooling": "mean"}, (), "transformers has no model for sequence classification like this"),
        ("electra", {}, (), "transformers has no model for sequence classification like this"),
        ("bert", {}, ("[EOU]", "[EOT]"), "the adapter would lack the embeddings of [EOU] and [EOT]"),
    ],
)
def test_what_no_adapter_can_contain_is_an_error_in_one_line(
    models: dict[str, Path], kind: str, settings: dict[str, Any], added: tuple[str, ...], reason: str
) -> None:
    lora = {} if "without" in reason else {"lora": {"rank": 2}}
    own = RankerModelSettings.model_validate({**settings, **lora})
    with pytest.raises(UserError) as caught:
        _check_adapter(make_ranker(models[kind], **settings, **lora), own, added)
    assert str(caught.value) == f"--form: adapter; expected classification or modules: {reason}"


def test_a_ranker_with_a_classifier_is_written_as_modules_on_request(tmp_path: Path) -> None:
    model = make_ranker(write_model(tmp_path / "base", "roberta", type_vocab_size=1), pooling="cls")
    assert (_choose_classifier(model, None), _choose_classifier(model, "modules")) == (True, False)


@pytest.mark.parametrize("kind", SEPARATE)
def test_fewer_layers_frozen_layers_and_added_tokens_are_exported(
    models: dict[str, Path], kind: str, tmp_path: Path
) -> None:
    path = models[kind]
    tokenizer = load_tokenizer(path, ("[TURN]",))
    settings = RankerModelSettings(num_layers=LAYERS - 1, frozen_layers=1)
    model = CrossEncoder(path, settings, seed=1, vocabulary_size=len(tokenizer), outputs=1).eval()
    expected = compute_scores(model, path)
    save_cross_encoder(model, path, tokenizer, MAX_LENGTH, tmp_path, has_classifier(model))
    loaded = LoadedCrossEncoder(str(tmp_path))
    np.testing.assert_allclose(loaded.predict(PAIRS), expected, rtol=0, atol=1e-5)
    assert loaded.tokenizer.convert_tokens_to_ids("[TURN]") == len(tokenizer) - 1
    assert loaded.max_seq_length == MAX_LENGTH


def test_the_logit_that_ranks_is_the_exported_score(models: dict[str, Path], tmp_path: Path) -> None:
    model = make_ranker(models["bert"], ranking_score="relevant_logit")
    folder = export(model, models["bert"], tmp_path / "model")
    expected = compute_scores(model, models["bert"])
    np.testing.assert_allclose(LoadedCrossEncoder(str(folder)).predict(PAIRS), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("kind", "outputs"), [("bert", 2), ("roberta", 1), ("modernbert", 2)])
def test_the_cosine_is_a_module_with_code_in_the_folder(
    models: dict[str, Path], kind: str, outputs: int, tmp_path: Path
) -> None:
    path = models[kind]
    model = make_ranker(path, pooling="cosine", outputs=outputs)
    model.cosine_mean, model.cosine_std = 0.9, 0.05
    expected = compute_scores(model, path)
    folder = export(model, path, tmp_path / "model")
    loaded = LoadedCrossEncoder(str(folder), device="cpu", trust_remote_code=True)
    np.testing.assert_allclose(loaded.predict(PAIRS), expected, rtol=0, atol=1e-5)
    with pytest.raises(ValueError, match="trust_remote_code=True"):
        LoadedCrossEncoder(str(folder))
    assert type(loaded[1]).__module__.startswith("transformers_modules.")
    with (folder / "cosine_pooling.py").open("a") as code:
        code.write("raise SystemExit('the code in the folder was run')\n")
    np.testing.assert_allclose(load_cross_encoder(folder).predict(PAIRS), expected, rtol=0, atol=1e-5)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.inference_mode():  # it does not run the code in the folder
        own = load_classifier(folder).to(device)(encode_pairs(path)).cpu().numpy()
    np.testing.assert_allclose(own, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("kind", "pooling"), [("bert", "cls"), *((kind, "mean") for kind in FAST)])
def test_sentence_transformers_gives_the_embeddings_of_the_sentence_encoder(
    models: dict[str, Path], kind: str, pooling: str, tmp_path: Path
) -> None:
    path = models[kind]
    model = SentenceEncoder(path, EncoderModelSettings.model_validate({"pooling": pooling}), seed=1).eval()
    tokenizer = load_tokenizer(path)
    rows = [np.asarray(tokenizer(text)["input_ids"]) for text in DOCUMENTS]
    lengths = np.array([len(row) for row in rows])
    with torch.inference_mode():
        expected = model(PackedBatch(torch.from_numpy(np.concatenate(rows)), lengths, lengths)).numpy()
    save_sentence_encoder(model, path, tokenizer, MAX_LENGTH, tmp_path)
    loaded = SentenceTransformer(str(tmp_path))
    np.testing.assert_allclose(loaded.encode(DOCUMENTS), expected, rtol=0, atol=1e-5)
    cosines = loaded.similarity(expected[:1], expected[1:])
    assert cosines.shape == (1, 3)
