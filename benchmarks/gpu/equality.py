"""A cross-encoder computes on the GPU what it computes on the processor, and the same bits again."""

from collections.abc import Iterable

import torch
from torch import Tensor
from transformers import AutoModel

from benchmarks import contenders
from benchmarks.contenders import PairList
from benchmarks.gpu import models
from benchmarks.gpu.models import Size
from benchmarks.gpu.parts import Place
from benchmarks.gpu.report import Row, checked, confirmed
from trainables.models.cross_encoder import CrossEncoder
from trainables.models.dropout import NO_DROPOUT
from trainables.specs.checkpoint_chain import Segment
from trainables.specs.ranker import LabelSmoothing, RankerModelSettings

_TOLERANCES = {"scores": 1e-4, "gradients": 1e-3}
"""Largest difference in fp32, as a share of the largest value. The order of sums differs by device and by padding, and
the terms of a gradient cancel."""
_SIZES: tuple[Size, ...] = ("tiny", "minilm")


def run(place: Place) -> list[Row]:
    """Compares both sizes; products are in fp32 without TF32."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    rows, batches = list[Row](), 8 if place.is_gpu else 2
    for size in _SIZES:
        path = models.write_model(place.folder, "bert", size)
        pairs = models.make_pairs(path, models.draw_lengths("long-tailed", contenders.BATCH_SIZE * batches, 128))
        rows += compare_computations(size, pairs, place.device)
        for precision in ("fp32", "bf16"):
            first, second = (hash_training(pairs, precision, place.device) for _ in range(2))
            note = f"{batches} batches, dropout 0.1"
            rows.append(confirmed(f"{size}: same bits twice on {place.device}, {precision}", first == second, note))
    return rows


def compare_computations(size: Size, pairs: PairList, device: str) -> list[Row]:
    """Packed on the device against packed on the processor, and against transformers' own padded model there."""
    expected = compute_padded(pairs)
    packed = compute_packed(pairs, "cpu")
    compared = [("packed against padded, both on cpu", packed, expected)]
    if device != "cpu":
        found = compute_packed(pairs, device)
        compared += [(f"packed on {device} against cpu", found, packed)]
        compared += [(f"packed on {device} against padded on cpu", found, expected)]
    return [
        checked(f"{size}: {kind}, {title}, fp32", measure_difference(one, other), _TOLERANCES[kind])
        for title, ours, theirs in compared
        for kind, one, other in zip(_TOLERANCES, ours, theirs, strict=True)
    ]


Computed = tuple[list[Tensor], list[Tensor]]
"""Logits of the first batch, and the gradients of the encoder's parameters in the order of their names, 0 for none."""


def compute_packed(pairs: PairList, device: str) -> Computed:
    """By this engine, without dropout."""
    model = CrossEncoder(pairs.path, RankerModelSettings(), seed=1).to(device)
    logits = model(pairs.read(range(contenders.BATCH_SIZE)), NO_DROPOUT)
    _compute_loss(logits).backward()
    return [logits.detach().cpu()], _list_gradients(model.encoder_parameters())


def compute_padded(pairs: PairList) -> Computed:
    """By transformers on the processor, with explicit attention and this engine's head."""
    head = CrossEncoder(pairs.path, RankerModelSettings(), seed=1).head
    model = AutoModel.from_pretrained(pairs.path, attn_implementation="eager", dtype=torch.float32).eval()
    features = [{name: pairs.encoded[name][row] for name in pairs.encoded} for row in range(contenders.BATCH_SIZE)]
    logits = head(model(**pairs.tokenizer.pad(features, return_tensors="pt")).pooler_output)
    _compute_loss(logits).backward()
    return [logits.detach()], _list_gradients(dict(model.named_parameters()))


def _compute_loss(logits: Tensor) -> Tensor:
    labels = torch.arange(len(logits), device=logits.device) % 2
    return torch.nn.functional.cross_entropy(logits, labels)


def _list_gradients(parameters: dict[str, Tensor]) -> list[Tensor]:
    ordered = (parameters[name] for name in sorted(parameters))
    return [(torch.zeros_like(own) if own.grad is None else own.grad).detach().cpu() for own in ordered]


def measure_difference(found: Iterable[Tensor], expected: Iterable[Tensor]) -> float:
    """Largest difference as a share of the largest expected value, over all arrays."""
    both = list(zip(found, expected, strict=True))
    largest = max(float(other.abs().max()) for _, other in both)
    return max(float((one.double() - other.double()).abs().max()) for one, other in both) / largest


def hash_training(pairs: PairList, precision: str, device: str) -> str:
    """Hash of the weights after an epoch with dropout."""
    trainer = contenders.own_trainer(pairs, precision, device=device)
    trainer.train(Segment(0, len(pairs.texts), LabelSmoothing()), len(pairs.texts), contenders.label(pairs))
    return trainer.hash_weights()
