"""Encoder, split into frozen lower layers and trained upper layers, and fresh layers."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel

from trainables.models.architectures import get_architecture
from trainables.models.attention import PackedPass, can_attend_varlen, use_packed_attention
from trainables.models.dense_layers import add_adapters, join_projections, list_adapters
from trainables.models.dropout import NO_DROPOUT, AdapterDropoutPlace, Dropout, DropoutSource, replace_dropouts
from trainables.models.layers import (
    Embedder,
    LayerStack,
    PackedLayers,
    PaddedEncoder,
    Recomputation,
    get_part,
    list_layers,
    split_encoder,
)
from trainables.models.packing import PackedBatch, PackedLayout
from trainables.models.pretrained import report_unloadable
from trainables.specs.run_spec import BaseModelSettings
from trainables.utils.random import derive_seed


class Transformer(nn.Module):
    """Common base of the models: frozen lower layers and trained upper layers.

    Args:
        base: model of transformers, as `load_pretrained` returns it.
        settings: layers, frozen layers, adapters.
        seed: seed of the adapters.

    Attributes:
        architecture: places of the parts of the model.
        hidden_size: size of a hidden state.
        n_layers: number of layers, frozen ones included.
        token_types: number of token types that the model distinguishes, at least 1.
        dtype: precision of the weights of the embeddings and trained layers.
        recomputation: computes the layers.
        adapter_dropout: rate of the dropout before the adapters.
    """

    def __init__(self, base: Any, settings: BaseModelSettings, seed: int = 0) -> None:
        super().__init__()
        architecture, n_frozen = get_architecture(base.config.model_type), settings.frozen_layers
        self.architecture = architecture
        names = {parameter: name for name, parameter in base.named_parameters()}  # before its layers are split
        if architecture.padding_mask is None:
            join_projections(base, architecture.projections)
        all_layers = list_layers(base, architecture)
        layers = all_layers[: settings.num_layers]
        first, rest = nn.ModuleList(layers[:n_frozen]), nn.ModuleList(layers[n_frozen:])
        self.hidden_size, self.n_layers = int(base.config.hidden_size), len(layers)
        self._head_size = self.hidden_size // int(base.config.num_attention_heads)
        self.dtype = torch.float32
        self.token_types = max(1, int(getattr(base.config, "type_vocab_size", 1)))
        # Checkpoints have the names of these attributes. `upper` owns the layers that `encoder` also has.
        self.embeddings = None if n_frozen else base.embeddings
        self.projection = get_part(base, architecture.projection)
        self.upper = rest
        self.final_norm = get_part(base, architecture.final_norm)
        self.rotary = get_part(base, architecture.rotary)
        self._dropout = DropoutSource()
        self.recomputation = recomputation = Recomputation(self._dropout)
        self.encoder, frozen_parts = None, [base.embeddings, *first]
        self._run_lower: LayerStack = PackedLayers(first, self.rotary, architecture, recomputation)
        self._run_upper: LayerStack = PackedLayers(rest, self.rotary, architecture, recomputation)
        if architecture.padding_mask is not None:
            lower, self.encoder = split_encoder(base, architecture, first, rest)
            frozen_parts = [base.embeddings, lower]
            self._run_lower = PaddedEncoder(lower, first, architecture, recomputation)
            self._run_upper = PaddedEncoder(self.encoder, rest, architecture, recomputation)
        self.lower = nn.ModuleList(frozen_parts) if n_frozen else None
        if self.lower is not None:
            self.lower.requires_grad_(False)
            if self.projection is not None:
                self.projection.requires_grad_(False)
        self._embed = Embedder(base.embeddings, self.projection, architecture, self.token_types)
        replace_dropouts(self, self._dropout)
        self.adapter_dropout = settings.lora.dropout
        if settings.lora.rank is not None:
            self.requires_grad_(False)
            add_adapters(self.upper, settings.lora, seed)
            replace_dropouts(self.upper, self._dropout, AdapterDropoutPlace)
        # The pooler belongs to a subclass, or to none; the layers beyond `settings.num_layers` are not kept.
        unused = {each for layer in all_layers[len(layers) :] for each in layer.parameters()} - {*self.parameters()}
        self._base_names = {each: name for each, name in names.items() if each not in unused}

    @property
    def trained_word_embedding(self) -> nn.Embedding | None:
        """The embedding of token ids, or None if it is frozen."""
        words: nn.Embedding | None = get_part(self, self.architecture.word_embeddings)
        return words if words is not None and words.weight.requires_grad else None

    def trainable_parameters(self) -> dict[str, Tensor]:
        """Return the parameters that training changes, by name."""
        return {name: parameter for name, parameter in self.named_parameters() if parameter.requires_grad}

    def head_parameters(self) -> dict[str, Tensor]:
        """Return the trainable parameters of the head, which no pretrained model contains."""
        return {name: parameter for name, parameter in self.trainable_parameters().items() if name.startswith("head.")}

    def encoder_parameters(self) -> dict[str, Tensor]:
        """Return the parameters of the pretrained model, without unused layers, by their names in transformers."""
        return {name: parameter for parameter, name in self._base_names.items()}

    def adapter_parameters(self) -> dict[str, Tensor]:
        """Return the parameters of the adapters, by the names that peft gives them in the model of transformers."""
        named = ((self._base_names[weight].removesuffix(".weight"), *own) for weight, *own in list_adapters(self.upper))
        return {
            f"{name}.lora_{kind}.weight": own for name, *both in named for kind, own in zip("AB", both, strict=True)
        }

    def runs_without_padding(self, dtype: torch.dtype) -> bool:
        """Return whether attention needs no padding either, in this precision on the model's device."""
        device, is_packed = next(self.parameters()).device, self.architecture.padding_mask is None
        return is_packed and device.type == "cuda" and can_attend_varlen(device, dtype, self._head_size)

    def make_layout(self, batch: PackedBatch, is_filled: bool = False) -> PackedLayout:
        """Return a batch for the model's device; what the layers need of it goes there in one copy.

        Args:
            batch: the batch.
            is_filled: see `PackedLayout`. Such a batch is for a model that runs without padding.
        """
        layout = PackedLayout(batch, next(self.parameters()).device, is_filled)
        if layout.device.type == "cuda" and self.architecture.padding_mask is not None:
            _ = layout.padded_groups
        elif layout.device.type == "cuda" and not (is_filled or self.runs_without_padding(self.dtype)):
            _ = layout.groups
        return layout

    def run_frozen_layers(self, batch: PackedBatch) -> Tensor:
        """Return the output of the embeddings and frozen layers for token ids, shape (tokens, hidden)."""
        assert self.lower is not None
        layout = self.make_layout(batch)
        with torch.no_grad():
            return self._run_lower(self._embed(layout.read_inputs(), layout), PackedPass(layout, NO_DROPOUT), False)

    def encode(
        self, batch: PackedBatch | PackedLayout, dropout: Dropout, first_only: bool = False
    ) -> tuple[Tensor, PackedLayout]:
        """Return the last layer's output, and the layout of the batch.

        Args:
            batch: token ids, or outputs of the frozen layers if there are any; also as `make_layout` returns them.
            dropout: dropout of this pass.
            first_only: True for the output of the first token of each text, shape (texts, hidden), which most types of
                models compute without the others. False for that of all tokens, shape (tokens, hidden).
        """
        layout = batch if isinstance(batch, PackedLayout) else self.make_layout(batch)
        hidden = layout.read_inputs()
        with self._dropout.use(dropout):
            hidden = hidden.to(self.dtype) if self.embeddings is None else self._embed(hidden, layout)
            hidden = self._run_upper(hidden, PackedPass(layout, dropout), first_only)
            hidden = hidden if self.final_norm is None else self.final_norm(hidden)
        return hidden if self.dtype == torch.float32 else hidden.float(), layout


