"""Texts that are stored one after another, without padding, and their positions.

A text is a pair of query and document, or a sentence. Everything except attention works on single tokens, regardless of
their text. Attention takes consecutive texts of similar length together and pads them to the longest of them.

On a processor, products of matrices in bf16 are oneDNN's. It makes a kernel for each shape, which takes about a
millisecond, as long as a small product itself, and keeps the last 1,024. Numbers of tokens and of texts are
therefore rounded, so that shapes repeat: without that, two fifths of a training on short texts went into kernels.

A GPU gets all arrays of a batch in one copy, and nobody waits for it.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import groupby, islice
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from trainables.utils.arrays import Bools, Ints


class _GroupLimits(NamedTuple):
    """Limits of a group of consecutive texts on one type of device.

    Attributes:
        wasted_scores: padded attention scores per head that cost less than one more group.
        scores: attention scores per head of a group of several texts. On a processor, larger groups are slower, because
            the system gives and takes back the memory of every tensor.
        wasted_tokens: tokens of padding that cost less than one more group, if all layers run padded.
        tokens: tokens of such a group of several texts, including padding.
    """

    wasted_scores: int
    scores: int
    wasted_tokens: int
    tokens: int


_LIMITS = {
    "cpu": _GroupLimits(wasted_scores=2000, scores=1 << 18, wasted_tokens=64, tokens=1 << 11),
    # Not measured: on a GPU the start of a kernel costs more than padding.
    "cuda": _GroupLimits(wasted_scores=1 << 19, scores=1 << 24, wasted_tokens=1 << 10, tokens=1 << 16),
}


class _Multiples(NamedTuple):
    """Multiples to which the sizes of arrays are rounded on one type of device.

    Attributes:
        tokens: rows of a batch, rounded up.
        first_tokens: rows of the first tokens alone, rounded up.
        length: tokens of a padded text in a group, rounded up.
        texts: texts in a group, rounded down; a smaller number is kept.
    """

    tokens: int
    first_tokens: int
    length: int
    texts: int


_NO_ROUNDING = _Multiples(1, 1, 1, 1)
_MULTIPLES = {"cpu": _Multiples(tokens=64, first_tokens=8, length=8, texts=4), "cuda": _NO_ROUNDING}
_FILLED_ROWS, _FILLED_LENGTH = 128, 256
"""Multiples of the rows of a filled batch and of the length of its longest text, so that shapes repeat."""
_ALIGNMENT = 16
"""The place of an array in a common copy is a multiple of this, in bytes."""
_TORCH_DTYPES = {
    "bool": torch.bool,
    "int32": torch.int32,
    "int64": torch.int64,
    "float32": torch.float32,
    "float64": torch.float64,
}
"""Name of a type in numpy -> type of the tensor."""


class DeviceArrays:
    """Arrays that go to a device together, when the first of them is read there.

    A GPU gets them in one copy from pinned memory, for which the processor does not wait.

    Args:
        device: the device.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._arrays: list[np.ndarray] = []
        self._memory: Tensor | None = None
        self._tensors: list[Tensor] | None = None

    @property
    def is_open(self) -> bool:
        """True until the arrays are on the device."""
        return self._memory is None and self._tensors is None

    def add(self, array: np.ndarray) -> Callable[[], Tensor]:
        """Add an array, and return the function that reads it on the device."""
        assert self.is_open, "the arrays are on the device already"
        number = len(self._arrays)
        self._arrays.append(array)
        return lambda: self._read(number)

    @property
    def shapes(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Type and shape of each array."""
        return tuple((array.dtype.name, array.shape) for array in self._arrays)

    def copy_to_gpu(self, memory: Tensor | None = None) -> Tensor:
        """Copy all arrays, and return the memory that they share there.

        Args:
            memory: memory of an earlier copy of arrays of the same shapes, which is written again. If None, new memory.
        """
        sizes = [_round_up(array.nbytes, _ALIGNMENT) for array in self._arrays]
        host = torch.empty(sum(sizes), dtype=torch.uint8, pin_memory=True)
        for array, part in zip(self._arrays, np.split(host.numpy(), np.cumsum(sizes)[:-1]), strict=True):
            part[: array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        # The allocator of pinned memory keeps the memory of the host until the copy is done.
        if memory is None:
            memory = host.to(self.device, non_blocking=True)
        else:
            memory.copy_(host, non_blocking=True)
        self._memory = memory
        return memory

    def _read(self, number: int) -> Tensor:
        if self._tensors is None:
            on_gpu = self.device.type == "cuda"
            self._tensors = self._split_memory() if on_gpu else [torch.from_numpy(array) for array in self._arrays]
        return self._tensors[number]

    def _split_memory(self) -> list[Tensor]:
        memory = self.copy_to_gpu() if self._memory is None else self._memory
        parts = memory.split([_round_up(array.nbytes, _ALIGNMENT) for array in self._arrays])  # type: ignore[no-untyped-call]
        return [
            part[: array.nbytes].view(_TORCH_DTYPES[array.dtype.name]).view(array.shape)
            for array, part in zip(self._arrays, parts, strict=True)
        ]


class AttentionGroup:
    """Consecutive pairs with a joint attention computation, padded to the same length.

    Args:
        lengths: tokens of each pair, shape (pairs,).
        arrays: arrays of the batch, to which those of the group are added.
        multiple: the padded length is a multiple of this.

    Attributes:
        n_pairs: number of pairs.
        max_length: tokens of a padded pair.
        is_padded: True if any pair is shorter.
        inside: True at tokens and False at padding, shape (n_pairs, max_length).
    """

    def __init__(self, lengths: np.ndarray, arrays: DeviceArrays, multiple: int = 1) -> None:
        self.n_pairs, self.max_length = len(lengths), _round_up(int(lengths.max()), multiple)
        self.inside: Bools = np.arange(self.max_length) < lengths[:, None]
        self.is_padded = not self.inside.all()
        self._read_inside = arrays.add(self.inside)
        self._masks: dict[tuple[int, torch.dtype], Tensor | None] = {}

    @cached_property
    def token_mask(self) -> Tensor:
        """1 at tokens and 0 at padding, int64 of shape (n_pairs, max_length)."""
        return self._read_inside().long()

    def make_mask(self, window: int | None = None, dtype: torch.dtype = torch.float32) -> Tensor | None:
        """Return what is added to the attention scores: 0 where a token attends to a token, and -inf elsewhere.

        A place in the padding attends to every place, since softmax over nothing but -inf is not a number.

        Args:
            window: a token attends to tokens at a distance of less than this. If None, to all tokens of its pair.
            dtype: type of the result.

        Returns:
            Array of shape (n_pairs or 1, 1, max_length or 1, max_length). None if every score counts.
        """
        key = min(window or self.max_length, self.max_length), dtype
        if key not in self._masks:
            self._masks[key] = self._make_mask(*key)
        return self._masks[key]

    def _make_mask(self, window: int, dtype: torch.dtype) -> Tensor | None:
        if window == self.max_length and not self.is_padded:
            return None
        inside = self._read_inside()
        attended = inside[:, None, None, :]
        if window < self.max_length:
            places = torch.arange(self.max_length, device=inside.device)
            near = (places[:, None] - places).abs() < window
            attended = (attended & near) | ~inside[:, None, :, None] if self.is_padded else near[None, None]
        return torch.zeros(attended.shape, dtype=dtype, device=inside.device).masked_fill_(~attended, -torch.inf)


class _Run:
    """Consecutive groups that are all padded, or all not; with their number and that of their tokens."""

    def __init__(self, groups: list[AttentionGroup], arrays: DeviceArrays) -> None:
        self._groups = groups
        self._inside: Bools = np.concatenate([group.inside.reshape(-1) for group in groups])
        self.is_padded, self.n_groups, self.n_tokens = groups[0].is_padded, len(groups), int(self._inside.sum())
        if self.is_padded:
            # Place of each token in the padded arrays, one after another, shape (tokens,).
            self._read_places = arrays.add(np.flatnonzero(self._inside))
            # Token at each place of the padded arrays, shape (places,).
            self._read_sources = arrays.add(np.maximum(np.cumsum(self._inside) - 1, 0))

    def pad(self, rows: Tensor) -> list[Tensor]:
        """Return an array of shape (n_pairs, max_length, size) for each group, with rows of any token at padding."""
        return self._split(rows.index_select(0, self._read_sources()) if self.is_padded else rows)

    def pad_by_zeros(self, rows: Tensor) -> list[Tensor]:
        """Return the same with 0 at padding."""
        if not self.is_padded:
            return self._split(rows)
        return self._split(rows.new_zeros(len(self._inside), rows.shape[1]).index_copy_(0, self._read_places(), rows))

    def unpad(self, arrays: Sequence[Tensor]) -> list[Tensor]:
        """Return one or more arrays that together have the rows of the tokens."""
        rows = [array.flatten(0, 1) for array in arrays]
        return [_join_rows(rows).index_select(0, self._read_places())] if self.is_padded else rows

    def _split(self, rows: Tensor) -> list[Tensor]:
        parts = rows.split([group.inside.size for group in self._groups])  # type: ignore[no-untyped-call]
        shapes = ((group.n_pairs, group.max_length, -1) for group in self._groups)
        return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


class AttentionGroups:
    """Groups of all pairs of a batch, and the way of their tokens into padded arrays and back.

    Consecutive groups are padded by one operation, since each costs more than its work. Groups without padding are not
    copied.

    Args:
        groups: groups in the order of the pairs.
        arrays: arrays of the batch, to which those of the groups are added.
        n_extra: rows after those of the tokens, which belong to no group.
    """

    def __init__(self, groups: list[AttentionGroup], arrays: DeviceArrays, n_extra: int = 0) -> None:
        self._groups, self._n_extra = groups, n_extra
        self._runs = [_Run(list(own), arrays) for _, own in groupby(groups, key=lambda group: group.is_padded)]

    def __iter__(self) -> Iterator[AttentionGroup]:
        return iter(self._groups)

    def pad(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Return rows of shape (tokens and extra rows, size) as an array (n_pairs, max_length, size) for each group.

        Rows at padding are those of any token, and get no gradient.
        """
        parts: tuple[Tensor, ...] = _Pad.apply(rows, self)  # type: ignore[no-untyped-call]
        return parts

    def unpad(self, arrays: Sequence[Tensor]) -> Tensor:
        """Return the rows of the tokens of an array as `pad` returns it for each group.

        The result has the shape (tokens and extra rows, size). The extra rows are 0.
        """
        rows: Tensor = _Unpad.apply(self, *arrays)  # type: ignore[no-untyped-call]
        return rows

    def fill_arrays(self, rows: Tensor, pad: Callable[[_Run, Tensor], list[Tensor]]) -> tuple[Tensor, ...]:
        """Return an array for each group, without a gradient; `pad` is that of a run, by zeros or not."""
        *parts, _ = rows.split([*(run.n_tokens for run in self._runs), self._n_extra])  # type: ignore[no-untyped-call]
        return tuple(array for run, part in zip(self._runs, parts, strict=True) for array in pad(run, part))

    def collect_rows(self, arrays: Sequence[Tensor]) -> Tensor:
        """Return the rows of the tokens of an array for each group, without a gradient."""
        rest = iter(arrays)
        parts = [rows for run in self._runs for rows in run.unpad([*islice(rest, run.n_groups)])]
        return _join_rows([*parts, parts[0].new_zeros(self._n_extra, parts[0].shape[1])] if self._n_extra else parts)


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
    """A batch on a device: its inputs, and the positions of its tokens and pairs.

    Args:
        batch: the batch.
        device: the device. If None, that of the inputs.
        is_filled: True if another text of zeros, 1 to 128 tokens that no pair reads, fills the batch up to a multiple
            of 128 tokens. It is for attention without padding. Default False.

    Attributes:
        arrays: arrays of the batch; others can be added to them until one is read.
        n_tokens: tokens of all pairs and of the filling text.
        n_extra: rows of packed layers after those of the tokens, which nothing reads; 0 to 63 on a processor.
        longest: tokens of the longest pair; in a filled batch rounded up to a multiple of 256.
        read_inputs: returns the inputs of the batch.
        read_positions: returns the position of each token in its pair, shape (tokens,).
        read_token_types: returns 0 for tokens of the query and 1 for tokens of the document, shape (tokens,).
        read_cumulative_lengths: returns the tokens before each pair, before the filling text if there is one, and in
            total, int32 of shape (pairs + 1 or + 2,).
        read_first_rows: returns the index of the first token of each pair, and row 0 repeated after them up to a
            multiple of 8 on a processor; shape (at least pairs,).
    """

    def __init__(self, batch: PackedBatch, device: torch.device | None = None, is_filled: bool = False) -> None:
        lengths, inputs = batch.lengths, batch.inputs
        self.lengths, self.starts, self.device = lengths, batch.starts, device or inputs.device
        self.offsets = np.concatenate([[0], np.cumsum(lengths)])
        self._multiples = _MULTIPLES[self.device.type]
        n_texts, n_tokens = len(lengths), int(self.offsets[-1])
        n_filling = _FILLED_ROWS - n_tokens % _FILLED_ROWS if is_filled else 0
        self.n_tokens = n_tokens + n_filling
        self.n_extra = _round_up(n_tokens, self._multiples.tokens) - n_tokens
        self.longest = _round_up(max(int(lengths.max()), n_filling), _FILLED_LENGTH if is_filled else 1)
        ends = np.append(self.offsets, self.n_tokens) if is_filled else self.offsets
        positions = np.arange(n_tokens) - np.repeat(self.offsets[:-1], lengths)
        token_types = (positions >= np.repeat(batch.starts, lengths)).astype(np.int64)
        self.arrays = arrays = DeviceArrays(self.device)
        is_there = inputs.device.type == self.device.type
        self.read_inputs: Callable[[], Tensor] = (
            (lambda: inputs) if is_there else arrays.add(_append_zeros(inputs.numpy(), n_filling))
        )
        self.read_positions = arrays.add(_append_zeros(positions, n_filling))
        self.read_token_types = arrays.add(_append_zeros(token_types, n_filling))
        self.read_cumulative_lengths = arrays.add(ends.astype(np.int32))
        first_rows = np.zeros(_round_up(n_texts, self._multiples.first_tokens), dtype=np.int64)
        first_rows[:n_texts] = self.offsets[:-1]
        self.read_first_rows = arrays.add(first_rows)
        self._read_lengths = arrays.add(lengths)
        self._read_parts = arrays.add(np.stack([batch.starts, lengths - batch.starts], axis=1).reshape(-1))

    @property
    def first_tokens(self) -> Tensor:
        """Index of the first token of each pair, shape (pairs,)."""
        return self.read_first_rows()[: len(self.lengths)]

    def mean_pool(self, hidden: Tensor) -> Tensor:
        """Return the mean over the tokens of each pair, shape (pairs, hidden)."""
        return _segment_mean(hidden, self._read_lengths())

    def mean_pool_parts(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return the means over the query tokens and over the document tokens of each pair, (pairs, hidden) both."""
        both = _segment_mean(hidden, self._read_parts()).view(len(self.lengths), 2, -1)
        return both[:, 0], both[:, 1]

    @cached_property
    def groups(self) -> AttentionGroups:
        """Groups of pairs for attention; the arrays of their tokens have the extra rows."""
        limits = _LIMITS[self.device.type]
        return self._make_groups(limits.wasted_scores, limits.scores, 2, self._multiples, self.n_extra)

    @cached_property
    def padded_groups(self) -> AttentionGroups:
        """Groups of pairs for layers that run padded."""
        limits = _LIMITS[self.device.type]
        return self._make_groups(limits.wasted_tokens, limits.tokens, 1, _NO_ROUNDING, 0)

    def _make_groups(
        self, max_waste: int, max_total: int, power: int, multiples: _Multiples, n_extra: int
    ) -> AttentionGroups:
        arrays = self.arrays if self.arrays.is_open else DeviceArrays(self.device)
        rounded = _round_up(self.lengths, multiples.length)
        parts = _split_into_groups(rounded, max_waste, max_total, power, multiples.texts)
        groups = [AttentionGroup(self.lengths[part], arrays, multiples.length) for part in parts]
        return AttentionGroups(groups, arrays, n_extra)


_Count = TypeVar("_Count", int, Ints)


def _round_up(count: _Count, multiple: int) -> _Count:
    return -(-count // multiple) * multiple


def _append_zeros(array: np.ndarray, n_rows: int) -> np.ndarray:
    return np.concatenate([array, np.zeros((n_rows, *array.shape[1:]), array.dtype)]) if n_rows else array


def _split_into_groups(lengths: Ints, max_waste: int, max_total: int, power: int, multiple: int) -> Iterator[slice]:
    """Yield slices of consecutive pairs, as long as padding costs less than one more group.

    Args:
        lengths: tokens of each pair, shape (pairs,).
        max_waste: largest cost of the padding of a group.
        max_total: largest cost of a group of several pairs, including the padding.
        power: the cost of a text of length n is n to this power.
        multiple: a group of more pairs than this has a multiple of it. What is left of it begins the next group.
    """
    first = 0
    while first < len(lengths):
        longest, cost, after = 0, 0, first
        for length in map(int, lengths[first:]):
            longest, cost = max(longest, length), cost + length**power
            total = (after + 1 - first) * longest**power
            if after > first and (total - cost > max_waste or total > max_total):
                break
            after += 1
        count = after - first
        yield slice(first, first := first + (count if count < multiple else count // multiple * multiple))


def _join_rows(arrays: list[Tensor]) -> Tensor:
    """Return the rows of all arrays; one array is not copied."""
    return arrays[0] if len(arrays) == 1 else torch.cat(arrays)


class _Pad(torch.autograd.Function):
    """Rows of tokens in padded arrays, as one step of the gradient; torch's own takes several for each group."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, groups: AttentionGroups) -> tuple[Tensor, ...]:
        ctx.groups = groups
        return groups.fill_arrays(rows, _Run.pad)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.groups.collect_rows(gradients), None


class _Unpad(torch.autograd.Function):
    """Rows of tokens from padded arrays, the reverse of `_Pad`."""

    @staticmethod
    def forward(ctx: Any, groups: AttentionGroups, *arrays: Tensor) -> Tensor:
        ctx.groups = groups
        return groups.collect_rows(arrays)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return None, *ctx.groups.fill_arrays(gradient, _Run.pad_by_zeros)


def _segment_mean(hidden: Tensor, lengths: Tensor) -> Tensor:
    # Unsafe: the lengths are not checked, which would wait for a GPU.
    mean: Tensor = torch.segment_reduce(hidden, "mean", lengths=lengths, axis=0, unsafe=True)
    return mean
