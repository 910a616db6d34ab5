"""A BERT-like encoder, split into a frozen lower and a trained upper part, and fresh layers on top of it."""

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
    """What models have in common.

    Args:
        base: transformers' own model.
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
        """The parameters that training changes, by name."""
        return {name: parameter for name, parameter in self.named_parameters() if parameter.requires_grad}

    def head_parameters(self) -> dict[str, Tensor]:
        """Those of them that no checkpoint has: the head's."""
        return {name: parameter for name, parameter in self.trainable_parameters().items() if name.startswith("head.")}

    def run_frozen_layers(self, batch: PackedBatch) -> Tensor:
        """What the embeddings and the frozen layers make of token ids: (tokens, hidden)."""
        assert self.lower is not None
        embeddings, *layers = self.lower
        inputs, layout = self._to_device(batch)
        with torch.no_grad():
            hidden = embed_tokens(embeddings, inputs, layout, self.token_types, NO_DROPOUT)
            return run_layers(layers, hidden, layout, NO_DROPOUT)

    def encode(self, batch: PackedBatch, dropout: Dropout) -> tuple[Tensor, PackedLayout]:
        """The last layer's (tokens, hidden) of token ids, or of the frozen part's output where there is one."""
        hidden, layout = self._to_device(batch)
        if self.embeddings is not None:
            hidden = embed_tokens(self.embeddings, hidden, layout, self.token_types, dropout)
        return run_layers(list(self.upper), hidden, layout, dropout), layout

    def _to_device(self, batch: PackedBatch) -> tuple[Tensor, PackedLayout]:
        """Inputs and layout on the model's device."""
        batch = batch._replace(inputs=batch.inputs.to(next(self.parameters()).device))
        return batch.inputs, PackedLayout(batch)


def load_pretrained(path: Path, seed: int, vocabulary_size: int = 0) -> Any:
    """transformers' own model; the next draws of torch are those of the seed's head.

    Args:
        path: folder with the model's files (safetensors; nothing is unpickled).
        seed: of whatever the files lack.
        vocabulary: tokens that must be known; embeddings of those that the model lacks are drawn, the same for every
            seed, since frozen layers are shared.
    """
    torch.manual_seed(derive_seed(seed, "head", 0))
    # In evaluation mode for good: dropout is `Dropout`, never the modules' own.
    base = AutoModel.from_pretrained(path, use_safetensors=True, local_files_only=True).eval()
    check_architecture(base.config.model_type)
    if vocabulary_size > base.config.vocab_size:
        with torch.random.fork_rng():
            torch.manual_seed(derive_seed(0, "added tokens", 0))
            base.resize_token_embeddings(vocabulary_size, mean_resizing=False)
    return base


def make_linear(base: Any, inputs: int, outputs: int) -> nn.Linear:
    """A dense layer drawn as the model's own were."""
    layer = nn.Linear(inputs, outputs)
    nn.init.normal_(layer.weight, std=base.config.initializer_range)
    nn.init.zeros_(layer.bias)
    return layer


def reinitialize(layers: Iterable[nn.Module], std: float, seed: int) -> None:
    """Gives layers the random weights with which BERT is pretrained: normal ones of this deviation, biases 0, and
    normalisation that changes nothing (Devlin et al. 2019, as in their code)."""
    drawn = torch.Generator().manual_seed(derive_seed(seed, "fresh layers", 0))
    with torch.no_grad():
        for module in (module for layer in layers for module in layer.modules()):
            if isinstance(module, nn.Linear):
                module.weight.normal_(0.0, std, generator=drawn)
                module.bias.zero_()
            elif isinstance(module, nn.LayerNorm):
                module.reset_parameters()
