"""Dense layers of a model that is not trained any more, prepared once for the processor's matrix products.

The weights are in the layout of oneDNN, which torch otherwise makes anew in every product, and in the precision of the
product. The values are those of the layers up to rounding.
"""

from typing import Any

import torch
from torch import Tensor, nn

from trainables.models.projections import ProjectionPart

_TOKENS = 2048
"""Rows of a typical product, for which oneDNN chooses the layout."""


class PrepackedLinear(nn.Module):
    """Dense layer with prepared weights, without a gradient.

    Args:
        weight: weights, shape (outputs, inputs).
        bias: bias of shape (outputs,), or None.
        dtype: precision of the product and of its result, float32 or bfloat16.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        super().__init__()
        self._dtype = dtype
        # Attributes, not buffers: a tensor in the layout of oneDNN has no elements that others could read.
        self._weight: Any = torch.ops.mkldnn._reorder_linear_weight(weight.detach().to(dtype), _TOKENS)
        self._bias = None if bias is None else bias.detach().to(dtype)

    def forward(self, values: Tensor) -> Tensor:
        """Return the output of the layer, shape (..., outputs), for an input of shape (..., inputs)."""
        inputs = values.to(self._dtype)
        output: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, self._weight, self._bias, "none", [], "")
        return output


def prepack_linear_layers(model: nn.Module, dtype: torch.dtype) -> bool:
    """Prepare the dense layers of a model on the CPU, in place; without oneDNN nothing changes.

    Args:
        model: model that runs without gradients from then on.
        dtype: precision of the products, float32 or bfloat16.

    Returns:
        Whether the layers are prepared.
    """
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, PrepackedLinear(child.weight, child.bias, dtype))
            elif isinstance(child, ProjectionPart):
                child.joint.prepare(lambda weight, bias: PrepackedLinear(weight, bias, dtype))
    return True
