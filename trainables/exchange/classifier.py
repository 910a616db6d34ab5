"""Cross-encoders as other libraries save them: their encoder runs packed, their head is the library's own.

Two kinds of folders are read. In the first, transformers saves a model for sequence classification with one or two
labels. In the second, sentence-transformers saves a `CrossEncoder` as modules: Transformer, Pooling and Dense layers.
The pooling may be this project's `CosinePooling`, which is computed here: code in a folder is never run.
"""

from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification
from transformers.modeling_outputs import BaseModelOutputWithPooling

from trainables.models.architectures import get_architecture
from trainables.models.attention import use_packed_attention
from trainables.models.dropout import NO_DROPOUT
from trainables.models.model_json import ModelModule, read_json_object, read_modules
from trainables.models.packing import PackedBatch, PackedLayout
from trainables.models.pretrained import check_model_settings, report_unloadable
from trainables.models.transformer import Transformer
from trainables.specs.run_spec import BaseModelSettings
from trainables.utils.errors import UserError

Pooling = Literal["first", "mean", "cosine"]
_CLASSIFIER = "ForSequenceClassification"
_TWO_LABELS = 2
_COSINE = "cosine_pooling.CosinePooling"
"""Type of the cosine pooling in modules.json."""
_EXPECTED = (
    "a model for sequence classification with 1 or 2 labels, or a CrossEncoder of sentence-transformers with the "
    "modules Transformer, Pooling and Dense"
)


class Separator(NamedTuple):
    """Tokens between query and document."""

    token: int
    length: int


class Classifier(nn.Module):
    """Computes the score of query-document pairs with a loaded cross-encoder.

    Args:
        encoder: encoder, packed.
        pooling: "first" for the output of the first token of each pair, "mean" for the mean over its tokens, "cosine"
            for the cosine between the means over its query and over its document.
        head: returns the logits, shape (pairs, 1 or 2), of pooled outputs of shape (pairs, hidden), or (pairs, 1) of a
            cosine.
        separator: what is between query and document; needed for the cosine.
    """

    def __init__(
        self, encoder: Transformer, pooling: Pooling, head: nn.Module, separator: Separator | None = None
    ) -> None:
        super().__init__()
        self.encoder, self.pooling, self.head, self._separator = encoder, pooling, head, separator

    def compute_logits(self, batch: PackedBatch) -> Tensor:
        """Return the logits of the pairs, shape (pairs, 1 or 2)."""
        hidden, layout = self.encoder.encode(batch, NO_DROPOUT, first_only=self.pooling == "first")
        with torch.autocast(layout.device.type, enabled=False):
            pooled = hidden.float()
            if self.pooling == "mean":
                pooled = layout.mean_pool(pooled)
            elif self.pooling == "cosine":
                parted = PackedLayout(batch._replace(starts=self._find_documents(batch)), layout.device)
                parts = parted.mean_pool_parts(pooled)
                pooled = nn.functional.cosine_similarity(*parts, dim=1)[:, None]
            logits: Tensor = self.head(pooled)
        return logits

    def _find_documents(self, batch: PackedBatch) -> np.ndarray:
        """Return the position in each pair at which the document begins, shape (pairs,)."""
        assert self._separator is not None
        pairs = np.split(batch.inputs.numpy(), np.cumsum(batch.lengths)[:-1])
        # Some models begin with the token that separates.
        firsts = [1 + int((ids[1:] == self._separator.token).argmax()) for ids in pairs]
        return np.array(firsts) + self._separator.length

    def forward(self, batch: PackedBatch) -> Tensor:
        """Return the scores of the pairs, float32 of shape (pairs,).

        The score is the only logit, or with two labels the logit of label 1 minus that of label 0.
        """
        logits = self.compute_logits(batch)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == _TWO_LABELS else logits[:, 0]


def load_classifier(path: Path) -> Classifier:
    """Return the cross-encoder of a folder, in fp32 and in evaluation mode.

    Args:
        path: folder with the model's files (safetensors; nothing is unpickled).

    Raises:
        UserError: if the folder has another kind of model, a module or an activation function that is not known,
            another number of labels, an unknown architecture, or weights that do not fit.
    """
    check_model_settings(path, BaseModelSettings(max_length=8))
    names = _read_settings(path / "config.json").get("architectures")
    name = str(names[0]) if isinstance(names, list) and names else "model without architecture"
    modules = read_modules(path, "MODEL", (_COSINE,))
    if modules and _read_settings(path / "config_sentence_transformers.json").get("default_prompt_name"):
        raise UserError("MODEL", f"{path.name!r} puts a prompt before every text", "a model without a default prompt")
    if modules and _read_settings(path / "sentence_bert_config.json").get("do_lower_case"):
        raise UserError("MODEL", f"{path.name!r} lower-cases texts before its tokenizer", "a tokenizer that does so")
    if len(modules) <= 1 and name.endswith(_CLASSIFIER):
        return _load_sequence_classifier(path).eval()
    if not modules:
        raise UserError("MODEL", f"{path.name!r} has a {name}", _EXPECTED)
    return _load_cross_encoder(path, modules).eval()


def _load_sequence_classifier(path: Path) -> Classifier:
    config = _load_config(path)
    _check_labels(path, int(config.num_labels))
    model = _load_weights(AutoModelForSequenceClassification, path, config)
    encoder = getattr(model, model.base_model_prefix)
    # The model's own forward pass computes the logits of what is pooled already, so that every head is right.
    setattr(model, model.base_model_prefix, _PooledEncoder(encoder))
    pooling: Pooling = "mean" if getattr(config, "classifier_pooling", "cls") == "mean" else "first"
    return Classifier(_pack(encoder), pooling, _ClassificationHead(model))


