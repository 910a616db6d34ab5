"""Attention of packed texts, as a function that the layers of transformers call.

It has three kernels. All of them compute softmax(scaling * query @ key) @ value inside each text:

- explicit: products, softmax and dropout one after another, with the masks of `Dropout`. On a processor it is the one
  with dropout and, without tiles (AMX), the fastest one for short texts.
- fused: torch's scaled_dot_product_attention, which never stores the scores. On a GPU it draws its own dropout masks,
  in the order of use, from the generator that `Dropout.draw_on` seeds.
- varlen: torch's flash attention over texts of different lengths, without padding. It needs half precision. Its public
  function has no dropout, so the operation behind it is called where it has the known arguments. With torch's
  deterministic algorithms its gradient is deterministic, too.

Where a model reads only the first token of each text, a processor computes the attention of its last layer for that
token alone. Its keys and values are then never made: the product of a query with all keys is that of (query @ key
weights) with all inputs, and the mean of the values is the value of the mean of the inputs.
"""

from functools import cache
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.attention.varlen import varlen_attn
from transformers import AttentionInterface

from trainables.models.dense_layers import JointProjection
from trainables.models.dropout import Dropout
from trainables.models.packing import PackedLayout
from trainables.specs.environment import has_tile_units

PACKED = "packed"
"""Name of the attention function in transformers."""
Kernel = Literal["explicit", "fused", "varlen"]
_MAX_EXPLICIT = 64
"""Longest text, in tokens, for which a processor computes attention faster by single operations than by fused ones."""
_MAX_EXPLICIT_BF16 = 512
"""The same in bf16, without tiles."""
_MAX_HEAD_SIZE = 192
"""Largest size of a head in torch's flash attention on every GPU, with dropout; the size is also a multiple of 8."""
_VARLEN_CAPABILITY = (8, 0)
"""Compute capability that torch's flash attention needs."""
_FLASH_ARGUMENTS = (
    *("query", "key", "value", "cum_seq_q", "cum_seq_k", "max_q", "max_k", "dropout_p", "is_causal"),
    "return_debug_mask",
)
_FLASH_SETTINGS = ("scale", "window_size_left", "window_size_right")


class PackedPass(NamedTuple):
    """Layout and dropout of one forward pass, which attention needs in addition to queries, keys and values.

    Attributes:
        layout: layout of the batch.
        dropout: dropout of this pass.
        bypassed: projections of queries, keys and values that return their input, if only the first token of each text
            is needed. If None, every token attends.
    """

    layout: PackedLayout
    dropout: Dropout
    bypassed: JointProjection | None = None


def use_packed_attention(model: Any) -> None:
    """Make the layers of a model of transformers call `attend_packed`, in place."""
    AttentionInterface.register(PACKED, attend_packed)
    model.set_attn_implementation(PACKED)


def attend_packed(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: None,
    *,
    scaling: float,
    packed: PackedPass,
    sliding_window: int | None = None,
    **ignored: Any,
) -> tuple[Tensor, None]:
    """Return the attention inside each text, in the form that `transformers.AttentionInterface` asks for.

    Args:
        module: attention module that calls the function; not used.
        query: queries of all texts one after another, shape (1, heads, rows, size of a head). After the tokens come the
            extra rows of the layout, which no token attends to.
        key: keys, likewise.
        value: values, likewise.
        attention_mask: None, since the layout says which tokens belong together.
        scaling: factor of the scores.
        packed: layout and dropout of this pass.
        sliding_window: a token attends to tokens at a distance of less than this. If None, to all of its text.
        ignored: further arguments of some layers.

    Returns:
        Array of shape (1, rows, heads, size of a head) with 0 in the extra rows, and None in place of the attention
        weights. On a GPU there are no extra rows.
    """
    layout, dropout, bypassed = packed
    # Not [0], since its gradient fills an array of zeros first.
    queries, keys, values = (tensor.squeeze(0).transpose(0, 1) for tensor in (query, key, value))
    if bypassed is not None:
        dtype = bypassed.dtype or _get_product_dtype(query)
        inputs, weights = queries.to(dtype), bypassed.get_weights(dtype)
        with torch.autocast(query.device.type, enabled=False):
            return _attend_first_tokens(inputs, weights, layout, scaling, dropout)[None], None
    if choose_kernel(query, dropout, layout.longest) == "varlen":
        return _attend_varlen(queries, keys, values, layout, scaling, sliding_window, dropout)[None], None
    # Autocast would compute softmax in fp32, with a copy before and after it: the weights are rounded all the same.
    with torch.autocast(query.device.type, enabled=False):
        return _attend_in_groups(queries, keys, values, layout, scaling, sliding_window, dropout)[None], None


def _get_product_dtype(values: Tensor) -> torch.dtype:
    """Return the precision in which products of these values are computed now."""
    kind = values.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else values.dtype


def _attend_in_groups(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    layout: PackedLayout,
    scaling: float,
    window: int | None,
    dropout: Dropout,
) -> Tensor:
    """Return the attention inside each text, in groups of texts; all arrays have the shape (rows, heads, size)."""
    padded = [layout.groups.pad(tensor.flatten(1)) for tensor in (queries, keys, values)]
    outputs = []
    for group, *arrays in zip(layout.groups, *padded, strict=True):
        shape = (group.n_pairs, group.max_length, *queries.shape[1:])
        first, second, third = (array.view(shape).transpose(1, 2) for array in arrays)
        attend = _attend_fused if choose_kernel(first, dropout, group.max_length) == "fused" else _attend_explicitly
        mask = group.make_mask(window, first.dtype)
        outputs.append(attend(first, second, third, mask, scaling, dropout).transpose(1, 2).flatten(2))
    return layout.groups.unpad(outputs).view(queries.shape)


