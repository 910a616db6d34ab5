"""Forward passes of the parts of an encoder: embeddings, layers that run packed, and layers that run padded."""

import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial, reduce
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from trainables.models.architectures import Architecture
from trainables.models.attention import PackedPass
from trainables.models.dense_layers import JointProjection, find_projection
from trainables.models.dropout import Dropout, DropoutSource
from trainables.models.packing import PackedLayout

LayerStack = Callable[[Tensor, PackedPass, bool], Tensor]
"""Function that returns the output of some layers.

It takes hidden states of shape (tokens, hidden), the pass, and whether only the first token of each text is needed. The
output is then of shape (texts, hidden), otherwise of shape (tokens, hidden).
"""


def get_part(model: Any, path: str | None) -> Any:
    """Return the part of a model at a dotted path; None if the path is None or the model has no such part."""
    return None if path is None else reduce(lambda part, name: getattr(part, name, None), path.split("."), model)


def list_layers(model: Any, architecture: Architecture) -> list[nn.Module]:
    """Return the layers in the order in which they are applied; layers that share weights are one object."""
    layers = list(get_part(model, architecture.layers))
    if not architecture.shares_layers:
        return layers
    count = model.config.num_hidden_layers
    return [layers[number * len(layers) // count] for number in range(count)]


class Embedder:
    """Computes the embeddings of token ids.

    Args:
        embeddings: embedding module of transformers.
        projection: module between the embeddings and the first layer, or None.
        architecture: architecture of the model.
        n_token_types: number of token types that the model has, at least 1.
    """

    def __init__(self, embeddings: Any, projection: Any, architecture: Architecture, n_token_types: int) -> None:
        self._embeddings, self._projection, self._n_token_types = embeddings, projection, n_token_types
        self._first_position = embeddings.padding_idx + 1 if architecture.positions_follow_padding else 0
        self._taken = inspect.signature(embeddings.forward).parameters

    def __call__(self, ids: Tensor, layout: PackedLayout) -> Tensor:
        """Return the embeddings of ids of shape (tokens,), shape (tokens, hidden)."""
        inputs = {"input_ids": ids[None]}
        if "position_ids" in self._taken:
            positions = layout.read_positions()[None]
            inputs["position_ids"] = positions + self._first_position if self._first_position else positions
        if "token_type_ids" in self._taken:
            types = layout.read_token_types()[None]
            inputs["token_type_ids"] = types.clamp(max=self._n_token_types - 1) if self._n_token_types == 1 else types
        hidden: Tensor = self._embeddings(**inputs)
        return (hidden if self._projection is None else self._projection(hidden)).squeeze(0)


class Recomputation:
    """Computes layers once more in the backward pass instead of keeping what their gradients need.

    Chen et al. (2016), "Training deep nets with sublinear memory cost". The dropout masks are the same both times.

    Args:
        source: dropout of the model.

    Attributes:
        is_on: whether layers are computed so.
    """

    def __init__(self, source: DropoutSource) -> None:
        self._source, self.is_on = source, False

    def run(self, layer: Callable[..., Any], *inputs: Any, **settings: Any) -> Any:
        """Return the output of a layer."""
        if not self.is_on or not torch.is_grad_enabled():
            return layer(*inputs, **settings)
        dropout = self._source.current
        again = self._draw_again(dropout, dropout.position)
        return checkpoint(
            layer,
            *inputs,
            use_reentrant=False,
            preserve_rng_state=False,
            context_fn=lambda: (nullcontext(), again),
            **settings,
        )

    @contextmanager
    def _draw_again(self, dropout: Dropout, position: Any) -> Iterator[None]:
        with self._source.use(dropout), dropout.draw_again(position):
            yield


class FirstTokens:
    """Lets a packed layer compute its output for the first token of each text only.

    A GPU computes its attention for all tokens, which takes fewer kernels. So does a processor with adapters.

    Args:
        projection: the layer's projections of queries, keys and values.
        before_output: module of the layer; the other tokens are not needed after its input.
    """

    def __init__(self, projection: JointProjection, before_output: nn.Module) -> None:
        self._projection = projection
        self._tokens: Tensor | None = None
        before_output.register_forward_pre_hook(self._select)

    @contextmanager
    def use(self, current: PackedPass) -> Iterator[PackedPass]:
        """Return the pass for the layer, which is computed for the first tokens inside the block."""
        is_bypassed = current.layout.device.type == "cpu" and not self._projection.is_adapted
        self._tokens, self._projection.is_bypassed = current.layout.read_first_rows(), is_bypassed
        try:
            yield current._replace(bypassed=self._projection) if is_bypassed else current
        finally:
            self._tokens, self._projection.is_bypassed = None, False

    def _select(self, module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
        return None if self._tokens is None else tuple(values.index_select(1, self._tokens) for values in inputs)


class PackedLayers:
    """Layers of transformers that run on packed texts, applied one after another.

    Args:
        layers: layers of a model with the attention function `attend_packed`.
        rotary: rotary position embedding, or None.
        architecture: architecture of the model.
        recomputation: computes the layers.
    """

    def __init__(
        self, layers: nn.ModuleList, rotary: Any, architecture: Architecture, recomputation: Recomputation
    ) -> None:
        self._layers, self._rotary, self._recomputation = layers, rotary, recomputation
        self._first_tokens: FirstTokens | None = None
        if len(layers) and architecture.before_output is not None:
            projection = find_projection(layers[-1])
            self._first_tokens = FirstTokens(projection, get_part(layers[-1], architecture.before_output))

    def __call__(self, hidden: Tensor, current: PackedPass, first_only: bool) -> Tensor:
        """Return the output of the layers, as a `LayerStack` does."""
        layout, positions = current.layout, dict[str, Any]()
        hidden = (nn.functional.pad(hidden, (0, 0, 0, layout.n_extra)) if layout.n_extra else hidden)[None]
        is_selected = first_only and self._first_tokens is not None
        for number, layer in enumerate(self._layers, start=1):
            arguments = dict[str, Any]()
            if self._rotary is not None:
                kind = str(layer.attention_type)
                if kind not in positions:
                    places = nn.functional.pad(layout.read_positions(), (0, layout.n_extra))
                    positions[kind] = self._rotary(hidden, places[None], kind)
                arguments["position_embeddings"] = positions[kind]
            first_tokens = self._first_tokens if is_selected and number == len(self._layers) else None
            hidden = self._recomputation.run(_run_packed, hidden, layer, current, first_tokens, arguments)
        hidden = hidden.squeeze(0)
        if is_selected:
            return hidden[: len(layout.lengths)]
        return hidden.index_select(0, layout.first_tokens) if first_only else hidden[: layout.n_tokens]


def _run_packed(
    hidden: Tensor, layer: nn.Module, current: PackedPass, first_tokens: FirstTokens | None, arguments: dict[str, Any]
) -> Tensor:
    with nullcontext(current) if first_tokens is None else first_tokens.use(current) as own:
        output: Tensor = layer(hidden, None, packed=own, **arguments)
    return output


class PaddedEncoder:
    """Encoder of transformers that takes padded texts; texts of similar length run together.

    Args:
        encoder: the encoder.
        layers: its layers.
        architecture: architecture of the model.
        recomputation: computes the layers.
    """

    def __init__(
        self, encoder: nn.Module, layers: nn.ModuleList, architecture: Architecture, recomputation: Recomputation
    ) -> None:
        self._encoder, self._architecture = encoder, architecture
        for layer in layers:
            layer.forward = partial(recomputation.run, layer.forward)

    def __call__(self, hidden: Tensor, current: PackedPass, first_only: bool) -> Tensor:
        """Return the output of the layers, as a `LayerStack` does."""
        if self._architecture.supports_autocast:
            rows = self._run(hidden, current.layout)
        else:
            with torch.autocast(hidden.device.type, enabled=False):
                rows = self._run(hidden.float(), current.layout)
        return rows.index_select(0, current.layout.first_tokens) if first_only else rows

    def _run(self, hidden: Tensor, layout: PackedLayout) -> Tensor:
        groups, outputs = layout.padded_groups, list[Tensor]()
        for group, rows in zip(groups, groups.pad(hidden), strict=True):
            # Padding is 0, because the convolution of some encoders reads the place after the last token.
            padded = rows * group.token_mask[:, :, None] if group.is_padded else rows
            mask = group.token_mask if self._architecture.padding_mask == "boolean" else group.make_mask()
            outputs.append(self._encoder(padded, mask, output_hidden_states=False)[0])
        return groups.unpad(outputs)


def split_encoder(
    model: Any, architecture: Architecture, lower: nn.ModuleList, upper: nn.ModuleList
) -> tuple[nn.Module, nn.Module]:
    """Return the model's encoder twice: with the lower and with the upper layers.

    What the layers share, such as embeddings of relative positions, is copied. The model runs padded, and its encoder
    gets the upper layers.
    """
    path, _, name = architecture.layers.rpartition(".")
    encoder = get_part(model, path)
    setattr(encoder, name, nn.ModuleList())
    first = copy.deepcopy(encoder)
    setattr(first, name, lower)
    setattr(encoder, name, upper)
    if len(lower) and architecture.first_layer_part is not None:
        setattr(encoder, architecture.first_layer_part, None)
    return first, encoder
