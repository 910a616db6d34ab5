"""Dropout with masks that are named by (seed, step) and cheap to draw, also in the modules of transformers.

On a CPU, torch's bernoulli makes one serial draw per element, which takes a quarter of a training step. Here a 64-bit
word of SFC64 decides four elements. The probability is therefore the multiple of 1/65536 that is nearest to the
requested rate, and the scale is exact for that probability. A GPU draws with torch's own dropout and attention, from
its generator, which is seeded by the same name. It has other masks.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_LEVELS = 1 << 16
_INTEGER_DTYPES = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Bytes per value -> integer type of the same size."""


class Dropout:
    """The dropout masks of one batch, drawn one after another in the order of use, in one or more forward passes.

    Args:
        rate: probability that an element is dropped, below 1. With 0 nothing is drawn.
        seed: seed of the stream of masks.
        adapters: dropout of the input of adapters. If None, there is none.

    Attributes:
        scale: factor of the surviving elements, which keeps the expectation unchanged.
        rate: probability that an element is dropped, a multiple of 1/65536.
        is_active: False if nothing is dropped.
        seed: seed of the stream of masks.
        adapters: dropout of the input of adapters, or None.
    """

    def __init__(self, rate: float = 0.0, seed: int = 0, adapters: "Dropout | None" = None) -> None:
        self._dropped_levels = min(round(rate * _LEVELS), _LEVELS - 1)
        self.scale = _LEVELS / (_LEVELS - self._dropped_levels)
        self.rate, self.is_active, self.seed = self._dropped_levels / _LEVELS, self._dropped_levels > 0, seed
        self.adapters = adapters
        self._is_on_gpu = False

    @contextmanager
    def draw_on(self, device: torch.device) -> Iterator[None]:
        """Let everything that draws on a GPU inside the block draw from the stream of these masks.

        The stream starts with the block, so all passes of a batch belong into one block. After it, the generator of the
        GPU has its state of before. On a processor nothing changes.
        """
        if device.type == "cpu" or not self._active:
            yield
            return
        before = torch.cuda.get_rng_state(device)
        torch.cuda.manual_seed(self.seed)
        for each in self._active:
            each._is_on_gpu = True
        try:
            yield
        finally:
            for each in self._active:
                each._is_on_gpu = False
            torch.cuda.set_rng_state(before, device)

    @property
    def _active(self) -> "list[Dropout]":
        return [each for each in (self, self.adapters) if each is not None and each.is_active]

    @property
    def position(self) -> Any:
        """Position in the streams of these masks and of those of the adapters."""
        if any(each._is_on_gpu for each in self._active):
            return torch.cuda.get_rng_state()
        return [each._generator.state for each in self._active]

    def _move_to(self, position: Any) -> None:
        if isinstance(position, Tensor):
            torch.cuda.set_rng_state(position)
            return
        for each, state in zip(self._active, position, strict=True):
            each._generator.state = state

    @contextmanager
    def draw_again(self, position: Any) -> Iterator[None]:
        """Draw the masks from a position on once more, inside the block; then go on where the streams were."""
        before = self.position
        self._move_to(position)
        try:
            yield
        finally:
            self._move_to(before)

    def apply_mask(self, values: Tensor, scale: float = 1.0) -> Tensor:
        """Return `values` on a processor times a factor, with dropped elements set to 0.

        By default they are not scaled: the caller multiplies by `self.scale` where that is cheapest.
        """
        if not self.is_active:
            return values
        kept: Tensor = _ApplyMask.apply(values, self._draw_mask(values), scale)  # type: ignore[no-untyped-call]
        return kept

    def _draw_mask(self, values: Tensor) -> Tensor:
        """Return an int8 mask in the shape of `values`: all bits set where an element is kept, else none.

        Each element is decided by one 16-bit integer.
        """
        threshold = self._dropped_levels - _LEVELS // 2
        count = values.numel()
        words = self._generator.random_raw(-(-count // 4)).view(np.int16)[:count]
        return torch.from_numpy(np.negative((words >= threshold).view(np.int8))).view(values.shape)

    @cached_property
    def _generator(self) -> np.random.SFC64:
        return np.random.SFC64(self.seed)

    def __call__(self, values: Tensor) -> Tensor:
        """Return `values`, dropped and scaled; on a GPU inside `draw_on`."""
        if values.is_cuda and self.is_active:
            assert self._is_on_gpu, "masks on a GPU are drawn inside `draw_on`"
            return nn.functional.dropout(values, self.rate)
        return self.apply_mask(values, self.scale)


class _ApplyMask(torch.autograd.Function):
    """Multiplication by a bit mask and a number.

    On a CPU, a product with a boolean takes four times as long.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, mask: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(mask)
        ctx.scale = scale
        return _apply_bit_mask(values, mask, scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (mask,) = ctx.saved_tensors
        return _apply_bit_mask(gradient, mask, ctx.scale), None, None


def _apply_bit_mask(values: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Return the values times `scale` where the int8 mask has all bits set, and 0 where it has none."""
    bits = _INTEGER_DTYPES[values.element_size()]
    kept = mask.to(bits).bitwise_and_(values.view(bits)).view(values.dtype)
    return kept if scale == 1.0 else kept.mul_(scale)


NO_DROPOUT = Dropout()
"""Dropout that drops nothing."""


class DropoutSource:
    """The dropout of the present forward pass, from which all places of a model draw their masks.

    Attributes:
        current: dropout of the present pass; `NO_DROPOUT` outside a pass.
    """

    def __init__(self) -> None:
        self.current = NO_DROPOUT

    @contextmanager
    def use(self, dropout: Dropout) -> Iterator[None]:
        """Make `dropout` the current one inside the block."""
        self.current = dropout
        try:
            yield
        finally:
            self.current = NO_DROPOUT


class DropoutPlace(nn.Dropout):
    """Dropout module of a model of transformers that draws its masks from the source of the model.

    It drops in evaluation mode, too. Its own rate is 0, because attention functions of transformers read it.
    """

    def __init__(self, source: DropoutSource) -> None:
        super().__init__(p=0.0)
        self.source = source

    def forward(self, values: Tensor) -> Tensor:
        """Return `values`, dropped and scaled by the dropout of the present pass."""
        return self.source.current(values)


class AdapterDropoutPlace(DropoutPlace):
    """The same before an adapter. Its dropout has a rate and a stream of its own."""

    def forward(self, values: Tensor) -> Tensor:
        """Return `values`, dropped and scaled by the dropout of adapters in the present pass."""
        adapters = self.source.current.adapters
        return values if adapters is None else adapters(values)


def replace_dropouts(model: nn.Module, source: DropoutSource, place: type[DropoutPlace] = DropoutPlace) -> None:
    """Put a `DropoutPlace` where the model has a dropout module of torch, in place."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Dropout) and not isinstance(child, DropoutPlace):
                setattr(module, name, place(source))
