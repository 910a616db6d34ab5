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

_WASTE = 2000
"""Padded attention scores a head that cost less than another group of pairs."""


class Group(NamedTuple):
    """Consecutive pairs whose attention is computed together."""

    tokens: int
    pairs: int
    longest: int
    inside: Tensor | None  # (tokens,) places of the tokens in (pairs * longest); None: all lengths are equal
    mask: Tensor | None  # (pairs, 1, 1, longest) 0 inside a pair, -inf beyond


class Batch(NamedTuple):
    """Pairs one after another. Cheapest to work on when pairs of similar length are neighbours."""

    inputs: Tensor  # (tokens,) ids, or what the frozen layers made of them: (tokens, hidden)
    lengths: np.ndarray  # (pairs,) tokens of each pair
    starts: np.ndarray  # (pairs,) where the document's tokens begin, counted in the pair


def twice(batch: Batch) -> Batch:
    """The same with every pair two times in a row."""
    ends = np.cumsum(batch.lengths)
    tokens = [np.arange(end - length, end) for end, length in zip(ends, batch.lengths, strict=True) for _ in range(2)]
    places = torch.from_numpy(np.concatenate(tokens)).to(batch.inputs.device)
    return Batch(batch.inputs[places], np.repeat(batch.lengths, 2), np.repeat(batch.starts, 2))


class Layout:
    """Where things are in a batch; what does not depend on the tokens themselves."""

    def __init__(self, batch: Batch) -> None:
        self.lengths, self.starts, self.device = batch.lengths, batch.starts, batch.inputs.device
        self.offsets = np.concatenate([[0], np.cumsum(batch.lengths)])

    @cached_property
    def positions(self) -> Tensor:
        """(tokens,) place of each token in its pair."""
        return self._tensor(np.arange(self.offsets[-1]) - np.repeat(self.offsets[:-1], self.lengths))

    @cached_property
    def types(self) -> Tensor:
        """(tokens,) 0 in the query's part, 1 in the document's."""
        starts = np.repeat(self.starts, self.lengths)
        return (self.positions >= self._tensor(starts)).long()

    @cached_property
    def first(self) -> Tensor:
        """(pairs,) each pair's first token."""
        return self._tensor(self.offsets[:-1])

    def mean(self, hidden: Tensor) -> Tensor:
        """Mean over each pair's tokens: (pairs, hidden)."""
        return _segment_mean(hidden, self._tensor(self.lengths))

    def means(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Means over the query's part and over the document's part of each pair."""
        parts = np.stack([self.starts, self.lengths - self.starts], axis=1).reshape(-1)
        both = _segment_mean(hidden, self._tensor(parts)).view(len(self.lengths), 2, -1)
        return both[:, 0], both[:, 1]

    @cached_property
    def groups(self) -> list[Group]:
        """The batch cut into groups for attention."""
        return [self._group(self.lengths[part]) for part in _similar(self.lengths)]

    def _group(self, lengths: np.ndarray) -> Group:
        pairs, longest, tokens = len(lengths), int(lengths.max()), int(lengths.sum())
        if tokens == pairs * longest:
            return Group(tokens, pairs, longest, None, None)
        inside = np.arange(longest) < lengths[:, None]
        mask = torch.zeros(inside.shape, device=self.device).masked_fill_(~self._tensor(inside), -torch.inf)
        return Group(tokens, pairs, longest, self._tensor(np.flatnonzero(inside)), mask[:, None, None, :])

    def _tensor(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(self.device)


def _similar(lengths: np.ndarray) -> Iterator[slice]:
    """Consecutive pairs, as long as padding them to the longest costs less than another group."""
    first, longest, square = 0, 0, 0
    for place, length in enumerate(map(int, lengths)):
        longest, square = max(longest, length), square + length * length
        if place > first and (place + 1 - first) * longest * longest - square > _WASTE:
            yield slice(first, place)
            first, longest, square = place, length, length * length
    yield slice(first, len(lengths))


def embedded(embeddings: Any, ids: Tensor, layout: Layout, types: int, dropout: Dropout) -> Tensor:
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
    kinds = layout.types.clamp(max=types - 1)
    hidden: Tensor = embeddings(input_ids=ids[None], token_type_ids=kinds[None], position_ids=positions[None])[0]
    return dropout(hidden)


def through(layers: Sequence[nn.Module], hidden: Tensor, layout: Layout, dropout: Dropout) -> Tensor:
    """The output of transformer layers: (tokens, hidden)."""
    for layer in layers:
        hidden = _layer(layer, hidden, layout, dropout)
    return hidden


def _layer(layer: Any, hidden: Tensor, layout: Layout, dropout: Dropout) -> Tensor:
    joined = layer.attention.output
    context = _attention(layer.attention.self, hidden, layout.groups, dropout)
    hidden = joined.LayerNorm(dropout.added(joined.dense(context), hidden))
    output = layer.output.dense(layer.intermediate(hidden))
    normed: Tensor = layer.output.LayerNorm(dropout.added(output, hidden))
    return normed


def _attention(own: Any, hidden: Tensor, groups: list[Group], dropout: Dropout) -> Tensor:
    """Queries, keys and values in one product, then attention group by group."""
    parts = (own.query, own.key, own.value)
    weight, bias = torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])
    together = nn.functional.linear(hidden, weight, bias)  # (tokens, 3 * hidden)
    heads, scale = own.num_attention_heads, own.scaling
    split = torch.split(together, [group.tokens for group in groups])
    return torch.cat([_within(group, part, heads, scale, dropout) for group, part in zip(groups, split, strict=True)])


def _within(group: Group, part: Tensor, heads: int, scale: float, dropout: Dropout) -> Tensor:
    """Attention inside each pair of a group: (tokens, hidden)."""
    size = group.pairs * group.longest
    if group.inside is not None:
        part = _Spread.apply(part, group.inside, size)  # type: ignore[no-untyped-call]
    shaped = part.view(group.pairs, group.longest, 3, heads, -1).permute(2, 0, 3, 1, 4)
    query, key, value = shaped.unbind()  # (pairs, heads, longest, size of a head)
    scores = (query * scale) @ key.transpose(2, 3)
    if group.mask is not None:
        scores = scores + group.mask
    weights = dropout.masked(scores.softmax(dim=-1))
    context = (weights @ (value * dropout.scale)).transpose(1, 2).reshape(size, -1)
    return context if group.inside is None else _Taken.apply(context, group.inside)  # type: ignore[no-untyped-call]


class _Taken(torch.autograd.Function):
    """Distinct rows of a matrix; torch's own gradient adds where a copy is enough."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.count = len(matrix)
        return matrix.index_select(0, rows)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (rows,) = ctx.saved_tensors
        return _spread(gradient, rows, ctx.count), None


class _Spread(torch.autograd.Function):
    """The reverse: rows put at distinct places of a matrix of `count` rows, 0 elsewhere."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, rows: Tensor, count: int) -> Tensor:
        ctx.save_for_backward(rows)
        return _spread(matrix, rows, count)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (rows,) = ctx.saved_tensors
        return gradient.index_select(0, rows), None, None


def _spread(matrix: Tensor, rows: Tensor, count: int) -> Tensor:
    return matrix.new_zeros(count, matrix.shape[1]).index_copy_(0, rows, matrix)


def _segment_mean(hidden: Tensor, lengths: Tensor) -> Tensor:
    mean: Tensor = torch.segment_reduce(hidden, "mean", lengths=lengths, axis=0)
    return mean