class Pooler(nn.Module):
    """[CLS] pooling: a dense layer and tanh (Devlin et al. 2019)."""

    def __init__(self, dense: nn.Linear) -> None:
        super().__init__()
        self.dense = dense

    def forward(self, first: Tensor) -> Tensor:
        """Return the pooled output for the hidden states of the first tokens, both of shape (pairs, hidden)."""
        return torch.tanh(self.dense(first))


def load_pretrained(path: Path, seed: int, vocabulary_size: int = 0) -> Any:
    """Return the model of transformers; torch's next draws are those of the seed's head.

    Args:
        path: folder with the model's files (safetensors; nothing is unpickled).
        seed: seed of the parameters that the files lack.
        vocabulary_size: number of tokens that the model must know. Embeddings of tokens that the model lacks are drawn,
            and are the same for every seed, since frozen layers are shared. Default 0: no tokens are added.

    Raises:
        UserError: if the architecture is not one of the known types, or the files do not fit each other.
    """
    with report_unloadable(path):
        config = AutoConfig.from_pretrained(path, local_files_only=True)
        architecture = get_architecture(config.model_type)
        for name in architecture.dropouts:
            setattr(config, name, 0.5)  # any number: the rate is that of `Dropout`
        torch.manual_seed(derive_seed(seed, "head", 0))
        # The model stays in evaluation mode, because dropout is done by `Dropout`, never by the modules' own layers.
        base = AutoModel.from_pretrained(
            path, config=config, dtype=torch.float32, use_safetensors=True, local_files_only=True
        ).eval()
    if architecture.padding_mask is None:
        use_packed_attention(base)
    if vocabulary_size > base.config.vocab_size:
        with torch.random.fork_rng():
            torch.manual_seed(derive_seed(0, "added tokens", 0))
            base.resize_token_embeddings(vocabulary_size, mean_resizing=False)
    return base


def make_pooler(base: Any) -> Pooler:
    """Return the [CLS] pooler of the model, or a fresh one if the architecture has none."""
    dense = get_part(base, get_architecture(base.config.model_type).pooler)
    return Pooler(make_linear(base, base.config.hidden_size, base.config.hidden_size) if dense is None else dense)


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
        seed: seed of the run.
    """
    generator = torch.Generator().manual_seed(derive_seed(seed, "fresh layers", 0))
    with torch.no_grad():
        for name, parameter in (named for layer in layers for named in layer.named_parameters()):
            if parameter.dim() > 1:
                parameter.normal_(0.0, std, generator=generator)
            else:
                parameter.fill_(1.0 if name.endswith("weight") else 0.0)
