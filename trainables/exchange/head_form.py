"""Reads from a folder what kind of head a saved cross-encoder has; loads no torch.

In the first kind of folder, transformers saves a model for sequence classification with one or two labels. In the
second, sentence-transformers saves a `CrossEncoder` as modules: Transformer, Pooling and Dense layers. The pooling may
be this project's `CosinePooling`, which is computed here: code in a folder is never run.
"""

from pathlib import Path
from typing import Any, Literal, NamedTuple

from trainables.models.model_json import read_json_object, read_modules
from trainables.models.pretrained import check_model_settings, read_weight_shapes
from trainables.specs.run_spec import BaseModelSettings
from trainables.utils.errors import UserError

SavedPooling = Literal["first", "mean", "cosine"]
"""Output of the first token of each pair, mean over its tokens, or cosine between the means of query and document."""
TWO_LABELS = 2
_CLASSIFIER = "ForSequenceClassification"
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


class HeadForm(NamedTuple):
    """Head of a saved cross-encoder.

    Attributes:
        pooling: input of the head.
        dense: folders of its layers. Empty if transformers saved it as a model for sequence classification.
        separator: what is between query and document; None unless the pooling is the cosine.
    """

    pooling: SavedPooling
    dense: tuple[str, ...] = ()
    separator: Separator | None = None

    @property
    def is_classifier(self) -> bool:
        """True if transformers saved the head, as that of a model for sequence classification."""
        return not self.dense


def check_model(path: Path, model: BaseModelSettings) -> None:
    """Raise an error for settings that the model does not support, see `check_model_settings`, or for its missing head.

    Raises:
        UserError: the settings are not supported; or they ask for the head in the folder, which has none.
    """
    check_model_settings(path, model)
    if not model.has_saved_head or not read_head_form(path, "model.name").is_classifier:
        return
    if not any(name.startswith("classifier.") for name in read_weight_shapes(path)):
        raise UserError("model.name", f"{path.name!r} has no weights of its head", "the weights of all layers")


def read_head_form(path: Path, key: str = "MODEL") -> HeadForm:
    """Return the form of the head in a folder.

    Args:
        path: folder with the model's files.
        key: name of the setting, for error messages.

    Raises:
        UserError: if the folder has another kind of model, a module, pooling or activation function that is not known,
            or another number of labels.
    """
    config = read_json_object(path / "config.json", key)
    names = config.get("architectures")
    name = str(names[0]) if isinstance(names, list) and names else "model without architecture"
    modules = read_modules(path, key, (_COSINE,))
    if modules and _read_settings(path / "config_sentence_transformers.json", key).get("default_prompt_name"):
        raise UserError(key, f"{path.name!r} puts a prompt before every text", "a model without a default prompt")
    if modules and _read_settings(path / "sentence_bert_config.json", key).get("do_lower_case"):
        raise UserError(key, f"{path.name!r} lower-cases texts before its tokenizer", "a tokenizer that does so")
    if len(modules) <= 1 and name.endswith(_CLASSIFIER):
        _check_labels(path, config.get("num_labels") or len(config.get("id2label") or "ab"), key)
        return HeadForm("mean" if config.get("classifier_pooling") == "mean" else "first")
    if not modules:
        raise UserError(key, f"{path.name!r} has a {name}", _EXPECTED)
    kinds = [module.kind for module in modules]
    beginnings = ["Transformer", "Pooling"], ["Transformer", "CosinePooling"]
    if kinds[:2] not in beginnings or set(kinds[2:]) != {"Dense"}:
        raise UserError(key, f"{path.name!r} has the modules {', '.join(kinds)}", _EXPECTED)
    separator = _read_separator(path / modules[1].folder, key) if kinds[1] == "CosinePooling" else None
    pooling: SavedPooling = "cosine" if separator else _read_pooling(path / modules[1].folder, key)
    dense = tuple(module.folder for module in modules[2:])
    layers = [_read_dense(path, folder, key) for folder in dense]
    output = layers[-1].get("module_output_name")
    if output != "scores":
        raise UserError(key, f"the last Dense layer of {path.name!r} has the output {output!r}", 'the output "scores"')
    _check_labels(path, layers[-1].get("out_features", 0), key)
    return HeadForm(pooling, dense, separator)


def _read_settings(file: Path, key: str) -> dict[str, Any]:
    return read_json_object(file, key, missing={})


def _read_separator(folder: Path, key: str) -> Separator:
    settings = _read_settings(folder / "config.json", key)
    try:
        return Separator(int(settings["separator"]), int(settings["n_separators"]))
    except (KeyError, TypeError, ValueError) as error:
        expected = "separator and n_separators, as the export wrote them"
        raise UserError(key, f"{folder.parent.name}/{folder.name}/config.json is damaged", expected) from error


def _read_pooling(folder: Path, key: str) -> SavedPooling:
    settings = _read_settings(folder / "config.json", key)
    legacy = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
    modes = settings.get("pooling_mode") or [
        legacy.get(name, name) for name, value in settings.items() if name.startswith("pooling_mode_") and value is True
    ]
    poolings: dict[str, SavedPooling] = {"cls": "first", "mean": "mean"}
    name = modes if isinstance(modes, str) else ", ".join(modes) or "mean"
    if name not in poolings:
        raise UserError(key, f"{folder.parent.name!r} has the pooling {name}", "the pooling cls or mean")
    return poolings[name]


def _read_dense(path: Path, folder: str, key: str) -> dict[str, Any]:
    settings = _read_settings(path / folder / "config.json", key)
    activation = settings.get("activation_function", "torch.")
    if not str(activation).startswith("torch."):
        raise UserError(key, f"{path.name}/{folder} has the activation {activation}", "an activation of torch")
    if not (path / folder / "model.safetensors").is_file():
        raise UserError(key, f"no model.safetensors in {path.name}/{folder}", "weights as safetensors")
    return settings


def _check_labels(path: Path, n_labels: object, key: str) -> None:
    if n_labels not in (1, TWO_LABELS):
        raise UserError(key, f"{path.name!r} has {n_labels} labels", "1 label, or 2 with label 1 for relevant")
