"""Operations of fused attention by explicit formulas in fp32, forward and backward.

A seed names the mask of dropout, so that both steps have the same one.
"""

from typing import Any

import torch
from torch import Tensor

from tests.pretend_gpu.generators import default_generator


class _Attention:
    """softmax(scale * query @ key + bias) @ value with dropout of the weights; arrays (..., tokens, size)."""

    def __init__(self, arrays: list[Tensor], bias: Tensor | None, scale: float | None, rate: float, seed: int) -> None:
        self.query, self.key, self.value = (array.float() for array in arrays)
        self.scale = arrays[0].shape[-1] ** -0.5 if scale is None else scale
        scores = self.query @ self.key.transpose(-1, -2) * self.scale
        self.weights = (scores if bias is None else scores + bias).softmax(-1)
        self.mask = torch.ones(())
        if rate:
            draw = torch.rand(scores.shape, generator=default_generator.clone_state().manual_seed(seed))
            self.mask = (draw >= rate) / (1 - rate)

    def compute(self) -> Tensor:
        return (self.weights * self.mask) @ self.value

    def differentiate(self, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        of_weights = gradient.float() @ self.value.transpose(-1, -2) * self.mask
        of_scores = self.weights * (of_weights - (of_weights * self.weights).sum(-1, keepdim=True)) * self.scale
        of_value = (self.weights * self.mask).transpose(-1, -2) @ gradient.float()
        return of_scores @ self.key, of_scores.transpose(-1, -2) @ self.query, of_value


def _draw_seed(rate: float) -> Tensor:
    seed = torch.zeros((), dtype=torch.int64)
    return seed.random_(1 << 40, generator=default_generator) if rate else seed


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """scaled_dot_product_attention of tensors on the device, by one operation that has a derivative."""
    if is_causal or enable_gqa or (attn_mask is not None and attn_mask.dtype not in (torch.bool, query.dtype)):
        raise NotImplementedError("causal or grouped attention, or a mask of another type, on the pretend GPU")
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.where(attn_mask, 0.0, -torch.inf).to(query.dtype)
    operation = torch.ops.aten._scaled_dot_product_efficient_attention
    return operation(query, key, value, attn_mask, True, dropout_p, scale=scale)[0]


def _attend_padded(given: dict[str, Any], seed: Tensor) -> _Attention:
    arrays = [given[name] for name in ("query", "key", "value")]
    return _Attention(arrays, given["attn_bias"], given["scale"], given["dropout_p"], int(seed))


def _padded_forward(given: dict[str, Any]) -> tuple[Tensor, ...]:
    seed, query = _draw_seed(given["dropout_p"]), given["query"]
    output = _attend_padded(given, seed).compute().to(query.dtype)
    return output, torch.zeros(query.shape[:-1]), seed, torch.zeros_like(seed)


def _padded_backward(given: dict[str, Any]) -> tuple[Tensor | None, ...]:
    if given["grad_input_mask"][3]:
        raise NotImplementedError("the gradient of a mask on the pretend GPU")
    gradients = _attend_padded(given, given["philox_seed"]).differentiate(given["grad_out_"])
    return (*(each.to(given["query"].dtype) for each in gradients), None)


def _attend_each_text(given: dict[str, Any], seed: int) -> tuple[list[slice], list[_Attention]]:
    """Return rows and attention of each text, shape (heads, tokens, size), or raise an error as the kernel does."""
    offsets, arrays = given["cum_seq_q"], [given[name] for name in ("query", "key", "value")]
    if any(array.dtype not in (torch.bfloat16, torch.float16) or array.stride(-1) != 1 for array in arrays):
        raise RuntimeError("FlashAttention only support fp16 and bf16 data type, and contiguous last dimensions")
    if offsets is None or offsets.dtype != torch.int32 or not torch.equal(offsets, given["cum_seq_k"]):
        raise RuntimeError("flash attention on the pretend GPU needs equal cumulative lengths in int32")
    if int(offsets[-1]) != len(arrays[0]) or int(offsets.diff().max()) > given["max_q"] or given["is_causal"]:
        raise RuntimeError("flash attention on the pretend GPU: wrong lengths, or causal")
    rows = [slice(*ends) for ends in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
    texts = [[array[own].transpose(0, 1) for array in arrays] for own in rows]
    biases = [_make_window(len(array[own]), given) for own in rows for array in arrays[:1]]
    rate, scale = given["dropout_p"], given["scale"]
    return rows, [
        _Attention(text, bias, scale, rate, seed + number)
        for number, (text, bias) in enumerate(zip(texts, biases, strict=True))
    ]


def _make_window(length: int, given: dict[str, Any]) -> Tensor:
    distance = torch.arange(length)[:, None] - torch.arange(length)  # of a key to the left of the query
    bias = torch.zeros(length, length)
    for side, reach in ((distance, given["window_size_left"]), (-distance, given["window_size_right"])):
        if reach is not None and reach >= 0:
            bias[side > reach] = -torch.inf
    return bias


def _packed_forward(given: dict[str, Any]) -> tuple[Tensor, ...]:
    seed, query = _draw_seed(given["dropout_p"]), given["query"]
    _, texts = _attend_each_text(given, int(seed))
    output = torch.cat([text.compute().transpose(0, 1) for text in texts]).to(query.dtype)
    state, sums = torch.stack([seed, torch.zeros_like(seed)]), torch.zeros(query.shape[1], len(query))
    return output, sums, state, torch.zeros(0), torch.zeros(0)


def _packed_backward(given: dict[str, Any]) -> tuple[Tensor, ...]:
    rows, texts = _attend_each_text(given, int(given["rng_state"].flatten()[0]))
    found = [text.differentiate(given["grad_out"][own].transpose(0, 1)) for own, text in zip(rows, texts, strict=True)]
    dtype = given["query"].dtype
    return tuple(torch.cat([each.transpose(0, 1) for each in own]).to(dtype) for own in zip(*found, strict=True))


OPERATIONS = {
    "_scaled_dot_product_efficient_attention": _padded_forward,
    "_scaled_dot_product_efficient_attention_backward": _padded_backward,
    "_flash_attention_forward": _packed_forward,
    "_flash_attention_backward": _packed_backward,
}
"""Operation of aten -> function of its arguments by name."""
