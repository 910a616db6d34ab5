"""Forward pass of a BERT-like encoder over pairs that are stored one after another, without padding.

Everything except attention works on single tokens, regardless of their pair. Attention takes consecutive pairs of
similar length together and pads them to the longest of them. The parameters and the arithmetic are those of
transformers' own layers.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from trainables.models.dropout import Dropout

_MAX_WASTED_SCORES = 2000
"""Padded attention scores per head that cost less than one more group of pairs."""


class AttentionGroup(NamedTuple):
    """Consecutive pairs with a joint attention computation.

    Attributes:
        n_tokens: tokens of all pairs.
        n_pairs: number of pairs.
        max_length: tokens of the longest pair.
        token_positions: positions of the tokens in the padded array (n_pairs * max_length), shape (n_tokens,). None if
            all pairs have the same length.
        mask: 0 inside a pair and -inf beyond it, shape (n_pairs, 1, 1, max_length). None if all pairs have the same
            length.
    """

    n_tokens: int
    n_pairs: int
    max_length: int
    token_positions: Tensor | None
    mask: Tensor | None


class PackedBatch(NamedTuple):
    """Pairs that are stored one after another; cheapest if pairs of similar length are neighbours.

    Attributes:
        inputs: token ids of shape (tokens,), or outputs of the frozen layers of shape (tokens, hidden).
        lengths: tokens of each pair, shape (pairs,).
        starts: position in the pair at which the document begins, shape (pairs,).
    """

    inputs: Tensor
    lengths: np.ndarray
    starts: np.ndarray


def duplicate_pairs(batch: PackedBatch) -> PackedBatch:
    """Return the batch with every pair twice in a row."""
    ends = np.cumsum(batch.lengths)
    tokens = [np.arange(end - length, end) for end, length in zip(ends, batch.lengths, strict=True) for _ in range(2)]
    rows = torch.from_numpy(np.concatenate(tokens)).to(batch.inputs.device)
    return PackedBatch(batch.inputs[rows], np.repeat(batch.lengths, 2), np.repeat(batch.starts, 2))


class PackedLayout:
    """Positions of the tokens and pairs in a batch; they do not depend on the tokens themselves.

    Args:
        batch: the pairs.
    """

    def __init__(self, batch: PackedBatch) -> None:
        self.lengths, self.starts, self.device = batch.lengths, batch.starts, batch.inputs.device
        self.offsets = np.concatenate([[0], np.cumsum(batch.lengths)])

    @cached_property
    def positions(self) -> Tensor:
        """Position of each token in its pair, shape (tokens,)."""
        return self._to_tensor(np.arange(self.offsets[-1]) - np.repeat(self.offsets[:-1], self.lengths))

    @cached_property
    def token_types(self) -> Tensor:
        """0 for tokens of the query and 1 for tokens of the document, shape (tokens,)."""
        starts = np.repeat(self.starts, self.lengths)
        return (self.positions >= self._to_tensor(starts)).long()

    @cached_property
    def first_tokens(self) -> Tensor:
        """Index of the first token of each pair, shape (pairs,)."""
        return self._to_tensor(self.offsets[:-1])

    def mean_pool(self, hidden: Tensor) -> Tensor:
        """Return the mean over the tokens of each pair, shape (pairs, hidden)."""
        return _segment_mean(hidden, self._to_tensor(self.lengths))

    def mean_pool_parts(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return the means over the query tokens and over the document tokens of each pair.

        Both arrays have the shape (pairs, hidden).
        """
        parts = np.stack([self.starts, self.lengths - self.starts], axis=1).reshape(-1)
        both = _segment_mean(hidden, self._to_tensor(parts)).view(len(self.lengths), 2, -1)
        return both[:, 0], both[:, 1]

    @cached_property
    def groups(self) -> list[AttentionGroup]:
        """Groups of pairs for attention."""
        return [self._make_group(self.lengths[part]) for part in _split_into_groups(self.lengths)]

    def _make_group(self, lengths: np.ndarray) -> AttentionGroup:
        pairs, longest, tokens = len(lengths), int(lengths.max()), int(lengths.sum())
        if tokens == pairs * longest:
            return AttentionGroup(tokens, pairs, longest, None, None)
        inside = np.arange(longest) < lengths[:, None]
        mask = torch.zeros(inside.shape, device=self.device).masked_fill_(~self._to_tensor(inside), -torch.inf)
        return AttentionGroup(tokens, pairs, longest, self._to_tensor(np.flatnonzero(inside)), mask[:, None, None, :])

    def _to_tensor(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(self.device)


def _split_into_groups(lengths: np.ndarray) -> Iterator[slice]:
    """Yield slices of consecutive pairs, as long as padding costs less than one more group."""
    first, longest, square = 0, 0, 0
    for index, length in enumerate(map(int, lengths)):
        longest, square = max(longest, length), square + length * length
        if index > first and (index + 1 - first) * longest * longest - square > _MAX_WASTED_SCORES:
            yield slice(first, index)
            first, longest, square = index, length, length * length
    yield slice(first, len(lengths))


def embed_tokens(embeddings: Any, ids: Tensor, layout: PackedLayout, n_token_types: int, dropout: Dropout) -> Tensor:
    """Return the embeddings of token ids, shape (tokens, hidden).

    Args:
        embeddings: embedding module of transformers. RoBERTa's positions start after the padding index.
        ids: token ids of shape (tokens,).
        layout: layout of the batch.
        n_token_types: number of token types that the model has.
        dropout: dropout of this pass.
    """
    padding_index = getattr(embeddings, "padding_idx", None)
    positions = layout.positions if padding_index is None else layout.positions + padding_index + 1
    token_types = layout.token_types.clamp(max=n_token_types - 1)
    hidden: Tensor = embeddings(input_ids=ids[None], token_type_ids=token_types[None], position_ids=positions[None])[0]
    return dropout(hidden)


def run_layers(layers: Sequence[nn.Module], hidden: Tensor, layout: PackedLayout, dropout: Dropout) -> Tensor:
    """Return the output of the transformer layers, shape (tokens, hidden).

    Args:
        layers: layers of transformers, applied in this order.
        hidden: input of shape (tokens, hidden).
        layout: layout of the batch.
        dropout: dropout of this pass.
    """
    for layer in layers:
        hidden = _run_layer(layer, hidden, layout, dropout)
    return hidden


def _run_layer(layer: Any, hidden: Tensor, layout: PackedLayout, dropout: Dropout) -> Tensor:
    attention_output = layer.attention.output
    context = _attend_by_group(layer.attention.self, hidden, layout.groups, dropout)
    hidden = attention_output.LayerNorm(dropout.add_residual(attention_output.dense(context), hidden))
    output = layer.output.dense(layer.intermediate(hidden))
    normed: Tensor = layer.output.LayerNorm(dropout.add_residual(output, hidden))
    return normed


def _attend_by_group(self_attention: Any, hidden: Tensor, groups: list[AttentionGroup], dropout: Dropout) -> Tensor:
    """Compute queries, keys and values in one product, then attention group by group."""
    parts = (self_attention.query, self_attention.key, self_attention.value)
    weight, bias = torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])
    projected = nn.functional.linear(hidden, weight, bias)  # (tokens, 3 * hidden)
    heads, scale = self_attention.num_attention_heads, self_attention.scaling
    split = torch.split(projected, [group.n_tokens for group in groups])
    return torch.cat([_attend(group, part, heads, scale, dropout) for group, part in zip(groups, split, strict=True)])


