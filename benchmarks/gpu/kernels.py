"""Time of attention, forward and backward, by kernel and shape, and the kernel that the engine chooses.

The packed kernels take and return tokens without padding; the padding and unpadding of groups counts. The padded one is
scaled_dot_product_attention over the whole batch, with inputs that are padded already.
"""

from functools import partial
from statistics import median
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks import contenders
from benchmarks.gpu import models
from benchmarks.gpu.parts import Place
from benchmarks.gpu.report import Row, checked, measured, not_measured
from benchmarks.measure import Measure, interleaved, rate
from trainables.models import attention
from trainables.models.attention import Kernel, PackedPass, attend_packed, choose_kernel
from trainables.models.dropout import Dropout
from trainables.models.packing import PackedBatch, PackedLayout

_HEADS, _HEAD_SIZE, _REPEATS, _TOLERANCE = 12, 64, 10, 1e-5
_KERNELS: tuple[Kernel, ...] = ("explicit", "fused", "varlen")
_PADDED = "padded"


def list_shapes(place: Place) -> dict[str, np.ndarray]:
    """Lengths of the texts of a batch by its name, in the order in which the engine sorts them."""
    if not place.is_gpu:
        return {"8 texts, long-tailed": np.sort(models.draw_lengths("long-tailed", 8, 64))}
    return {
        "32 texts, question pairs": np.sort(models.draw_lengths("question pairs", 32)),
        "32 texts, long-tailed": np.sort(models.draw_lengths("long-tailed", 32)),
        "512 texts, question pairs": np.sort(models.draw_lengths("question pairs", 512)),
        "192 texts, long-tailed": np.sort(models.draw_lengths("long-tailed", 192)),
        "128 texts of 128": np.full(128, 128),
        "32 texts of 512": np.full(32, 512),
    }


def run(place: Place) -> list[Row]:
    """Measures every shape with and without dropout; a processor compares its kernels."""
    if not place.is_gpu:
        rows = [compare_kernels(title, lengths) for title, lengths in list_shapes(place).items()]
        return [*rows, not_measured("milliseconds by kernel, shape and dropout")]
    shapes = list_shapes(place)
    return [
        row
        for title, lengths in shapes.items()
        for dropout in (0.0, 0.1)
        for row in measure_shape(place, title, lengths, dropout, place.seconds / (2 * len(shapes)))
    ]


def measure_shape(place: Place, title: str, lengths: np.ndarray, dropout: float, seconds: float) -> list[Row]:
    """Milliseconds of each kernel, which is the fastest, and which is chosen; one that fails says why."""
    batch, title = Batch(lengths, place.device, torch.bfloat16), f"{title}, dropout {dropout:g}"
    rows, measures = list[Row](), dict[str, Measure]()
    for name in (*_KERNELS, _PADDED):
        try:
            if name == "varlen" and dropout:
                raise ValueError("has no dropout")
            batch.repeat(name, dropout)
        except (RuntimeError, ValueError) as error:
            rows.append(not_measured(f"{title}: {name}", str(error).splitlines()[0][:80]))
        else:
            measures[name] = rate(partial(batch.repeat, name, dropout), _REPEATS)
    found = interleaved(measures, place.rounds, seconds)
    times = {name: [1000 / each for each in rates] for name, rates in found.items()}
    medians = {name: median(values) for name, values in times.items()}
    fastest, packed = min(medians, key=medians.__getitem__), min(set(medians) & {*_KERNELS}, key=medians.__getitem__)
    chosen = choose_kernel(batch.inputs[0], Dropout(dropout, 1), int(lengths.max()))
    note = f"chosen: {chosen}, {medians[chosen] / medians[packed]:.2f} times the time of {packed}, the fastest packed"
    rows = [*(measured(f"{title}: {name}", values, "ms") for name, values in times.items()), *rows]
    return [*rows, measured(f"{title}: fastest is {fastest}", [medians[fastest]], "ms", note)]


def compare_kernels(title: str, lengths: np.ndarray) -> Row:
    """The largest difference between the kernels of a processor, outputs and gradients, in fp32 without dropout."""
    batch = Batch(lengths, "cpu", torch.float32)
    results = [batch.attend(name, 0.0) for name in ("explicit", "fused", _PADDED)]
    difference = max(float((own - results[0]).abs().max()) for own in results)
    return checked(f"{title}: explicit, fused and padded give the same", difference, _TOLERANCE)


class Batch:
    """Queries, keys and values of texts, packed and padded.

    Args:
        lengths: tokens of the texts, shape (texts,).
        device: device of the tensors.
        dtype: type of the tensors.
    """

    def __init__(self, lengths: np.ndarray, device: str, dtype: torch.dtype) -> None:
        generator = torch.Generator().manual_seed(0)
        self.inside = torch.from_numpy(np.arange(lengths.max()) < lengths[:, None]).to(device)  # (texts, longest)
        self.n_tokens = int(lengths.sum())
        self.layout = PackedLayout(PackedBatch(torch.zeros(self.n_tokens, device=device), lengths, lengths // 2))
        values = torch.randn(3, self.n_tokens, _HEADS, _HEAD_SIZE, generator=generator).to(device, dtype)
        padded = values.new_zeros(3, *self.inside.shape, _HEADS, _HEAD_SIZE)
        padded[:, self.inside] = values
        packed = torch.nn.functional.pad(values, (0, 0, 0, 0, 0, self.layout.n_extra))
        self.inputs = [own.transpose(0, 1)[None].requires_grad_() for own in packed]
        self.padded = [own.transpose(1, 2).contiguous().requires_grad_() for own in padded]
        # The padding has no gradient, as in a model that does not read the output at padding.
        self.padded_gradient = self.inside[:, None, :, None].to(dtype).expand(self.padded[0].shape).contiguous()
        self.gradient = torch.ones(1, len(packed[0]), _HEADS, _HEAD_SIZE, dtype=dtype, device=device)

    def repeat(self, kernel: str, dropout: float) -> None:
        """Computes attention and its gradients several times."""
        device = self.inside.device.type
        contenders.synchronize(device)
        for _ in range(_REPEATS):
            self._compute(kernel, dropout)
        contenders.synchronize(device)

    def attend(self, kernel: str, dropout: float) -> Tensor:
        """Output, and gradients of queries, keys and values, of the tokens alone, shape (4, tokens, heads, size)."""
        output = self._compute(kernel, dropout).detach()
        if kernel == _PADDED:
            arrays = [output, *(own.grad for own in self.padded if own.grad is not None)]
            return torch.stack([own.transpose(1, 2)[self.inside] for own in arrays])
        gradients = [own.grad.squeeze(0).transpose(0, 1) for own in self.inputs if own.grad is not None]
        return torch.stack([output.squeeze(0), *gradients])[:, : self.n_tokens]

    def _compute(self, kernel: str, dropout: float) -> Tensor:
        for own in (*self.inputs, *self.padded):
            own.grad = None
        if kernel == _PADDED:
            mask = None if bool(self.inside.all()) else self.inside[:, None, None, :]
            output = nn.functional.scaled_dot_product_attention(*self.padded, attn_mask=mask, dropout_p=dropout)
            output.backward(self.padded_gradient)
            return output
        with patch.object(attention, "choose_kernel", lambda *ignored: kernel):
            output = self._attend_packed(dropout)
        output.backward(self.gradient)
        return output

    def _attend_packed(self, dropout: float) -> Tensor:
        packed = PackedPass(self.layout, Dropout(dropout, 1))
        output, _ = attend_packed(nn.Identity(), *self.inputs, None, scaling=_HEAD_SIZE**-0.5, packed=packed)
        return output
