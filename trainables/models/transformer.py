"""A BERT-like encoder, split into a frozen lower and a trained upper part, and fresh layers on top of it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModel

from trainables.models.dropout import NONE, Dropout
from trainables.models.packing import Batch, Layout, embedded, through
from trainables.models.pretrained import check_architecture
from trainables.specs.base import CommonModel
from trainables.utils.random import counter


class Transformer(nn.Module):
    """What models have in common.

    Args:
        base: transformers' own model.
        settings: layers, frozen layers.
    """

    def __init__(self, base: Any, settings: CommonModel) -> None:
        super().__init__()
        layers = base.encoder.layer[: settings.layers]
        self.hidden = int(base.config.hidden_size)
        self.token_types = int(base.config.type_vocab_size)
        frozen = settings.frozen_layers > 0
        self.lower = nn.ModuleList([base.embeddings, *layers[: settings.frozen_layers]]) if frozen else None
        self.embeddings = None if frozen else base.embeddings
        self.upper = nn.ModuleList(layers[settings.frozen_layers :])
        if self.lower is not None:
            self.lower.requires_grad_(False)

    def trained(self) -> dict[str, Tensor]:
        """The parameters that training changes, by name."""
        return {name: parameter for name, parameter in self.named_parameters() if parameter.requires_grad}

    def fresh(self) -> dict[str, Tensor]:
        """Those of them that no checkpoint has: the head's."""
        return {name: parameter for name, parameter in self.trained().items() if name.startswith("head.")}

    def frozen_output(self, batch: Batch) -> Tensor:
        """What the embeddings and the frozen layers make of token ids: (tokens, hidden)."""
        assert self.lower is not None
        embeddings, *layers = self.lower
        inputs, layout = self._here(batch)
        with torch.no_grad():
            hidden = embedded(embeddings, inputs, layout, self.token_types, NONE)
            return through(layers, hidden, layout, NONE)

    def encoded(self, batch: Batch, dropout: Dropout) -> tuple[Tensor, Layout]:
        """The last layer's (tokens, hidden) of token ids, or of the frozen part's output where there is one."""
        hidden, layout = self._here(batch)
        if self.embeddings is not None:
            hidden = embedded(self.embeddings, hidden, layout, self.token_types, dropout)
        return through(list(self.upper), hidden, layout, dropout), layout

    def _here(self, batch: Batch) -> tuple[Tensor, Layout]:
        """Inputs and layout on the model's device."""
        batch = batch._replace(inputs=batch.inputs.to(next(self.parameters()).device))
        return batch.inputs, Layout(batch)


def pretrained(path: Path, seed: int, vocabulary: int = 0) -> Any:
    """transformers' own model; the next draws of torch are those of the seed's head.

    Args:
        path: folder with the model's files (safetensors; nothing is unpickled).
        seed: of whatever the files lack.
        vocabulary: tokens that must be known; embeddings of those that the model lacks are drawn, the same for every
            seed, since frozen layers are shared.
    """
    torch.manual_seed(counter(seed, "head", 0))
    # In evaluation mode for good: dropout is `Dropout`, never the modules' own.
    base = AutoModel.from_pretrained(path, use_safetensors=True, local_files_only=True).eval()
    check_architecture(base.config.model_type)
    if vocabulary > base.config.vocab_size:
        with torch.random.fork_rng():
            torch.manual_seed(counter(0, "added tokens", 0))
            base.resize_token_embeddings(vocabulary, mean_resizing=False)
    return base


def fresh_layer(base: Any, inputs: int, outputs: int) -> nn.Linear:
    """A dense layer drawn as the model's own were."""
    layer = nn.Linear(inputs, outputs)
    nn.init.normal_(layer.weight, std=base.config.initializer_range)
    nn.init.zeros_(layer.bias)
    return layer


def redraw(layers: Iterable[nn.Module], spread: float, seed: int) -> None:
    """Gives layers the random weights with which BERT is pretrained: normal ones of this deviation, biases 0, and
    normalisation that changes nothing (Devlin et al. 2019, as in their code)."""
    drawn = torch.Generator().manual_seed(counter(seed, "fresh layers", 0))
    with torch.no_grad():
        for module in (module for layer in layers for module in layer.modules()):
            if isinstance(module, nn.Linear):
                module.weight.normal_(0.0, spread, generator=drawn)
                module.bias.zero_()
            elif isinstance(module, nn.LayerNorm):
                module.reset_parameters()
