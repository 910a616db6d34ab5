"""A training step of fixed shape, padded: plain, by torch.compile, and by torch.compile with CUDA graphs.

The engine does not compile: its batches have different shapes. The rows say what fixed shapes could gain.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification

from benchmarks import contenders
from benchmarks.gpu import models
from benchmarks.gpu.models import Size
from benchmarks.gpu.parts import Place
from benchmarks.gpu.report import Row, checked, measured, not_measured
from benchmarks.measure import Measure, interleaved, rate

_REPEATS, _TOLERANCE = 20, 1e-5
_WAYS = {"plain": None, "torch.compile": "default", "torch.compile with CUDA graphs": "reduce-overhead"}
"""Name -> mode of torch.compile."""
_SHAPES: tuple[tuple[Size, tuple[int, int]], ...] = (("minilm", (32, 32)), ("base", (32, 128)))
"""Size of the model; texts of a batch, and tokens of a text."""


def run(place: Place) -> list[Row]:
    """Measures MiniLM's and BERT-base's size; a processor compares one step of a tiny model."""
    torch.use_deterministic_algorithms(False)
    try:
        if place.is_gpu:
            return [row for size, shape in _SHAPES for row in measure_shape(place, size, shape)]
        names = [f"{size}, {shape[0]} x {shape[1]}: {way}" for size, shape in _SHAPES for way in _WAYS]
        return [check_capture(place), *map(not_measured, names)]
    finally:
        torch.use_deterministic_algorithms(True)


def check_capture(place: Place) -> Row:
    """The loss of the first step as torch.compile captured it, without dropout, against that of the plain step."""
    plain, captured = (Step(place, "tiny", (4, 16), dropout=0.0) for _ in range(2))
    captured.compute = torch.compile(captured.compute, backend="eager")
    difference = abs(float(plain.run()) - float(captured.run()))
    return checked("tiny, 4 x 16: loss of the captured step", difference, _TOLERANCE)


def measure_shape(place: Place, size: Size, shape: tuple[int, int]) -> list[Row]:
    """Instances a second of each way; one that fails says why."""
    title, rows, measures = f"{size}, {shape[0]} x {shape[1]}", list[Row](), dict[str, Measure]()
    for name, mode in _WAYS.items():
        step = Step(place, size, shape, dropout=0.1)
        try:
            if mode:
                step.compute = torch.compile(step.compute, mode=mode, dynamic=False)
            step.repeat()
        except Exception as error:  # without a compiler, the other ways are measured
            reason = (str(error).splitlines() or [""])[0][:80]
            rows.append(not_measured(f"{title}: {name}", f"{type(error).__name__}: {reason}"))
        else:
            measures[name] = rate(step.repeat, _REPEATS * shape[0])
    found = interleaved(measures, place.rounds, place.seconds / 8)
    return [*(measured(f"{title}: {name}", rates, "instances/s") for name, rates in found.items()), *rows]


class Step:
    """Forward and backward pass, clipping and fused AdamW of a padded batch without padding.

    Args:
        place: where it runs.
        size: size of the model.
        shape: texts, and tokens of a text.
        dropout: rate of all dropouts of the model.
    """

    def __init__(self, place: Place, size: Size, shape: tuple[int, int], dropout: float) -> None:
        path = models.write_model(place.folder, "bert", size)
        rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
        torch.manual_seed(0)
        model = AutoModelForSequenceClassification.from_pretrained(
            path, num_labels=2, attn_implementation="sdpa", dtype=torch.float32, **rates
        )
        self.device, self.model = place.device, model.to(place.device).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-5, fused=True)
        generator = torch.Generator().manual_seed(0)
        self.ids = torch.randint(5, models.N_WORDS, shape, generator=generator).to(place.device)
        self.labels = torch.arange(shape[0], device=place.device) % 2
        self.compute: Callable[[Tensor], Tensor] = partial(_compute_loss, self.model, place.device, self.labels)

    def run(self) -> Tensor:
        """One step; returns its loss."""
        loss = self.compute(self.ids)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach().clone()

    def repeat(self) -> None:
        """Several steps, to their end on the device."""
        contenders.synchronize(self.device)
        for _ in range(_REPEATS):
            self.run()
        contenders.synchronize(self.device)


def _compute_loss(model: nn.Module, device: str, labels: Tensor, ids: Tensor) -> Tensor:
    with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
        loss: Tensor = model(input_ids=ids, labels=labels).loss
    return loss
