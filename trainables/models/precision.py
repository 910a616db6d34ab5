"""Models that compute in bf16 or in fp32, for scores and in training.

On a CPU, a model that scores has dense layers in the layout of oneDNN, which torch otherwise repeats in every product,
and in the precision of the product. The values are those of the layers up to rounding. In training, and where layers
run padded, autocast converts what a product needs.

On a GPU, bf16 is that of a copy of the weights: autocast would convert each weight in each pass, and a kernel costs
more than its work. Sums, normalisation and dropout are in bf16, too; what reads the last layer is in fp32. With tf32,
which is for scores on a GPU, products round their factors, and all else is in fp32.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from trainables.models.dense_layers import JointProjection, ProjectionPart, merge_adapters
from trainables.models.transformer import Transformer

Precision = Literal["fp32", "bf16", "tf32"]
Product = Callable[[Tensor], Tensor]
"""A dense layer with its weights."""

_CAN_PREPARE = all(hasattr(torch.ops.mkldnn, name) for name in ("_reorder_linear_weight", "_linear_pointwise"))
"""Whether torch has its private operations for weights in the layout of oneDNN; products without them are slower."""
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
_TOKENS = 2048
"""Rows of a typical product, for which oneDNN chooses the layout."""


class Bf16Weights:
    """Copy in bf16 of the embeddings and trained layers of a model on a GPU.

    Args:
        model: the model; its layers run packed.
    """

    def __init__(self, model: Transformer) -> None:
        self._model = model
        parts = (model.embeddings, model.projection, model.upper, model.final_norm)
        modules = dict.fromkeys(module for part in parts if part is not None for module in part.modules())
        self._copies: list[_Copy] = []
        self._joints: list[tuple[JointProjection, Product]] = []
        self._places: list[tuple[dict[str, nn.Parameter | None], str, Tensor, nn.Parameter]] = []
        self._gradients = dict[Tensor, Tensor]()  # kept, since new ones take a millisecond for all
        for joint in dict.fromkeys(module.joint for module in modules if isinstance(module, ProjectionPart)):
            weight, bias = (self._add_copy([getattr(own, name) for own in joint.layers]) for name in ("weight", "bias"))
            self._joints.append((joint, partial(nn.functional.linear, weight=weight, bias=bias)))
        copies = dict[Tensor, nn.Parameter]()
        for module in (each for each in modules if not isinstance(each, ProjectionPart)):
            for name, own in module.named_parameters(recurse=False):
                if own not in copies:
                    copies[own] = self._add_copy([own])
                # Not by setattr, which takes a millisecond for all.
                self._places.append((module._parameters, name, own, copies[own]))

    def _add_copy(self, weights: list[Tensor]) -> nn.Parameter:
        first, n_rows = weights[0], sum(map(len, weights))
        copy = nn.Parameter(first.new_empty(n_rows, *first.shape[1:], dtype=torch.bfloat16), first.requires_grad)
        self._copies.append(_Copy(copy, weights, _split_rows(copy.detach(), weights)))
        return copy

    @contextmanager
    def use(self) -> Iterator[None]:
        """Let the model compute in bf16 with its present weights, inside the block."""
        weights = [weight for own in self._copies for weight in own.weights]
        with torch.no_grad():
            torch._foreach_copy_([part for own in self._copies for part in own.parts], weights)
        self._model.dtype = torch.bfloat16
        for joint, product in self._joints:
            joint.product = product
        for parameters, name, _, copy in self._places:
            parameters[name] = copy
        try:
            yield
        finally:
            self._model.dtype = torch.float32
            for joint, _ in self._joints:
                joint.product = None
            for parameters, name, weight, _ in self._places:
                parameters[name] = weight  # type: ignore[assignment]

    def move_gradients(self) -> None:
        """Add the gradients of the copy to those of the weights."""
        moved = list[tuple[Tensor, Tensor]]()
        for copy, weights, _ in self._copies:
            if copy.grad is not None:
                moved += zip(weights, _split_rows(copy.grad, weights), strict=True)
                copy.grad = None
        added = [(weight.grad, part) for weight, part in moved if weight.grad is not None]
        new = list[tuple[Tensor, Tensor]]()
        for weight, part in moved:
            if weight.grad is None:
                if weight not in self._gradients:
                    self._gradients[weight] = torch.empty_like(weight)
                weight.grad = self._gradients[weight]
                new.append((weight.grad, part))
        for pairs, run in ((new, torch._foreach_copy_), (added, torch._foreach_add_)):
            if pairs:
                run([gradient for gradient, _ in pairs], [part for _, part in pairs])


class _Copy(NamedTuple):
    """A copy in bf16 of one weight, or of several that have its rows; `parts` are these rows."""

    copy: nn.Parameter
    weights: list[Tensor]
    parts: Sequence[Tensor]


def _split_rows(copy: Tensor, weights: list[Tensor]) -> Sequence[Tensor]:
    """Return the parts of a copy that belong to each of the weights."""
    return copy.split([len(weight) for weight in weights]) if len(weights) > 1 else [copy]  # type: ignore[no-untyped-call]


@contextmanager
def prepare_for_scoring(model: Transformer, precision: Precision) -> Iterator[None]:
    """Let a model compute without gradients and in a precision, inside the block.

    On a CPU the products of the layers and their attention are in this precision; sums of layers, normalisation and
    what reads the last layer are in fp32. On a GPU with bf16, see `Bf16Weights`. Without oneDNN, and in layers that run
    padded, autocast decides.

    Adapters are merged into the weights, so they cost nothing. The weights do not change inside the block.
    """
    on_cpu = next(model.parameters()).device.type == "cpu"
    has_packages = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    is_packed = model.architecture.padding_mask is None
    with ExitStack() as stack:
        stack.enter_context(merge_adapters(model.upper))
        stack.enter_context(torch.inference_mode())
        if precision == "tf32":
            stack.enter_context(_use_tf32())
        if on_cpu and has_packages and is_packed:
            stack.enter_context(prepack_linear_layers(model.upper, _DTYPES[precision]))
        elif precision == "bf16" and is_packed and not on_cpu:
            stack.enter_context(Bf16Weights(model).use())
        else:
            device = "cpu" if on_cpu else "cuda"
            stack.enter_context(torch.autocast(device, dtype=torch.bfloat16, enabled=precision == "bf16"))
        yield


@contextmanager
def _use_tf32() -> Iterator[None]:
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "tf32"
    try:
        yield
    finally:
        matmul.fp32_precision = before


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
        if isinstance(child, nn.Linear) and not isinstance(child, ProjectionPart)
    ]
    joints = {module.joint for module in model.modules() if isinstance(module, ProjectionPart)}
    try:
        for module, name, layer in replaced:
            setattr(module, name, PrepackedLinear(layer.weight, layer.bias, dtype))
        for joint in joints:
            joint.product, joint.dtype = PrepackedLinear(*joint.join_weights(), dtype), dtype
        yield
    finally:
        for module, name, layer in replaced:
            setattr(module, name, layer)
        for joint in joints:
            joint.product, joint.dtype = None, None
