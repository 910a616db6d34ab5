"""Writes a trained model as a folder that sentence-transformers and transformers load.

A ranker becomes the model for sequence classification of its architecture, where that has the same head: a dense layer,
tanh and an output layer over the first token. Any other becomes modules of sentence-transformers: the encoder, a
pooling and dense layers. So does one of the first kind if the user asks for it, because that library computes without
padding on a GPU only what is made of modules. Every ranker has one output, the score by which the study ranks.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import CrossEncoder as ExportedCrossEncoder
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Module, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, PreTrainedTokenizerBase

from trainables.exchange import cosine_pooling
from trainables.exchange.classifier import ClassificationHead, DenseHead
from trainables.models.cross_encoder import CrossEncoder
from trainables.models.sentence_encoder import SentenceEncoder
from trainables.models.transformer import Transformer as Encoder
from trainables.text.tokens import get_special_tokens

_COSINE_FILE = Path(str(cosine_pooling.__file__)).name
"""Name of the code of the cosine pooling in an exported folder."""


def has_classifier(model: CrossEncoder) -> bool:
    """Return whether transformers has a model for sequence classification that computes what this ranker does."""
    if model.saved:
        return isinstance(model.head, ClassificationHead)
    return model.pooling == "cls" and model.architecture.classifier is not None


def explain_padding(model: CrossEncoder) -> str | None:
    """Return why sentence-transformers must pad the pairs of this ranker, or None if it need not.

    Its batches without padding have no token types. Attention without padding needs an architecture that runs packed.
    """
    if model.pooling == "cosine":
        return "the cosine pooling needs padding"
    if model.architecture.padding_mask is not None:
        return "the attention of this type of encoder needs padding"
    return "a batch without padding has no token types there" if model.token_types > 1 else None


def save_cross_encoder(
    model: CrossEncoder,
    path: Path,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    folder: Path,
    as_classifier: bool,
) -> None:
    """Write a ranker as a cross-encoder of sentence-transformers, which gives the score by which the study ranks.

    With `as_classifier`, which needs `has_classifier`, the folder is also a model for sequence classification of
    transformers with one label. Otherwise it has modules. The cosine pooling is a separate module with its code in the
    folder; it is run only with `trust_remote_code`.
    """
    config = _read_config(model, path)
    tokenizer.model_max_length = max_length
    with torch.random.fork_rng():
        if as_classifier:
            _save_classifier(model, config, folder)
            tokenizer.save_pretrained(folder)
            exported = ExportedCrossEncoder(str(folder), device="cpu", activation_fn=nn.Identity())
        else:
            _save_encoder(model, config, folder)
            tokenizer.save_pretrained(folder)
            pooling = _make_pooling(model, tokenizer)
            unpads = None if explain_padding(model) is None else False
            modules = [Transformer(str(folder), unpad_inputs=unpads), pooling, *_make_dense_layers(model)]
            exported = ExportedCrossEncoder(modules=modules, device="cpu", activation_fn=nn.Identity())
        exported.save_pretrained(str(folder), create_model_card=False)
    if model.pooling == "cosine":
        _add_cosine_code(folder)


def load_cross_encoder(folder: Path) -> ExportedCrossEncoder:
    """Return an exported ranker as its users load it, but with this project's own class for the cosine pooling.

    So nothing in the folder is executed, and it need not be trusted.
    """
    place = str(folder)
    if not (folder / _COSINE_FILE).is_file():
        loaded: ExportedCrossEncoder = ExportedCrossEncoder(place, device="cpu", local_files_only=True)
        return loaded
    classes = {"Transformer": Transformer, "CosinePooling": cosine_pooling.CosinePooling, "Dense": Dense}
    rows = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    modules = [
        classes[row["type"].rpartition(".")[2]].load(place, subfolder=row["path"], local_files_only=True)
        for row in rows
    ]
    loaded = ExportedCrossEncoder(modules=modules, device="cpu", activation_fn=nn.Identity())
    return loaded


def save_sentence_encoder(
    model: SentenceEncoder, path: Path, tokenizer: PreTrainedTokenizerBase, max_length: int, folder: Path
) -> None:
    """Write a sentence encoder as a model of sentence-transformers; transformers loads its encoder."""
    config = _read_config(model, path)
    tokenizer.model_max_length = max_length
    with torch.random.fork_rng():
        _save_encoder(model, config, folder)
        tokenizer.save_pretrained(folder)
        modules = [Transformer(str(folder)), Pooling(model.hidden_size, model.pooling)]
        exported = SentenceTransformer(modules=modules, device="cpu", similarity_fn_name="cosine")
        exported.save_pretrained(str(folder), create_model_card=False)


def _read_config(model: Encoder, path: Path) -> Any:
    """Return the configuration of the pretrained model with the layers and words of this one."""
    config, architecture = AutoConfig.from_pretrained(path, local_files_only=True), model.architecture
    if model.n_layers < getattr(config, architecture.layer_count):
        setattr(config, architecture.layer_count, model.n_layers)
        if getattr(config, "layer_types", None):
            config.layer_types = config.layer_types[: model.n_layers]
    config.vocab_size = len(model.encoder_parameters()[f"{architecture.word_embeddings}.weight"])
    return config


def _save_encoder(model: Encoder, config: Any, folder: Path) -> None:
    exported = AutoModel.from_config(config)  # type: ignore[no-untyped-call]
    exported.load_state_dict(model.encoder_parameters())
    exported.save_pretrained(folder)


def _save_classifier(model: CrossEncoder, config: Any, folder: Path) -> None:
    architecture = model.architecture
    config.num_labels = 1
    if architecture.classifier_activation and not model.saved:
        setattr(config, architecture.classifier_activation, "tanh")
    exported = AutoModelForSequenceClassification.from_config(config)  # type: ignore[no-untyped-call]
    prefix, encoder = exported.base_model_prefix, model.encoder_parameters().items()
    if isinstance(model.head, ClassificationHead):
        weights = {f"{prefix}.{name}": parameter for name, parameter in encoder if not name.startswith("pooler.")}
        weights |= model.head.name_weights()
    else:
        assert model.pooler is not None
        assert architecture.classifier is not None
        own_pooler = {*model.pooler.parameters()}
        weights = {f"{prefix}.{name}": parameter for name, parameter in encoder if parameter not in own_pooler}
        dense, output = architecture.classifier
        weights |= {f"{dense}.{name}": parameter for name, parameter in model.pooler.dense.named_parameters()}
        weights |= {f"{output}.{name}": value for name, value in _make_score_layer(model).items()}
    exported.load_state_dict(weights)
    exported.save_pretrained(folder)


def _make_pooling(model: CrossEncoder, tokenizer: PreTrainedTokenizerBase) -> Module:
    if model.pooling != "cosine":
        pooling: Module = Pooling(model.hidden_size, "cls" if model.pooling == "first" else model.pooling)
        return pooling
    _, between, _ = get_special_tokens(tokenizer, 2)
    return cosine_pooling.CosinePooling(int(between[0]), len(between))


def _make_dense_layers(model: CrossEncoder) -> list[Dense]:
    """Return the layers between the pooled output and the score, which a cross-encoder expects under this name."""
    if isinstance(model.head, DenseHead):
        for layer in model.head.layers:
            layer.out_features = layer.linear.out_features
        return [*model.head.layers]
    layers = []
    if model.pooler is not None:
        dense = model.pooler.dense
        layers.append(Dense(dense.in_features, dense.out_features, True, nn.Tanh(), dense.weight.data, dense.bias.data))
    score = _make_score_layer(model)
    size = score["weight"].shape[1]
    output = Dense(size, 1, True, nn.Identity(), score["weight"], score["bias"], module_output_name="scores")
    return [*layers, output]


def _make_score_layer(model: CrossEncoder) -> dict[str, Tensor]:
    """Return weight, (1, inputs), and bias, (1,), of the layer that has the score as its only output.

    For a cosine, the layer also does the standardisation.
    """
    assert isinstance(model.head, nn.Linear)
    weight, bias = model.head.weight.detach(), model.head.bias.detach()
    if model.outputs == 2:
        last = 1 if model.ranking_score == "difference" else 0
        weight, bias = weight[1:] - last * weight[:1], bias[1:] - last * bias[:1]
    if model.pooling == "cosine":
        weight = weight / model.cosine_std
        bias = bias - model.cosine_mean * weight[:, 0]
    return {"weight": weight.clone(), "bias": bias.clone()}


def _add_cosine_code(folder: Path) -> None:
    """Put the code of the cosine pooling into the folder, and refer to it there."""
    shutil.copyfile(str(cosine_pooling.__file__), folder / _COSINE_FILE)
    file = folder / "modules.json"
    modules = json.loads(file.read_text(encoding="utf-8"))
    for module in modules:
        module["type"] = module["type"].removeprefix("trainables.exchange.")
    file.write_text(json.dumps(modules, indent=2), encoding="utf-8")
