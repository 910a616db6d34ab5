"""The training loop: one stretch of instances after another, each batch a pure function of (seed, step)."""

import hashlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from trainables.batches import batch
from trainables.cross_encoder import Batch, CrossEncoder
from trainables.randomness import counter
from trainables.smoothing import target_distribution
from trainables.specification import TrainingSettings
from trainables.stages import Segment, Stage

_EVALUATION_PAIRS = 50
"""Pairs scored at once: activations of a small model then stay in the processor's cache."""


class Pairs(NamedTuple):
    """The labelled candidate pairs of one split."""

    first: int  # number of the split's first pair
    relevant: np.ndarray  # (pairs,) 0 or 1
    weak_labels: np.ndarray  # (pairs,) NaN where relevant
    candidates: int  # pairs a query


def learning_rate_factor(seen: int, training: TrainingSettings) -> float:
    """What the learning rate is multiplied with for the batch that starts after `seen` instances."""
    total, warm = training.instances, training.warmup * training.instances
    if seen + training.batch_size <= warm:
        return (seen + training.batch_size) / warm
    return min(1.0, (total - seen) / (total - warm)) if training.decay == "linear" else 1.0


class Trainer:
    """A model in training.

    Args:
        model: fresh, with the head of this seed.
        settings: the optimisation.
        seed: names every draw.
        read: pair numbers -> their padded batch.
    """

    def __init__(
        self, model: CrossEncoder, settings: TrainingSettings, seed: int, read: Callable[[np.ndarray], Batch]
    ) -> None:
        self.model, self.settings, self.seed, self.read = model, settings, seed, read
        self.seen = 0
        self.history: list[dict[str, float]] = []
        head = set(model.head.parameters())
        body = [parameter for parameter in model.trained().values() if parameter not in head]
        rate = settings.learning_rate
        self._rates = [rate, settings.head_learning_rate or rate]
        self._optimizer = torch.optim.AdamW(
            [{"params": body, "lr": self._rates[0]}, {"params": list(head), "lr": self._rates[1]}],
            eps=settings.adam_epsilon,
            weight_decay=settings.weight_decay,
            fused=True,
        )

    def train(self, segment: Segment, until: int, pairs: Pairs, after_step: Callable[[], None] | None = None) -> None:
        """Trains from the instances seen to `until`, inside `segment`; `after_step` is called after every batch."""
        self.model.train()
        while self.seen < until:
            loss, factor = self._step(segment, pairs)
            row = {"train/loss": loss, "train/learning_rate": self._rates[0] * factor}
            self.history.append({"instances": self.seen, **row, "train/epsilon": segment.smoothing.epsilon})
            if after_step is not None:
                after_step()

    def _step(self, segment: Segment, pairs: Pairs) -> tuple[float, float]:
        settings, step = self.settings, self.seen // self.settings.batch_size
        queries = len(pairs.relevant) // pairs.candidates
        rows = batch(self.seed, step, queries, pairs.candidates, settings.batch_size, settings.negatives)
        smoothing = segment.smoothing
        targets = target_distribution(
            pairs.relevant[rows], pairs.weak_labels[rows], smoothing.epsilon, smoothing.distribution
        )
        torch.manual_seed(counter(self.seed, "dropout", step))
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=settings.precision == "bf16"):
            logits = self.model(self.read(pairs.first + rows))
        loss = nn.functional.cross_entropy(logits.float(), torch.from_numpy(targets).float())
        if not torch.isfinite(loss):
            raise FloatingPointError(f"the loss is {loss.item()} after {self.seen} instances")
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.model.trained().values(), settings.gradient_norm)
        factor = learning_rate_factor(self.seen, settings)
        for group, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor
        self._optimizer.step()
        self.seen += settings.batch_size
        return loss.item(), factor

    def scores(self, pairs: Pairs) -> np.ndarray:
        """logit(relevant) - logit(not relevant) of every pair: (pairs,) float64, computed in fp32."""
        self.model.eval()
        numbers = pairs.first + np.arange(len(pairs.relevant))
        parts = []
        with torch.inference_mode():
            for start in range(0, len(numbers), _EVALUATION_PAIRS):
                logits = self.model(self.read(numbers[start : start + _EVALUATION_PAIRS]))
                parts.append((logits[:, 1].double() - logits[:, 0].double()).numpy())
        return np.concatenate(parts)

    def stage(self, final: bool) -> Stage:
        """The state to remember; of a finished run the weights are enough."""
        tensors = {f"weights/{name}": value.detach() for name, value in self.model.trained().items()}
        if not final:
            names = {parameter: name for name, parameter in self.model.trained().items()}
            for parameter, moments in self._optimizer.state.items():
                tensors |= {f"{kind}/{names[parameter]}": value for kind, value in moments.items()}
        return Stage(self.seen, {name: value.contiguous() for name, value in tensors.items()}, list(self.history))

    def restore(self, stage: Stage) -> None:
        """Takes up a remembered state."""
        self.seen, self.history = stage.instances, list(stage.history)
        for name, parameter in self.model.trained().items():
            parameter.data.copy_(stage.tensors[f"weights/{name}"])
            kinds = ("step", "exp_avg", "exp_avg_sq")
            if f"step/{name}" in stage.tensors:
                self._optimizer.state[parameter] = {kind: stage.tensors[f"{kind}/{name}"].clone() for kind in kinds}

    def weights_hash(self) -> str:
        """SHA-256 over the trained parameters, bit for bit."""
        return weights_hash(self.model.trained())


def weights_hash(parameters: dict[str, Tensor]) -> str:
    """SHA-256 over names and bits of `parameters`."""
    total = hashlib.sha256()
    for name in sorted(parameters):
        total.update(name.encode() + parameters[name].detach().contiguous().numpy().tobytes())
    return total.hexdigest()
