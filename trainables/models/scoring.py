"""Models that compute scores: without gradients, in a precision, with dense layers that are prepared for the processor.

The weights are in the layout of oneDNN, which torch otherwise repeats in every product, and in the precision of the
product. The values are those of the layers up to rounding.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from trainables.models.projections import ProjectionPart
from trainables.models.transformer import Transformer

Precision = Literal["fp32", "bf16"]

_CAN_PREPARE = all(hasattr(torch.ops.mkldnn, name) for name in ("_reorder_linear_weight", "_linear_pointwise"))
"""Whether torch has its private operations for weights in the layout of oneDNN; products without them are slower."""
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
_TOKENS = 2048
"""Rows of a typical product, for which oneDNN chooses the layout."""


@contextmanager
def prepare_for_scoring(model: Transformer, precision: Precision) -> Iterator[None]:
    """Let a model compute without gradients and in a precision, inside the block.

    On a CPU the products of the layers and their attention are in this precision; sums of layers, normalisation and
    what reads the last layer are in fp32. On a GPU, without oneDNN, and in layers that run padded, autocast decides.

    The weights do not change inside the block.
    """
    on_cpu = next(model.parameters()).device.type == "cpu"
    has_packages = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode())
        if on_cpu and has_packages and model.architecture.padding_mask is None:
            stack.enter_context(prepack_linear_layers(model.upper, _DTYPES[precision]))
        else:
            device = "cpu" if on_cpu else "cuda"
            stack.enter_context(torch.autocast(device, dtype=torch.bfloat16, enabled=precision == "bf16"))
        yield


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
        self._weight: Any = weight.detach().to(dtype)
        if _CAN_PREPARE:
            self._weight = torch.ops.mkldnn._reorder_linear_weight(self._weight, _TOKENS)
        self._bias = None if bias is None else bias.detach().to(dtype)

    def forward(self, values: Tensor) -> Tensor:
        """Return the output of the layer, shape (..., outputs), for an input of shape (..., inputs)."""
        inputs = values.to(self._dtype)
        if not _CAN_PREPARE:
            return nn.functional.linear(inputs, self._weight, self._bias)
        output: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, self._weight, self._bias, "none", [], "")
        return output


@contextmanager
def prepack_linear_layers(model: nn.Module, dtype: torch.dtype) -> Iterator[None]:
    """Prepare the dense layers of a model on the CPU for products in a precision, inside the block."""
    replaced = [
        (module, name, child)
        for module in list(model.modules())
        for name, child in module.named_children()
        if isinstance(child, nn.Linear)
    ]
    joints = {module.joint for module in model.modules() if isinstance(module, ProjectionPart)}
    try:
        for module, name, layer in replaced:
            setattr(module, name, PrepackedLinear(layer.weight, layer.bias, dtype))
        for joint in joints:
            joint.prepare(PrepackedLinear, dtype)
        yield
    finally:
        for module, name, layer in replaced:
            setattr(module, name, layer)
        for joint in joints:
            joint.release()
