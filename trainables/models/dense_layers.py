"""Dense layers of an encoder: queries, keys and values as one matrix product, and low-rank adapters (LoRA).

The adapters are those of the library peft, as in Hu et al. (2021): a dense layer with the weights W gives
W x + alpha / rank * B A x. Training changes A and B alone.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from trainables.specs.run_spec import LoraSettings
from trainables.utils.random import derive_seed

_ADAPTER = "default"
"""Name of the adapter in peft, which may have several."""


class JointProjection:
    """Product of an input with the weights of several dense layers.

    The first layer that is called computes the product for all of them, and the others take their parts of it.

    Attributes:
        layers: the dense layers.
        is_bypassed: True if the layers return their input for now.
        is_adapted: True if adapters add to the output of a layer.
        product: product with prepared weights, which is used in place of that with the weights of the layers. If None,
            nothing is prepared.
        dtype: precision of the prepared weights. None if nothing is prepared.
    """

    def __init__(self) -> None:
        self.layers: Sequence[ProjectionPart] = ()
        self.is_bypassed = self.is_adapted = False
        self.product: Callable[[Tensor], Tensor] | None = None
        self.dtype: torch.dtype | None = None
        self._input: Tensor | None = None
        self._outputs = dict[int, Tensor]()

    def get_weights(self, dtype: torch.dtype) -> list[tuple[Tensor, Tensor]]:
        """Return weight and bias of each layer in a precision."""
        return [(layer.weight.to(dtype), layer.bias.to(dtype)) for layer in self.layers]

    def take_output(self, number: int, values: Tensor) -> Tensor:
        """Return the output of a layer, shape (..., outputs), by its number, for values of shape (..., inputs)."""
        if self.is_bypassed:
            return values
        if values is not self._input or number not in self._outputs:
            product = self.product(values) if self.product else nn.functional.linear(values, *self.join_weights())
            parts = torch.split(product, [len(layer.bias) for layer in self.layers], dim=-1)
            self._input, self._outputs = values, dict(enumerate(parts))
        output = self._outputs.pop(number)
        if not self._outputs:
            self._input = None
        return output

    def join_weights(self) -> tuple[Tensor, Tensor]:
        """Return the weights of all layers as one, shape (outputs of all, inputs), and their biases."""
        weight, bias = (torch.cat([getattr(layer, name) for layer in self.layers]) for name in ("weight", "bias"))
        return weight, bias


class ProjectionPart(nn.Linear):
    """A dense layer that is computed together with others.

    Its parameters and their names are those of the layer that it replaces. An adapter can be added to it.

    Args:
        layer: the dense layer.
        joint: product of all layers that belong together.
        number: number of the layer among them.
    """

    def __init__(self, layer: nn.Linear, joint: JointProjection, number: int) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.weight, self.bias = layer.weight, layer.bias
        self.joint, self._number = joint, number

    def forward(self, values: Tensor) -> Tensor:
        """Return the output of the dense layer, shape (..., outputs)."""
        return self.joint.take_output(self._number, values)


def join_projections(model: nn.Module, names: Sequence[str]) -> None:
    """Compute dense layers that multiply the same input as one product, in place.

    Args:
        model: model with attention modules.
        names: attributes of an attention module with the dense layers, which have biases. If empty, nothing changes.
    """
    for module in list(model.modules()):
        layers = [getattr(module, name, None) for name in names]
        dense = [layer for layer in layers if isinstance(layer, nn.Linear)]
        if dense and len(dense) == len(layers):
            joint = JointProjection()
            joint.layers = [ProjectionPart(layer, joint, number) for number, layer in enumerate(dense)]
            for name, part in zip(names, joint.layers, strict=True):
                setattr(module, name, part)


def find_projection(layer: nn.Module) -> JointProjection:
    """Return the joint product of a layer that has exactly one."""
    (projection,) = {module.joint for module in layer.modules() if isinstance(module, ProjectionPart)}
    return projection


def make_adapter_config(settings: LoraSettings, names: Sequence[str], **others: Any) -> Any:
    """Return the configuration of peft for adapters of the dense layers with these names."""
    from peft import LoraConfig

    numbers: Any = {"r": settings.rank, "lora_alpha": settings.alpha, "lora_dropout": settings.dropout}
    return LoraConfig(**numbers, target_modules=[*names], **others)


def add_adapters(layers: nn.Module, settings: LoraSettings, seed: int) -> None:
    """Add adapters to dense layers, in place; nothing else stays trainable.

    Args:
        layers: layers of an encoder.
        settings: rank, alpha, dropout and names of the dense layers.
        seed: seed of the run, which draws A. B is 0, so the adapters change nothing at first.
    """
    from peft import inject_adapter_in_model

    ends = tuple(f".{name}" for name in settings.target_modules) or ("",)
    dense = [name for name, module in layers.named_modules() if isinstance(module, nn.Linear)]
    config = make_adapter_config(settings, [name for name in dense if f".{name}".endswith(ends)])
    with torch.random.fork_rng():
        torch.manual_seed(derive_seed(seed, "adapters", 0))
        inject_adapter_in_model(config, layers, _ADAPTER)
    for _, _, layer in _list_adapted(layers):
        _mark_adapted(layer.get_base_layer(), True)


def list_adapters(layers: nn.Module) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield the weights of each dense layer with an adapter, and the weights A and B of the adapter."""
    for _, _, layer in _list_adapted(layers):
        yield layer.get_base_layer().weight, layer.lora_A[_ADAPTER].weight, layer.lora_B[_ADAPTER].weight


@contextmanager
def merge_adapters(layers: nn.Module) -> Iterator[None]:
    """Let the weights of dense layers contain their adapters, inside the block; afterwards they have the same bits."""
    adapted = _list_adapted(layers)
    weights = [layer.get_base_layer().weight.data for _, _, layer in adapted]
    try:
        for parent, name, layer in adapted:
            base = layer.get_base_layer()
            with torch.no_grad():
                base.weight.data = base.weight.data + layer.get_delta_weight(_ADAPTER)
            setattr(parent, name, base)
            _mark_adapted(base, False)
        yield
    finally:
        for (parent, name, layer), weight in zip(adapted, weights, strict=True):
            base = layer.get_base_layer()
            base.weight.data = weight
            setattr(parent, name, layer)
            _mark_adapted(base, True)


def _list_adapted(layers: nn.Module) -> list[tuple[nn.Module, str, Any]]:
    """Return the dense layers with adapters, each with its parent and its name there."""
    children = ((module, *child) for module in layers.modules() for child in module.named_children())
    return [each for each in children if hasattr(each[2], "lora_A")]


def _mark_adapted(layer: nn.Module, is_adapted: bool) -> None:
    if isinstance(layer, ProjectionPart):
        layer.joint.is_adapted = is_adapted
