"""Queries, keys and values of an attention module as one matrix product, in place of three."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn


class JointProjection:
    """Product of an input with the weights of several dense layers.

    The first layer that is called computes the product for all of them, and the others take their parts of it.

    Attributes:
        layers: the dense layers.
        is_bypassed: True if the layers return their input for now.
        product: product with prepared weights, which is used in place of that with the weights of the layers. If None,
            nothing is prepared.
        dtype: precision of the prepared weights. None if nothing is prepared.
    """

    def __init__(self) -> None:
        self.layers: Sequence[ProjectionPart] = ()
        self.is_bypassed = False
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


class ProjectionPart(nn.Module):
    """A dense layer that is computed together with others.

    Its parameters and their names are those of the layer that it replaces.

    Args:
        layer: the dense layer.
        joint: product of all layers that belong together.
        number: number of the layer among them.
    """

    def __init__(self, layer: nn.Linear, joint: JointProjection, number: int) -> None:
        super().__init__()
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
