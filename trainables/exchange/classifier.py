"""Cross-encoders as other libraries save them: their encoder runs packed, their head is the library's own.

`trainables.exchange.head_form` says which folders are read.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification
from transformers.modeling_outputs import BaseModelOutputWithPooling

from trainables.exchange.head_form import TWO_LABELS, HeadForm, SavedPooling, Separator, read_head_form
from trainables.models.architectures import get_architecture
from trainables.models.attention import use_packed_attention
from trainables.models.cross_encoder import SavedHead
from trainables.models.dropout import NO_DROPOUT
from trainables.models.packing import PackedBatch, PackedLayout
from trainables.models.pretrained import check_model_settings, report_unloadable
from trainables.models.transformer import Transformer
from trainables.specs.run_spec import BaseModelSettings
from trainables.utils.errors import UserError


class Classifier(nn.Module):
    """Computes the score of query-document pairs with a loaded cross-encoder.

    Args:
        encoder: encoder, packed.
        pooling: input of the head.
        head: returns the logits, shape (pairs, 1 or 2), of pooled outputs of shape (pairs, hidden), or (pairs, 1) of a
            cosine.
        separator: what is between query and document; needed for the cosine.
    """

    def __init__(
        self, encoder: Transformer, pooling: SavedPooling, head: nn.Module, separator: Separator | None = None
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
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == TWO_LABELS else logits[:, 0]


def load_classifier(path: Path) -> Classifier:
    """Return the cross-encoder of a folder, in fp32 and in evaluation mode.

    Args:
        path: folder with the model's files (safetensors; nothing is unpickled).

    Raises:
        UserError: as `read_head_form` does, or for an unknown architecture, or weights that do not fit.
    """
    check_model_settings(path, BaseModelSettings(max_length=8))
    form = read_head_form(path)
    encoder, head = _load_parts(path, form)
    return Classifier(_pack(encoder), form.pooling, head, form.separator).eval()


def load_saved_head(path: Path) -> SavedHead:
    """Return the head of the cross-encoder in a folder, for training.

    A head with two labels becomes one with their difference, the score.

    Raises:
        UserError: as `load_classifier` does, or if the difference of two labels is not that of an output layer.
    """
    form = read_head_form(path, "model.name")
    _, head = _load_parts(path, form)
    last = head.last_layer
    if last.out_features == TWO_LABELS:
        if isinstance(head, DenseHead) and not head.is_linear:
            expected = "an output layer without activation, or 1 label"
            raise UserError("model.name", f"{path.name!r} has 2 labels with an activation", expected)
        last.weight = nn.Parameter(last.weight[1:] - last.weight[:1])
        last.bias = None if last.bias is None else nn.Parameter(last.bias[1:] - last.bias[:1])
        last.out_features = 1
    return SavedHead(form.pooling, head.eval())


def _load_parts(path: Path, form: HeadForm) -> tuple[Any, "ClassificationHead | DenseHead"]:
    """Return the encoder, a model of transformers, and the head."""
    with report_unloadable(path, "MODEL"):
        config = AutoConfig.from_pretrained(path, local_files_only=True)
    if form.is_classifier:
        model = _load_weights(AutoModelForSequenceClassification, path, config)
        encoder = getattr(model, model.base_model_prefix)
        # The model's own forward pass computes the logits of what is pooled already, so that every head is right.
        setattr(model, model.base_model_prefix, _PooledEncoder(encoder))
        return encoder, ClassificationHead(model)
    from sentence_transformers.base.modules import Dense  # takes seconds, and most models need it not

    with report_unloadable(path, "MODEL"):
        layers = [Dense.load(str(path), subfolder=folder, local_files_only=True) for folder in form.dense]
    return _load_weights(AutoModel, path, config), DenseHead(layers, has_dropout=form.pooling != "cosine")


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


class ClassificationHead(nn.Module):
    """Head of a model for sequence classification.

    Args:
        model: the model, with a `_PooledEncoder`.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    @property
    def last_layer(self) -> nn.Linear:
        """Layer that computes the logits."""
        return [module for module in self.model.modules() if isinstance(module, nn.Linear)][-1]

    def name_weights(self) -> dict[str, Tensor]:
        """Return the weights by their names in the model of transformers."""
        return {name.replace("._pooler.", ".pooler."): value for name, value in self.model.state_dict().items()}

    def forward(self, pooled: Tensor) -> Tensor:
        """Return the logits of outputs of the first tokens, shape (pairs, labels)."""
        logits: Tensor = self.model(input_ids=pooled).logits
        return logits


class DenseHead(nn.Module):
    """Dense layers of sentence-transformers, with dropout before the last one in training.

    Args:
        layers: the layers, of the class `Dense`.
        has_dropout: False for the layer over a cosine, which has no dropout.
    """

    def __init__(self, layers: list[Any], has_dropout: bool) -> None:
        super().__init__()
        self.layers: Any = nn.ModuleList(layers)
        self._dropout: nn.Module = nn.Dropout() if has_dropout else nn.Identity()

    @property
    def last_layer(self) -> nn.Linear:
        """Layer that computes the logits."""
        last: nn.Linear = self.layers[-1].linear
        return last

    @property
    def is_linear(self) -> bool:
        """True if the logits are what the last layer computes."""
        last = self.layers[-1]
        return isinstance(last.activation_function, nn.Identity) and not last.use_residual

    def forward(self, pooled: Tensor) -> Tensor:
        """Return the logits of pooled outputs, shape (pairs, labels)."""
        features = {"sentence_embedding": pooled}
        for layer in self.layers[:-1]:
            features = layer(features)
        features["sentence_embedding"] = self._dropout(features["sentence_embedding"])
        logits: Tensor = self.layers[-1](features)["scores"]
        return logits
