"""The forward pass of a BERT-like encoder over pairs that lie one after another, without padding.

Everything but attention works on tokens, whatever pair they belong to. Attention takes consecutive pairs of similar
length together, padded to the longest of them: the parameters and the arithmetic are those of transformers' own layers.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from trainables.models.dropout import Dropout

_MAX_WASTED_SCORES = 2000
"""Padded attention scores a head that cost less than another group of pairs."""


class AttentionGroup(NamedTuple):
    """Consecutive pairs whose attention is computed together."""

    n_tokens: int
    n_pairs: int
    max_length: int
    token_positions: Tensor | None  # (tokens,) places of the tokens in (pairs * longest); None: all lengths are equal
    mask: Tensor | None  # (pairs, 1, 1, longest) 0 inside a pair, -inf beyond


class PackedBatch(NamedTuple):
    """Pairs one after another. Cheapest to work on when pairs of similar length are neighbours."""

    inputs: Tensor  # (tokens,) ids, or what the frozen layers made of them: (tokens, hidden)
    lengths: np.ndarray  # (pairs,) tokens of each pair
    starts: np.ndarray  # (pairs,) where the document's tokens begin, counted in the pair


def duplicate_pairs(batch: PackedBatch) -> PackedBatch:
    """The same with every pair two times in a row."""
    ends = np.cumsum(batch.lengths)
    tokens = [np.arange(end - length, end) for end, length in zip(ends, batch.lengths, strict=True) for _ in range(2)]
    places = torch.from_numpy(np.concatenate(tokens)).to(batch.inputs.device)
    return PackedBatch(batch.inputs[places], np.repeat(batch.lengths, 2), np.repeat(batch.starts, 2))


class PackedLayout:
    """Where things are in a batch; what does not depend on the tokens themselves."""

    def __init__(self, batch: PackedBatch) -> None:
        self.lengths, self.starts, self.device = batch.lengths, batch.starts, batch.inputs.device
        self.offsets = np.concatenate([[0], np.cumsum(batch.lengths)])

    @cached_property
    def positions(self) -> Tensor:
        """(tokens,) place of each token in its pair."""
        return self._to_tensor(np.arange(self.offsets[-1]) - np.repeat(self.offsets[:-1], self.lengths))

    @cached_property
    def token_types(self) -> Tensor:
        """(tokens,) 0 in the query's part, 1 in the document's."""
        starts = np.repeat(self.starts, self.lengths)
        return (self.positions >= self._to_tensor(starts)).long()

    @cached_property
    def first_tokens(self) -> Tensor:
        """(pairs,) each pair's first token."""
        return self._to_tensor(self.offsets[:-1])

    def mean_pool(self, hidden: Tensor) -> Tensor:
        """Mean over each pair's tokens: (pairs, hidden)."""
        return _segment_mean(hidden, self._to_tensor(self.lengths))

    def mean_pool_parts(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Means over the query's part and over the document's part of each pair."""
        parts = np.stack([self.starts, self.lengths - self.starts], axis=1).reshape(-1)
        both = _segment_mean(hidden, self._to_tensor(parts)).view(len(self.lengths), 2, -1)
        return both[:, 0], both[:, 1]

    @cached_property
    def groups(self) -> list[AttentionGroup]:
        """The batch cut into groups for attention."""
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
    """Consecutive pairs, as long as padding them to the longest costs less than another group."""
    first, longest, square = 0, 0, 0
    for place, length in enumerate(map(int, lengths)):
        longest, square = max(longest, length), square + length * length
        if place > first and (place + 1 - first) * longest * longest - square > _MAX_WASTED_SCORES:
            yield slice(first, place)
            first, longest, square = place, length, length * length
    yield slice(first, len(lengths))


def embed_tokens(embeddings: Any, ids: Tensor, layout: PackedLayout, n_token_types: int, dropout: Dropout) -> Tensor:
    """The embeddings of token ids: (tokens, hidden).

    Args:
        embeddings: transformers' module; RoBERTa's positions start behind its padding's number.
        ids: (tokens,).
        layout: of the batch.
        types: token types the model has.
        dropout: of this pass.
    """
    before = getattr(embeddings, "padding_idx", None)
    positions = layout.positions if before is None else layout.positions + before + 1
    kinds = layout.token_types.clamp(max=n_token_types - 1)
    hidden: Tensor = embeddings(input_ids=ids[None], token_type_ids=kinds[None], position_ids=positions[None])[0]
    return dropout(hidden)


def run_layers(layers: Sequence[nn.Module], hidden: Tensor, layout: PackedLayout, dropout: Dropout) -> Tensor:
    """The output of transformer layers: (tokens, hidden)."""
    for layer in layers:
        hidden = _run_layer(layer, hidden, layout, dropout)
    return hidden


def _run_layer(layer: Any, hidden: Tensor, layout: PackedLayout, dropout: Dropout) -> Tensor:
    joined = layer.attention.output
    context = _attend_by_group(layer.attention.self, hidden, layout.groups, dropout)
    hidden = joined.LayerNorm(dropout.add_residual(joined.dense(context), hidden))
    output = layer.output.dense(layer.intermediate(hidden))
    normed: Tensor = layer.output.LayerNorm(dropout.add_residual(output, hidden))
    return normed


def _attend_by_group(self_attention: Any, hidden: Tensor, groups: list[AttentionGroup], dropout: Dropout) -> Tensor:
    """Queries, keys and values in one product, then attention group by group."""
    parts = (self_attention.query, self_attention.key, self_attention.value)
    weight, bias = torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])
    together = nn.functional.linear(hidden, weight, bias)  # (tokens, 3 * hidden)
    heads, scale = self_attention.num_attention_heads, self_attention.scaling
    split = torch.split(together, [group.n_tokens for group in groups])
    return torch.cat([_attend(group, part, heads, scale, dropout) for group, part in zip(groups, split, strict=True)])


def _attend(group: AttentionGroup, qkv: Tensor, heads: int, scale: float, dropout: Dropout) -> Tensor:
    """Attention inside each pair of a group: (tokens, hidden)."""
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
    """Distinct rows of a matrix; torch's own gradient adds where a copy is enough."""

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
    """The reverse: rows put at distinct places of a matrix of `count` rows, 0 elsewhere."""

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