def choose_kernel(query: Tensor, dropout: Dropout, length: int) -> Kernel:
    """Return the fastest kernel for queries of shape (..., size of a head) and texts of at most this length.

    "varlen" is the one for texts of all lengths.
    """
    if not query.is_cuda:
        longest = _MAX_EXPLICIT
        if query.dtype == torch.bfloat16:
            longest = 0 if has_tile_units() else _MAX_EXPLICIT_BF16
        return "explicit" if dropout.is_active or length <= longest else "fused"
    has_varlen = can_attend_varlen(query.device, query.dtype, query.shape[-1])
    return "varlen" if has_varlen and (not dropout.is_active or has_flash_operation()) else "fused"


def can_attend_varlen(device: torch.device, dtype: torch.dtype, size: int) -> bool:
    """Return whether a device has flash attention for heads of this size in this precision."""
    is_supported = dtype in (torch.bfloat16, torch.float16) and size % 8 == 0 and size <= _MAX_HEAD_SIZE
    return is_supported and torch.cuda.get_device_capability(device) >= _VARLEN_CAPABILITY


@cache
def has_flash_operation() -> bool:
    """Return whether torch's operation for flash attention has the arguments and results that are used here."""
    try:
        schema = torch.ops.aten._flash_attention_forward.default._schema
    except AttributeError:
        return False
    names = [argument.name for argument in schema.arguments]
    return [*_FLASH_ARGUMENTS] == names[: len(_FLASH_ARGUMENTS)] and {*_FLASH_SETTINGS} <= {*names}


def _attend_explicitly(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float, dropout: Dropout
) -> Tensor:
    """Return the attention of padded texts; all arrays have the shape (texts, heads, longest, size of a head)."""
    # One product with the mask and the factor takes a quarter less time than three steps.
    by_head, transposed = query.flatten(0, 1), key.flatten(0, 1).transpose(1, 2)
    if mask is None:
        scores = torch.bmm(by_head * scaling, transposed)  # (texts * heads, longest, longest)
    else:
        masks = mask.expand(*query.shape[:2], -1, -1).flatten(0, 1)
        scores = torch.baddbmm(masks, by_head, transposed, alpha=scaling)
    scaled = value * dropout.scale if dropout.is_active else value
    return torch.bmm(dropout.apply_mask(scores.softmax(dim=-1)), scaled.flatten(0, 1)).view(query.shape)


def _attend_fused(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float, dropout: Dropout
) -> Tensor:
    """Return the same by scaled_dot_product_attention."""
    return nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, dropout_p=dropout.rate, scale=scaling
    )


def _attend_varlen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    layout: PackedLayout,
    scaling: float,
    window: int | None,
    dropout: Dropout,
) -> Tensor:
    """Return the attention inside each text; all arrays have the shape (tokens, heads, size of a head)."""
    offsets, longest = layout.read_cumulative_lengths(), layout.longest
    places = offsets, offsets, longest, longest
    side = -1 if window is None else window - 1  # tokens on each side, in addition to the token itself
    if has_flash_operation():
        sides = dict.fromkeys(("window_size_left", "window_size_right"), side)
        output = torch.ops.aten._flash_attention_forward(
            query, key, value, *places, dropout.rate, False, False, scale=scaling, **sides
        )[0]
    else:
        output = varlen_attn(query, key, value, *places, scale=scaling, window_size=(side, side))
    assert isinstance(output, Tensor)
    return output


def _attend_first_tokens(
    inputs: Tensor, projections: list[tuple[Tensor, Tensor]], layout: PackedLayout, scaling: float, dropout: Dropout
) -> Tensor:
    """Return the attention of the first token of each text, and 0 for the other tokens.

    The bias of the keys adds the same to all scores of a token, so it has no effect and no gradient.

    Args:
        inputs: input of the projections, shape (rows, heads, size of a head).
        projections: weight and bias of the projections of queries, keys and values.
        layout: layout of the batch.
        scaling: factor of the scores.
        dropout: dropout of this pass.

    Returns:
        Array of the shape of `inputs`.
    """
    heads, size = inputs.shape[1:]
    rows, ((query, query_bias), (key, _), (value, value_bias)) = inputs.flatten(1), projections
    first_rows = layout.read_first_rows()
    n_texts, n_rows = len(layout.lengths), len(first_rows)
    queries = nn.functional.linear(rows.index_select(0, first_rows), query, query_bias)
    by_head = (queries * scaling).view(-1, heads, size).transpose(0, 1)
    directions = (by_head @ key.view(heads, size, -1)).transpose(0, 1)[:n_texts]  # (texts, heads, hidden)
    means, sums = list[Tensor](), list[Tensor]()
    groups = layout.groups
    counts = [group.n_pairs for group in groups]
    for group, array, own in zip(groups, groups.pad(rows), directions.split(counts), strict=True):  # type: ignore[no-untyped-call]
        scores = own @ array.transpose(1, 2)  # (texts, heads, longest)
        mask = group.make_mask(dtype=scores.dtype)
        if mask is not None:
            scores += mask.squeeze(1)
        weights = dropout(scores.softmax(dim=-1))
        means.append(weights @ array)
        sums.append(weights.sum(dim=-1, keepdim=True))
    mean = nn.functional.pad(torch.cat(means), (0, 0, 0, 0, 0, n_rows - n_texts))
    by_head = mean.transpose(0, 1) @ value.view(heads, size, -1).transpose(1, 2)
    outputs = by_head.transpose(0, 1)[:n_texts] + torch.cat(sums) * value_bias.view(heads, size)
    full = outputs.new_zeros(len(inputs), heads * size).index_copy(0, layout.first_tokens, outputs.flatten(1))
    return full.view(inputs.shape)
