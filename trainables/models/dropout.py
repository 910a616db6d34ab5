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
_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers with as many bytes as a value."""


class Dropout:
    """The masks of one pass, drawn one after another in the order of use.

    Args:
        rate: probability of an element to be dropped, below 1; 0 draws nothing.
        name: the stream's seed.
    """

    def __init__(self, rate: float = 0.0, name: int = 0) -> None:
        self._dropped = min(round(rate * _LEVELS), _LEVELS - 1)
        self.scale = _LEVELS / (_LEVELS - self._dropped)
        """What surviving elements are multiplied with, so that the expectation stays."""
        self._name = name
        self._words: np.random.SFC64 | None = None
        self._generator: torch.Generator | None = None

    def masked(self, values: Tensor) -> Tensor:
        """`values` with dropped elements at 0; the caller applies `scale` where that is cheapest."""
        if not self._dropped:
            return values
        kept: Tensor = _Masked.apply(values, self._mask(values))  # type: ignore[no-untyped-call]
        return kept

    def _mask(self, values: Tensor) -> Tensor:
        """int8 in the shape of `values`: all bits where one is kept, none where it is dropped; a draw is one of the
        16-bit integers."""
        least = self._dropped - _LEVELS // 2
        if values.is_cuda:
            if self._generator is None:
                self._generator = torch.Generator(values.device).manual_seed(self._name)
            drawn = torch.empty(values.shape, dtype=torch.int16, device=values.device)
            kept = drawn.random_(-_LEVELS // 2, _LEVELS // 2, generator=self._generator) >= least
            return kept.to(torch.int8).neg_()
        if self._words is None:
            self._words = np.random.SFC64(self._name)
        count = values.numel()
        words = self._words.random_raw(-(-count // 4)).view(np.int16)[:count]
        return torch.from_numpy(np.negative((words >= least).view(np.int8))).view(values.shape)

    def __call__(self, values: Tensor) -> Tensor:
        """`values`, dropped and scaled."""
        return self.masked(values) * self.scale if self._dropped else values

    def added(self, values: Tensor, residual: Tensor) -> Tensor:
        """`residual` plus `values`, these dropped and scaled."""
        return torch.add(residual, self.masked(values), alpha=self.scale)


class _Masked(torch.autograd.Function):
    """Values or nothing, by a mask of their bits: a product with a truth value takes four times as long on a CPU."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, mask: Tensor) -> Tensor:
        ctx.save_for_backward(mask)
        return _kept(values, mask)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return _kept(gradient, mask), None


def _kept(values: Tensor, mask: Tensor) -> Tensor:
    """Values of any shape where the int8 mask of this shape has all bits, 0 where it has none."""
    bits = _BITS[values.element_size()]
    return mask.to(bits).bitwise_and_(values.view(bits)).view(values.dtype)


NONE = Dropout()
"""Drops nothing."""
