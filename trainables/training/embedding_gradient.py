"""The gradient of an embedding matrix, in which a batch changes only the rows of its tokens."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn


class EmbeddingGradient:
    """Dense gradient that is kept from step to step, so that a step fills only the rows of its tokens with zeros.

    torch's own backward pass allocates and fills a new matrix. The sums are the same to the bit.

    Args:
        embedding: embedding whose weights nothing else in the model uses.
    """

    def __init__(self, embedding: nn.Embedding) -> None:
        self._embedding = embedding
        self._sum = torch.zeros_like(embedding.weight)
        self._rows: list[Tensor] = []

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Add up the gradients of all backward passes inside the block; after it, the weights have their sum."""
        for rows in self._rows:
            self._sum.index_fill_(0, rows, 0.0)
        self._rows.clear()
        hook = self._embedding.register_forward_hook(self._take_over)
        try:
            yield
        finally:
            hook.remove()
        assert self._embedding.weight.grad is None, "the weights of the embedding are used elsewhere, too"
        self._embedding.weight.grad = self._sum

    def _take_over(self, embedding: nn.Module, inputs: tuple[Tensor], output: Tensor) -> Tensor:
        """Return the embeddings as a tensor whose gradient comes to `_add` and not to the weights."""
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
        rows, places = torch.unique(ids, return_inverse=True)
        sums = gradient.new_zeros(len(rows), gradient.shape[-1]).index_add_(
            0, places.flatten(), gradient.flatten(0, -2)
        )
        self._sum.index_add_(0, rows, sums)
        self._rows.append(rows)
