"""Dropout whose masks are named by (seed, step) and cheap to draw.

torch's bernoulli takes a serial draw an element, a quarter of a step on a CPU. Here a 64-bit word of SFC64 decides four
elements, so the probability is the multiple of 1/65536 nearest to the rate asked for; the scale is exact for that.
A GPU draws with torch's own generator, other masks under the same name.
"""

import numpy as np
import torch
from torch import Tensor

_LEVELS = 1 << 16


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
        return values * (self._drawn(values) >= self._dropped - _LEVELS // 2)

    def _drawn(self, values: Tensor) -> Tensor:
        """Uniform over the 16-bit integers, in the shape of `values`."""
        if values.is_cuda:
            if self._generator is None:
                self._generator = torch.Generator(values.device).manual_seed(self._name)
            drawn = torch.empty(values.shape, dtype=torch.int16, device=values.device)
            return drawn.random_(-_LEVELS // 2, _LEVELS // 2, generator=self._generator)
        if self._words is None:
            self._words = np.random.SFC64(self._name)
        count = values.numel()
        words = self._words.random_raw(-(-count // 4)).view(np.int16)[:count]
        return torch.from_numpy(words).view(values.shape)

    def __call__(self, values: Tensor) -> Tensor:
        """`values`, dropped and scaled."""
        return self.masked(values) * self.scale if self._dropped else values

    def added(self, values: Tensor, residual: Tensor) -> Tensor:
        """`residual` plus `values`, these dropped and scaled."""
        return torch.add(residual, self.masked(values), alpha=self.scale)


NONE = Dropout()
"""Drops nothing."""
