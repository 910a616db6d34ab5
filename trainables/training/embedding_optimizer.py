"""AdamW for an embedding matrix when a batch uses few of its rows.

A row that never had a gradient has moments of 0, so AdamW leaves it as it is, except for weight decay. Therefore only
the other rows, the active ones, are copied into a smaller matrix, where they get a gradient, moments and steps.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

_FIRST_CAPACITY = 4096
"""Rows for which there is room at first; it doubles when it is used up."""
_ALIGNED_ROWS = 16
"""Steps take a multiple of this many rows, so that every number goes through the vectorised part of torch's loop."""
_MOMENTS = ("exp_avg", "exp_avg_sq")


class EmbeddingOptimizer:
    """Gradient and AdamW steps of an embedding on a CPU, up to the order of sums those of torch.

    Args:
        embedding: embedding with weights that nothing else in the model uses. Its `weight` never has a gradient.
        betas: factors of the moments.
        eps: addend of the denominator.
        weight_decay: factor of the decay.
    """

    def __init__(self, embedding: nn.Embedding, betas: tuple[float, float], eps: float, weight_decay: float) -> None:
        self._embedding, self._betas, self._eps, self._weight_decay = embedding, betas, eps, weight_decay
        self._clear()

    def _clear(self) -> None:
        weight = self._embedding.weight
        self._step = torch.zeros((), dtype=torch.float32)
        self._place_of_row = torch.full((len(weight),), -1)
        self._active = torch.empty(0, dtype=torch.int64)
        size = weight.shape[1]
        self._gradient, self._weights, self._exp_avg, self._exp_avg_sq = (torch.zeros(0, size) for _ in range(4))
        self._used: list[Tensor] = []

    @property
    def weight(self) -> Tensor:
        """The matrix of the embedding, shape (tokens of the vocabulary, hidden)."""
        return self._embedding.weight

    @property
    def gradient(self) -> Tensor:
        """Gradient of the rows of the batch in ascending order, shape (rows, hidden); that of all others is 0."""
        return self._gradient[self._place_of_row[torch.unique(torch.cat(self._used))]]

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Add up the gradients of all backward passes inside the block."""
        for rows in self._used:
            self._gradient.index_fill_(0, self._place_of_row[rows], 0.0)
        self._used.clear()
        hook = self._embedding.register_forward_hook(self._take_over)
        try:
            yield
        finally:
            hook.remove()
        assert self.weight.grad is None, "the weights of the embedding are used elsewhere, too"

    def _take_over(self, embedding: nn.Module, inputs: tuple[Tensor], output: Tensor) -> Tensor:
        """Return the embeddings as a tensor with a gradient that comes to `_add` and not to the weights."""
        if not output.requires_grad:
            return output
        embeddings = output.detach().requires_grad_()
        embeddings.register_hook(partial(self._add, inputs[0]))  # type: ignore[no-untyped-call]
        return embeddings

    def _add(self, ids: Tensor, gradient: Tensor) -> None:
        """Add the gradient of the embeddings of `ids`."""
        if self._embedding.padding_idx is not None:
            kept = ids != self._embedding.padding_idx
            ids, gradient = ids[kept], gradient[kept]
        rows, order = torch.unique(ids, return_inverse=True)
        sums = gradient.new_zeros(len(rows), gradient.shape[-1])
        sums.index_add_(0, order.flatten(), gradient.flatten(0, -2))
        self._activate(rows[self._place_of_row[rows] < 0])
        self._gradient.index_add_(0, self._place_of_row[rows], sums)
        self._used.append(rows)

    def _activate(self, rows: Tensor) -> None:
        """Give further rows a place."""
        first, count = len(self._active), len(self._active) + len(rows)
        self._active = torch.cat([self._active, rows])
        self._place_of_row[rows] = torch.arange(first, count)
        if count > len(self._weights):
            capacity = max(_FIRST_CAPACITY, 2 * len(self._weights), -(-count // _ALIGNED_ROWS) * _ALIGNED_ROWS)
            for name in ("_gradient", "_weights", "_exp_avg", "_exp_avg_sq"):
                grown = torch.zeros(capacity, self.weight.shape[1])
                grown[:first] = getattr(self, name)[:first]
                setattr(self, name, grown)
        self._weights[first:count] = self.weight.detach()[rows]

    @torch.no_grad()
    def step(self, learning_rate: float, gradient_scale: float) -> None:
        """Change the weights by the gradient times `gradient_scale`."""
        n_active = len(self._active)
        taken = slice(0, -(-n_active // _ALIGNED_ROWS) * _ALIGNED_ROWS)
        if gradient_scale != 1.0:
            self._gradient[taken].mul_(gradient_scale)
        adamw(
            [self._weights[taken]],
            [self._gradient[taken]],
            [self._exp_avg[taken]],
            [self._exp_avg_sq[taken]],
            [],
            [self._step],
            fused=True,
            amsgrad=False,
            beta1=self._betas[0],
            beta2=self._betas[1],
            lr=learning_rate,
            weight_decay=self._weight_decay,
            eps=self._eps,
            maximize=False,
        )
        if self._weight_decay:
            self.weight.mul_(1 - learning_rate * self._weight_decay)
        self.weight.index_copy_(0, self._active, self._weights[:n_active])

    def get_state(self) -> dict[str, Tensor]:
        """Return step and moments as torch's AdamW has them, with moments of the shape of the weights."""
        state = {"step": self._step.clone()}
        for name, moments in zip(_MOMENTS, (self._exp_avg, self._exp_avg_sq), strict=True):
            state[name] = torch.zeros_like(self.weight).index_copy_(0, self._active, moments[: len(self._active)])
        return state

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Continue with the present weights and a state as `get_state` returns it. An empty one is a start."""
        self._clear()
        if not state:
            return
        self._step.copy_(state["step"])
        first, second = (state[name] for name in _MOMENTS)
        self._activate(((first != 0) | (second != 0)).any(dim=1).nonzero().flatten())
        for own, given in ((self._exp_avg, first), (self._exp_avg_sq, second)):
            own[: len(self._active)] = given[self._active]