def _attend(group: AttentionGroup, qkv: Tensor, heads: int, scale: float, dropout: Dropout) -> Tensor:
    """Return the attention inside each pair of a group, shape (tokens, hidden)."""
    size = group.n_pairs * group.max_length
    if group.token_positions is not None:
        qkv = _ScatterRows.apply(qkv, group.token_positions, size)  # type: ignore[no-untyped-call]
    shaped = qkv.view(group.n_pairs, group.max_length, 3, heads, -1).permute(2, 0, 3, 1, 4)
    query, key, value = shaped.unbind()  # (pairs, heads, longest, size of a head)
    scores = (query * scale) @ key.transpose(2, 3)
    if group.mask is not None:
        scores = scores + group.mask
    weights = dropout.apply_mask(scores.softmax(dim=-1))
    context = (weights @ (value * dropout.scale)).transpose(1, 2).reshape(size, -1)
    return context if group.token_positions is None else _GatherRows.apply(context, group.token_positions)  # type: ignore[no-untyped-call]


class _GatherRows(torch.autograd.Function):
    """Selection of distinct rows of a matrix; torch's own gradient adds although a copy is enough."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.count = len(matrix)
        return matrix.index_select(0, rows)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (rows,) = ctx.saved_tensors
        return _scatter_rows(gradient, rows, ctx.count), None


class _ScatterRows(torch.autograd.Function):
    """Reverse of `_GatherRows`: writes rows to distinct places of a matrix that is 0 elsewhere."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, rows: Tensor, count: int) -> Tensor:
        ctx.save_for_backward(rows)
        return _scatter_rows(matrix, rows, count)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (rows,) = ctx.saved_tensors
        return gradient.index_select(0, rows), None, None


def _scatter_rows(matrix: Tensor, rows: Tensor, count: int) -> Tensor:
    return matrix.new_zeros(count, matrix.shape[1]).index_copy_(0, rows, matrix)


def _segment_mean(hidden: Tensor, lengths: Tensor) -> Tensor:
    mean: Tensor = torch.segment_reduce(hidden, "mean", lengths=lengths, axis=0)
    return mean
