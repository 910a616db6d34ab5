"""BERT-like encoder, split into frozen lower layers and trained upper layers, and fresh layers."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModel

from trainables.models.dropout import NO_DROPOUT, Dropout
from trainables.models.packing import PackedBatch, PackedLayout, embed_tokens, run_layers
from trainables.models.pretrained import check_architecture
from trainables.specs.base import BaseModelSettings
from trainables.utils.random import derive_seed


class Transformer(nn.Module):
    """Common base of the models: frozen lower layers and trained upper layers.

    Args:
        base: model of transformers.
        settings: layers, frozen layers.
    """

    def __init__(self, base: Any, settings: BaseModelSettings) -> None:
        super().__init__()
        layers = base.encoder.layer[: settings.layers]
        self.hidden_size = int(base.config.hidden_size)
        self.token_types = int(base.config.type_vocab_size)
        frozen = settings.frozen_layers > 0
        self.lower = nn.ModuleList([base.embeddings, *layers[: settings.frozen_layers]]) if frozen else None
        self.embeddings = None if frozen else base.embeddings
        self.upper = nn.ModuleList(layers[settings.frozen_layers :])
        if self.lower is not None:
            self.lower.requires_grad_(False)

    def trainable_parameters(self) -> dict[str, Tensor]:
        """Return the parameters that training changes, by name."""
        return {name: parameter for name, parameter in self.named_parameters() if parameter.requires_grad}

    def head_parameters(self) -> dict[str, Tensor]:
        """Return the trainable parameters of the head, which no pretrained model contains."""
        return {name: parameter for name, parameter in self.trainable_parameters().items() if name.startswith("head.")}

    def run_frozen_layers(self, batch: PackedBatch) -> Tensor:
        """Return the output of the embeddings and frozen layers for token ids, shape (tokens, hidden)."""
        assert self.lower is not None
        embeddings, *layers = self.lower
        inputs, layout = self._to_device(batch)
        with torch.no_grad():
            hidden = embed_tokens(embeddings, inputs, layout, self.token_types, NO_DROPOUT)
            return run_layers(layers, hidden, layout, NO_DROPOUT)

    def encode(self, batch: PackedBatch, dropout: Dropout) -> tuple[Tensor, PackedLayout]:
        """Return the last layer's output of shape (tokens, hidden), and the layout of the batch.

        Args:
            batch: token ids, or outputs of the frozen layers if there are any.
            dropout: dropout of this pass.
        """
        hidden, layout = self._to_device(batch)
        if self.embeddings is not None:
            hidden = embed_tokens(self.embeddings, hidden, layout, self.token_types, dropout)
        return run_layers(list(self.upper), hidden, layout, dropout), layout

    def _to_device(self, batch: PackedBatch) -> tuple[Tensor, PackedLayout]:
        """Return inputs and layout on the model's device."""
        batch = batch._replace(inputs=batch.inputs.to(next(self.parameters()).device))
        return batch.inputs, PackedLayout(batch)


def load_pretrained(path: Path, seed: int, vocabulary_size: int = 0) -> Any:
    """Return the model of transformers; torch's next draws are those of the seed's head.

    Args:
        path: folder with the model's files (safetensors; nothing is unpickled).
        seed: seed of the parameters that the files lack.
        vocabulary_size: number of tokens that the model must know. Embeddings of tokens that the model lacks are drawn,
            and are the same for every seed, since frozen layers are shared. Default 0: no tokens are added.

    Raises:
        UserError: if the architecture is not one of the known types.
    """
    torch.manual_seed(derive_seed(seed, "head", 0))
    # The model stays in evaluation mode, because dropout is done by `Dropout`, never by the modules' own layers.
    base = AutoModel.from_pretrained(path, use_safetensors=True, local_files_only=True).eval()
    check_architecture(base.config.model_type)
    if vocabulary_size > base.config.vocab_size:
        with torch.random.fork_rng():
            torch.manual_seed(derive_seed(0, "added tokens", 0))
            base.resize_token_embeddings(vocabulary_size, mean_resizing=False)
    return base


def make_linear(base: Any, inputs: int, outputs: int) -> nn.Linear:
    """Return a dense layer with weights from the initial distribution of the model's own layers."""
    layer = nn.Linear(inputs, outputs)
    nn.init.normal_(layer.weight, std=base.config.initializer_range)
    nn.init.zeros_(layer.bias)
    return layer


def reinitialize(layers: Iterable[nn.Module], std: float, seed: int) -> None:
    """Give layers the random weights with which the pretraining of BERT starts.

    Weights are normal with this standard deviation, biases are 0, and normalisation changes nothing (Devlin et al.
    2019, as in their code).

    Args:
        layers: layers to change in place.
        std: standard deviation of the weights.
        seed: seed of the draws.
    """
    generator = torch.Generator().manual_seed(derive_seed(seed, "fresh layers", 0))
    with torch.no_grad():
        for module in (module for layer in layers for module in layer.modules()):
            if isinstance(module, nn.Linear):
                module.weight.normal_(0.0, std, generator=generator)
                module.bias.zero_()
            elif isinstance(module, nn.LayerNorm):
                module.reset_parameters()