def _load_cross_encoder(path: Path, modules: list[ModelModule]) -> Classifier:
    from sentence_transformers.base.modules import Dense

    kinds = [module.kind for module in modules]
    beginnings = ["Transformer", "Pooling"], ["Transformer", "CosinePooling"]
    if kinds[:2] not in beginnings or set(kinds[2:]) != {"Dense"}:
        raise UserError("MODEL", f"{path.name!r} has the modules {', '.join(kinds)}", _EXPECTED)
    separator = _read_separator(path / modules[1].folder) if kinds[1] == "CosinePooling" else None
    pooling: Pooling = "cosine" if separator else _read_pooling(path / modules[1].folder)
    layers = list[Any]()
    for module in modules[2:]:
        _check_dense(path, module.folder)
        with report_unloadable(path, "MODEL"):
            layers.append(Dense.load(str(path), subfolder=module.folder, local_files_only=True))
    if layers[-1].module_output_name != "scores":
        raise UserError(
            "MODEL",
            f"the last Dense layer of {path.name!r} has the output {layers[-1].module_output_name!r}",
            'the output "scores"',
        )
    _check_labels(path, int(layers[-1].out_features))
    encoder = _load_weights(AutoModel, path, _load_config(path))
    return Classifier(_pack(encoder), pooling, _DenseHead(layers), separator)


def _load_config(path: Path) -> Any:
    with report_unloadable(path, "MODEL"):
        return AutoConfig.from_pretrained(path, local_files_only=True)


def _load_weights(loader: Any, path: Path, config: Any) -> Any:
    """Return the model of transformers, with all of its weights from the file but those of an unused pooler."""
    options = {"dtype": torch.float32, "use_safetensors": True, "local_files_only": True, "output_loading_info": True}
    with report_unloadable(path, "MODEL"):
        model, info = loader.from_pretrained(path, config=config, **options)
    unused = "pooler." if loader is AutoModel else None
    if missing := sorted(name for name in info["missing_keys"] if unused is None or not name.startswith(unused)):
        raise UserError("MODEL", f"{path.name!r} has no weights for {missing[0]}", "the weights of all layers")
    return model


def _pack(encoder: Any) -> Transformer:
    if get_architecture(encoder.config.model_type).padding_mask is None:
        use_packed_attention(encoder)
    return Transformer(encoder.eval(), BaseModelSettings())


class _PooledEncoder(nn.Module):
    """Takes the place of the encoder in a model for sequence classification.

    Its input are pooled outputs of shape (pairs, hidden), which it returns as texts of one token.
    """

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self._pooler, self._activation = getattr(encoder, "pooler", None), getattr(encoder, "pooler_activation", None)

    def forward(self, input_ids: Tensor, **ignored: Any) -> BaseModelOutputWithPooling:
        hidden = input_ids[:, None]
        pooled = None if self._pooler is None else self._pooler(hidden if self._activation is None else input_ids)
        if pooled is not None and self._activation is not None:
            pooled = self._activation(pooled)
        return BaseModelOutputWithPooling(last_hidden_state=hidden, pooler_output=pooled)


class _ClassificationHead(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self._model = model

    def forward(self, pooled: Tensor) -> Tensor:
        logits: Tensor = self._model(input_ids=pooled).logits
        return logits


class _DenseHead(nn.Module):
    def __init__(self, layers: list[Any]) -> None:
        super().__init__()
        self._layers = nn.ModuleList(layers)

    def forward(self, pooled: Tensor) -> Tensor:
        features = {"sentence_embedding": pooled}
        for layer in self._layers:
            features = layer(features)
        return features["scores"]


def _read_settings(file: Path) -> dict[str, Any]:
    return read_json_object(file, "MODEL", missing={})


def _read_separator(folder: Path) -> Separator:
    settings = _read_settings(folder / "config.json")
    try:
        return Separator(int(settings["separator"]), int(settings["n_separators"]))
    except (KeyError, TypeError, ValueError) as error:
        expected = "separator and n_separators, as the export wrote them"
        raise UserError("MODEL", f"{folder.parent.name}/{folder.name}/config.json is damaged", expected) from error


def _read_pooling(folder: Path) -> Pooling:
    settings = _read_settings(folder / "config.json")
    legacy = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
    modes = settings.get("pooling_mode") or [
        legacy.get(key, key) for key, value in settings.items() if key.startswith("pooling_mode_") and value is True
    ]
    poolings: dict[str, Pooling] = {"cls": "first", "mean": "mean"}
    name = modes if isinstance(modes, str) else ", ".join(modes) or "mean"
    if name not in poolings:
        raise UserError("MODEL", f"{folder.parent.name!r} has the pooling {name}", "the pooling cls or mean")
    return poolings[name]


def _check_dense(path: Path, folder: str) -> None:
    activation = _read_settings(path / folder / "config.json").get("activation_function", "torch.")
    if not str(activation).startswith("torch."):
        raise UserError("MODEL", f"{path.name}/{folder} has the activation {activation}", "an activation of torch")
    if not (path / folder / "model.safetensors").is_file():
        raise UserError("MODEL", f"no model.safetensors in {path.name}/{folder}", "weights as safetensors")


def _check_labels(path: Path, n_labels: int) -> None:
    if n_labels > _TWO_LABELS:
        raise UserError("MODEL", f"{path.name!r} has {n_labels} labels", "1 label, or 2 with label 1 for relevant")
