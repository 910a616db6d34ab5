"""A GPU computes what the processor computes in float64, draws the masks of dropout, and repeats its bits."""

import time
import warnings
from collections.abc import Callable, Iterator
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModel

from benchmarks import contenders
from benchmarks.contenders import PairList
from benchmarks.gpu import models
from benchmarks.gpu.parts import Place
from benchmarks.gpu.report import Row, checked, confirmed, measured
from trainables.losses import LOSSES
from trainables.models.cross_encoder import CrossEncoder
from trainables.models.dropout import NO_DROPOUT
from trainables.rankers.ranker_trainer import RankerTrainer
from trainables.specs.checkpoint_chain import Segment
from trainables.specs.ranker import LabelSmoothing, RankerModelSettings
from trainables.training import graphs

_TOLERANCES = {"fp32": (1e-4, 1e-3), "bf16": (0.1, 0.1)}
"""Precision -> largest differences of scores and of gradients, as shares of the largest value."""
_POOLINGS = ("cls", "mean", "cosine")
_RATE, _SIGMAS = 0.1, 6.0


def run(place: Place) -> Iterator[Row]:
    """Compares fresh inputs, then masks, then bits; products in fp32 are without TF32."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    path = models.write_model(place.folder, "minilm" if place.is_real else "tiny")
    seed = time.time_ns() % (1 << 31)
    lengths = np.random.default_rng(seed).integers(8, 129 if place.is_real else 24, contenders.BATCH_SIZE)
    pairs = models.make_pairs(path, lengths, first=seed)
    expected = compute_padded(pairs)
    for precision, limits in _TOLERANCES.items():
        found = compute_packed(pairs, precision)
        for what, own, other, limit in zip(("scores", "gradients"), found, expected, limits, strict=True):
            difference = measure_difference(own, other)
            yield checked(f"{what} in {precision} against float64, inputs {seed}", difference, limit)
    yield from check_masks(place)
    tiny = models.write_model(place.folder, "tiny")
    few = models.make_pairs(tiny, models.draw_lengths("question pairs", 2 * contenders.BATCH_SIZE, 40))
    for number, loss in enumerate(LOSSES):
        pooling = _POOLINGS[number % len(_POOLINGS)]
        first, second = (hash_training(few, loss, pooling) for _ in range(2))
        yield confirmed(f"the same bits twice: {loss}, pooling {pooling}", first == second)
    n_pairs = (16 if place.is_real else 4) * contenders.BATCH_SIZE
    many = models.make_pairs(tiny, models.draw_lengths("question pairs", n_pairs, 40))
    for pooling in ("cls", "mean"):
        hashes = [hash_training(many, "lce", pooling, most_graphs) for most_graphs in (graphs.MOST_GRAPHS, 0)]
        yield confirmed(f"the bits of a CUDA graph are those of its step: pooling {pooling}", hashes[0] == hashes[1])
    yield measured("waits of 2 steps and an evaluation", [count_waits(few)], "", "of torch.cuda.set_sync_debug_mode")


Computed = tuple[list[Tensor], list[Tensor]]
"""Logits of the pairs, and the gradients of the encoder's parameters in the order of their names, 0 for none."""


