"""Dropout whose masks are named by (seed, step) and cheap to draw.

torch's bernoulli takes a serial draw an element, a quarter of a step on a CPU. Here a 64-bit word of SFC64 decides four
elements, so the probability is the multiple of 1/65536 nearest to the rate asked for; the scale is exact for that.
A GPU draws with torch's own generator, other masks under the same name.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

_LEVELS = 1 << 16
_INTEGER_DTYPES = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers with as many bytes as a value."""


class Dropout:
    """The masks of one pass, drawn one after another in the order of use.

    Args:
        rate: probability of an element to be dropped, below 1; 0 draws nothing.
        name: the stream's seed.
    """

    def __init__(self, rate: float = 0.0, seed: int = 0) -> None:
        self._dropped_levels = min(round(rate * _LEVELS), _LEVELS - 1)
        self.scale = _LEVELS / (_LEVELS - self._dropped_levels)
        """What surviving elements are multiplied with, so that the expectation stays."""
        self._seed = seed
        self._bit_generator: np.random.SFC64 | None = None
        self._generator: torch.Generator | None = None

    def apply_mask(self, values: Tensor) -> Tensor:
        """`values` with dropped elements at 0; the caller applies `scale` where that is cheapest."""
        if not self._dropped_levels:
            return values
        kept: Tensor = _ApplyMask.apply(values, self._draw_mask(values))  # type: ignore[no-untyped-call]
        return kept

    def _draw_mask(self, values: Tensor) -> Tensor:
        """int8 in the shape of `values`: all bits where one is kept, none where it is dropped; a draw is one of the
        16-bit integers."""
        least = self._dropped_levels - _LEVELS // 2
        if values.is_cuda:
            if self._generator is None:
                self._generator = torch.Generator(values.device).manual_seed(self._seed)
            drawn = torch.empty(values.shape, dtype=torch.int16, device=values.device)
            kept = drawn.random_(-_LEVELS // 2, _LEVELS // 2, generator=self._generator) >= least
            return kept.to(torch.int8).neg_()
        if self._bit_generator is None:
            self._bit_generator = np.random.SFC64(self._seed)
        count = values.numel()
        words = self._bit_generator.random_raw(-(-count // 4)).view(np.int16)[:count]
        return torch.from_numpy(np.negative((words >= least).view(np.int8))).view(values.shape)

    def __call__(self, values: Tensor) -> Tensor:
        """`values`, dropped and scaled."""
        return self.apply_mask(values) * self.scale if self._dropped_levels else values

    def add_residual(self, values: Tensor, residual: Tensor) -> Tensor:
        """`residual` plus `values`, these dropped and scaled."""
        return torch.add(residual, self.apply_mask(values), alpha=self.scale)


class _ApplyMask(torch.autograd.Function):
    """Values or nothing, by a mask of their bits: a product with a truth value takes four times as long on a CPU."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, mask: Tensor) -> Tensor:
        ctx.save_for_backward(mask)
        return _apply_bit_mask(values, mask)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return _apply_bit_mask(gradient, mask), None


def _apply_bit_mask(values: Tensor, mask: Tensor) -> Tensor:
    """Values of any shape where the int8 mask of this shape has all bits, 0 where it has none."""
    bits = _INTEGER_DTYPES[values.element_size()]
    return mask.to(bits).bitwise_and_(values.view(bits)).view(values.dtype)


NO_DROPOUT = Dropout()
"""Drops nothing."""
