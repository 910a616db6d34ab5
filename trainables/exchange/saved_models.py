"""Writes a trained model as a folder that sentence-transformers and transformers load.

A ranker becomes the model for sequence classification of its architecture, where that has the same head: a dense layer,
tanh and an output layer over the first token. Any other becomes modules of sentence-transformers: the encoder, a
pooling and dense layers. So does one of the first kind if the user asks for it, because that library computes without
padding on a GPU only what is made of modules. Every ranker has one output, the score by which the study ranks.

Adapters are merged into the weights, or written without them, with pooling and head, as peft does.
"""

import json
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from sentence_transformers import CrossEncoder as ExportedCrossEncoder
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Module, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedTokenizerBase,
)

from trainables.exchange import cosine_pooling
from trainables.exchange.classifier import ClassificationHead, DenseHead
from trainables.models.cross_encoder import CrossEncoder
from trainables.models.dense_layers import make_adapter_config
from trainables.models.sentence_encoder import SentenceEncoder
from trainables.models.transformer import Transformer as Encoder
from trainables.specs.ranker import RankerModelSettings
from trainables.text.tokens import get_special_tokens

ADAPTER_FILE = "adapter_config.json"
"""Name of the file in the folder of an adapter that describes it."""
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


def save_adapter(
    model: CrossEncoder, settings: RankerModelSettings, path: Path, tokenizer: PreTrainedTokenizerBase, folder: Path
) -> None:
    """Write what was trained of a ranker with adapters as an adapter of peft; needs `has_classifier`.

    It belongs to the model for sequence classification of transformers that the configuration in the folder describes.
    """
    with torch.device("meta"):
        base = _make_classifier(model, _read_config(model, path))
    adapters, head = model.adapter_parameters(), _name_head(model)
    targets = sorted({name.partition(".lora_")[0] for name in adapters})
    trained = [part for part in ("classifier", "pooler") if any(part in name.split(".") for name in head)]
    kind = {"task_type": "SEQ_CLS", "inference_mode": True}
    config = make_adapter_config(settings.lora, targets, modules_to_save=trained, **kind)
    tokenizer.model_max_length = settings.max_length
    for saved in (config, base.config, tokenizer):
        saved.save_pretrained(folder)
    weights = {f"{base.base_model_prefix}.{name}": own for name, own in adapters.items()} | head
    tensors = {f"base_model.model.{name}": own.detach().contiguous() for name, own in weights.items()}
    save_file(tensors, folder / "adapter_model.safetensors")


def score_with_adapter(folder: Path, path: Path, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
    """Return the scores of pairs as users of a written adapter compute them; `path` has the pretrained model."""
    from peft import PeftModel

    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    options = {"config": config, "dtype": torch.float32, "local_files_only": True}
    base = AutoModelForSequenceClassification.from_pretrained(path, **options)
    with warnings.catch_warnings(action="ignore", category=FutureWarning):  # peft's, for those who write it
        model = PeftModel.from_pretrained(base, str(folder))
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    queries, documents = map(list, zip(*pairs, strict=True))
    inputs = tokenizer(queries, documents, padding=True, truncation="longest_first", return_tensors="pt")
    with torch.inference_mode():
        scores: np.ndarray = model.eval()(**inputs).logits[:, 0].double().numpy()
    return scores


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


def _make_classifier(model: CrossEncoder, config: Any) -> Any:
    config.num_labels = 1
    if model.architecture.classifier_activation and not model.saved:
        setattr(config, model.architecture.classifier_activation, "tanh")
    return AutoModelForSequenceClassification.from_config(config)  # type: ignore[no-untyped-call]


def _name_head(model: CrossEncoder) -> dict[str, Tensor]:
    """Return the parameters of pooling and head by their names in the model for sequence classification."""
    if isinstance(model.head, ClassificationHead):
        return model.head.name_weights()
    assert model.pooler is not None
    assert model.architecture.classifier is not None
    dense, output = model.architecture.classifier
    weights: dict[str, Tensor] = {f"{dense}.{name}": own for name, own in model.pooler.dense.named_parameters()}
    return weights | {f"{output}.{name}": value for name, value in _make_score_layer(model).items()}


def _save_classifier(model: CrossEncoder, config: Any, folder: Path) -> None:
    exported = _make_classifier(model, config)
    prefix, encoder = exported.base_model_prefix, model.encoder_parameters().items()
    if isinstance(model.head, ClassificationHead):
        weights = {f"{prefix}.{name}": parameter for name, parameter in encoder if not name.startswith("pooler.")}
    else:
        assert model.pooler is not None
        own_pooler = {*model.pooler.parameters()}
        weights = {f"{prefix}.{name}": parameter for name, parameter in encoder if parameter not in own_pooler}
    exported.load_state_dict(weights | _name_head(model))
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