def compute_packed(pairs: PairList, precision: str) -> Computed:
    """By this engine on the GPU, without dropout."""
    model = CrossEncoder(pairs.path, RankerModelSettings(), seed=1).to("cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=precision == "bf16"):
        logits = model(pairs.read(np.arange(len(pairs.texts))), NO_DROPOUT)
    _compute_loss(logits.float()).backward()
    return [logits.detach().cpu()], _list_gradients(model.encoder_parameters())


def compute_padded(pairs: PairList) -> Computed:
    """By transformers on the processor in float64, with explicit attention and this engine's head."""
    head = CrossEncoder(pairs.path, RankerModelSettings(), seed=1).head.double()
    model = AutoModel.from_pretrained(pairs.path, attn_implementation="eager", dtype=torch.float64).eval()
    features = [{name: pairs.encoded[name][row] for name in pairs.encoded} for row in range(len(pairs.texts))]
    logits = head(model(**pairs.tokenizer.pad(features, return_tensors="pt")).pooler_output)
    _compute_loss(logits).backward()
    return [logits.detach()], _list_gradients(dict(model.named_parameters()))


def _compute_loss(logits: Tensor) -> Tensor:
    return (logits[:, 1] - logits[:, 0]).sum()  # the terms of its gradients do not cancel


def _list_gradients(parameters: dict[str, Tensor]) -> list[Tensor]:
    ordered = (parameters[name] for name in sorted(parameters))
    return [(torch.zeros_like(own) if own.grad is None else own.grad).detach().cpu() for own in ordered]


def measure_difference(found: list[Tensor], expected: list[Tensor]) -> float:
    """Largest difference as a share of the largest expected value, over all arrays."""
    largest = max(float(other.abs().max()) for other in expected)
    both = zip(found, expected, strict=True)
    return max(float((one.double() - other.double()).abs().max()) for one, other in both) / largest


def check_masks(place: Place) -> Iterator[Row]:
    """Checks rate and independence of the masks of torch's dropout and attention, in units of the standard error."""
    texts, heads, size = (256, 8, 64) if place.is_real else (32, 4, 16)
    ones = torch.zeros(texts, heads, size, size, dtype=torch.bfloat16, device="cuda")
    value = torch.eye(size, dtype=torch.bfloat16, device="cuda").expand_as(ones).contiguous()
    offsets = torch.arange(0, (texts + 1) * size, size, dtype=torch.int32, device="cuda")
    packed = [own.transpose(1, 2).flatten(0, 1).contiguous() for own in (ones, ones, value)]
    draws: dict[str, Callable[[], Tensor]] = {
        "dropout": lambda: torch.nn.functional.dropout(torch.ones_like(ones), _RATE),
        "attention": lambda: torch.nn.functional.scaled_dot_product_attention(ones, ones, value, dropout_p=_RATE),
        "attention of cumulative lengths": lambda: (
            torch.ops.aten._flash_attention_forward(*packed, offsets, offsets, size, size, _RATE, False, False)[0]
            .view(texts, size, heads, size)
            .transpose(1, 2)
        ),
    }
    for name, draw in draws.items():
        kept = [(draw() != 0).cpu().double() - (1 - _RATE) for _ in range(2)]
        others = {"texts": kept[0].roll(1, 0), "heads": kept[0].roll(1, 1), "calls": kept[1]}
        spread = _RATE * (1 - _RATE)
        yield checked(f"rate of {name}", _in_errors(kept[0], spread**0.5), _SIGMAS, "standard errors")
        for what, other in others.items():
            yield checked(
                f"{name}: independent {what}", _in_errors(kept[0] * other, spread), _SIGMAS, "standard errors"
            )


def _in_errors(values: Tensor, deviation: float) -> float:
    return abs(float(values.mean())) / (deviation / values.numel() ** 0.5)


def make_trainer(pairs: PairList, loss: str, pooling: str, cuda_graphs: bool = False) -> RankerTrainer:
    """A trainer in bf16 with dropout, of a model with this pooling and the outputs of the loss."""
    usual = contenders.own_trainer(pairs, "bf16", device="cuda", cuda_graphs=cuda_graphs)
    settings = RankerModelSettings.model_validate({"pooling": pooling})
    model = CrossEncoder(pairs.path, settings, usual.seed, outputs=LOSSES[loss].outputs)
    return RankerTrainer(model.to("cuda"), usual.settings, usual.seed, pairs)


def hash_training(pairs: PairList, loss: str, pooling: str, most_graphs: int | None = None) -> str:
    """Hash of the weights after an epoch; with a number of CUDA graphs, batches are filled up for them."""
    trainer = make_trainer(pairs, loss, pooling, cuda_graphs=most_graphs is not None)
    segment = Segment(0, len(pairs.texts), LabelSmoothing(loss=loss))
    with patch.object(graphs, "MOST_GRAPHS", most_graphs):
        trainer.train(segment, segment.stop, contenders.label(pairs))
    return trainer.hash_weights()


def count_waits(pairs: PairList) -> int:
    """Warnings of torch in two steps and an evaluation."""
    trainer, labels = make_trainer(pairs, "cross_entropy", "cls"), contenders.label(pairs)
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            trainer.train(Segment(0, len(pairs.texts), LabelSmoothing()), len(pairs.texts), labels)
            trainer.score_pairs(labels)
        return sum("synchronizing" in str(each.message) for each in found)
    finally:
        torch.cuda.set_sync_debug_mode("default")
