"""Dropout with masks that are named by (seed, step) and cheap to draw.

On a CPU, torch's bernoulli makes one serial draw per element, which takes a quarter of a training step. Here a 64-bit
word of SFC64 decides four elements. The probability is therefore the multiple of 1/65536 that is nearest to the
requested rate, and the scale is exact for that probability. A GPU draws with torch's own generator, so it has other
masks under the same name.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

_LEVELS = 1 << 16
_INTEGER_DTYPES = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Bytes per value -> integer type of the same size."""


class Dropout:
    """The dropout masks of one forward pass, drawn one after another in the order of use.

    Args:
        rate: probability that an element is dropped, below 1. With 0 nothing is drawn.
        seed: seed of the stream of masks.

    Attributes:
        scale: factor of the surviving elements, which keeps the expectation unchanged.
    """

    def __init__(self, rate: float = 0.0, seed: int = 0) -> None:
        self._dropped_levels = min(round(rate * _LEVELS), _LEVELS - 1)
        self.scale = _LEVELS / (_LEVELS - self._dropped_levels)
        self._seed = seed
        self._bit_generator: np.random.SFC64 | None = None
        self._generator: torch.Generator | None = None

    def apply_mask(self, values: Tensor) -> Tensor:
        """Return `values` with dropped elements set to 0, not yet scaled.

        The caller multiplies by `scale` where that is cheapest.
        """
        if not self._dropped_levels:
            return values
        kept: Tensor = _ApplyMask.apply(values, self._draw_mask(values))  # type: ignore[no-untyped-call]
        return kept

    def _draw_mask(self, values: Tensor) -> Tensor:
        """Return an int8 mask in the shape of `values`: all bits set where an element is kept, else none.

        Each element is decided by one 16-bit integer.
        """
        threshold = self._dropped_levels - _LEVELS // 2
        if values.is_cuda:
            if self._generator is None:
                self._generator = torch.Generator(values.device).manual_seed(self._seed)
            draws = torch.empty(values.shape, dtype=torch.int16, device=values.device)
            kept = draws.random_(-_LEVELS // 2, _LEVELS // 2, generator=self._generator) >= threshold
            return kept.to(torch.int8).neg_()
        if self._bit_generator is None:
            self._bit_generator = np.random.SFC64(self._seed)
        count = values.numel()
        words = self._bit_generator.random_raw(-(-count // 4)).view(np.int16)[:count]
        return torch.from_numpy(np.negative((words >= threshold).view(np.int8))).view(values.shape)

    def __call__(self, values: Tensor) -> Tensor:
        """Return `values`, dropped and scaled."""
        return self.apply_mask(values) * self.scale if self._dropped_levels else values

    def add_residual(self, values: Tensor, residual: Tensor) -> Tensor:
        """Return `residual` plus the dropped and scaled `values`."""
        return torch.add(residual, self.apply_mask(values), alpha=self.scale)


class _ApplyMask(torch.autograd.Function):
    """Multiplication by a bit mask.

    On a CPU, a product with a boolean takes four times as long.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, mask: Tensor) -> Tensor:
        ctx.save_for_backward(mask)
        return _apply_bit_mask(values, mask)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return _apply_bit_mask(gradient, mask), None


def _apply_bit_mask(values: Tensor, mask: Tensor) -> Tensor:
    """Return the values where the int8 mask has all bits set, and 0 where it has none."""
    bits = _INTEGER_DTYPES[values.element_size()]
    return mask.to(bits).bitwise_and_(values.view(bits)).view(values.dtype)


NO_DROPOUT = Dropout()
"""Dropout that drops nothing."""
