"""The training loop: one stretch of instances after another, each batch a pure function of (seed, step)."""

import hashlib
import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from trainables.batches import Rows, Sampler, micro_batches
from trainables.best import BestWeights
from trainables.cross_encoder import CrossEncoder
from trainables.curriculum import Curriculum
from trainables.dropout import Dropout
from trainables.packed import Batch
from trainables.randomness import counter
from trainables.smoothing import target_distribution
from trainables.specification import TrainingSettings
from trainables.stages import Best, Segment, Stage


class PairSource(Protocol):
    """Where a trainer gets its pairs from, by their number."""

    @property
    def lengths(self) -> Rows:
        """(all pairs,) tokens of each pair."""

    def read(self, rows: Rows) -> Batch:
        """These pairs, in this order."""


class Pairs(NamedTuple):
    """The labelled candidate pairs of one split."""

    first: int  # number of the split's first pair
    relevant: np.ndarray  # (pairs,) 0 or 1; a query's relevant ones come first
    weak_labels: np.ndarray  # (pairs,) NaN where relevant or undefined
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
        source: of the pairs.
        curriculum: gives, once there is something to train, which training queries a batch may hold; none: all.
    """

    def __init__(
        self,
        model: CrossEncoder,
        settings: TrainingSettings,
        seed: int,
        source: PairSource,
        curriculum: Callable[[], Curriculum | None] = lambda: None,
    ) -> None:
        self.model, self.settings, self.seed, self.source = model, settings, seed, source
        self._curriculum = curriculum
        self.device = next(model.parameters()).device
        self.seen = 0
        self.history: list[dict[str, float]] = []
        self._best = BestWeights(settings.checkpoint)
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
        lengths = self.source.lengths[pairs.first : pairs.first + len(pairs.relevant)]
        counts = pairs.relevant.reshape(-1, pairs.candidates).sum(axis=1, dtype=np.int64)
        sampler = Sampler(self.seed, self.settings, counts, lengths, self._curriculum())
        while self.seen < until:
            epsilon = segment.smoothing.strength(self.seen, self.settings.instances, self.settings.batch_size)
            loss, factor = self._step(sampler, epsilon, segment.smoothing.distribution, pairs)
            row = {"train/loss": loss, "train/learning_rate": self._rates[0] * factor}
            self.history.append({"instances": self.seen, **row, "train/epsilon": epsilon})
            if after_step is not None:
                after_step()

    def _step(self, sampler: Sampler, epsilon: float, distribution: str, pairs: Pairs) -> tuple[float, float]:
        settings, step = self.settings, self.seen // self.settings.batch_size
        rows = sampler.rows(step)
        targets = torch.from_numpy(
            target_distribution(pairs.relevant[rows], pairs.weak_labels[rows], epsilon, distribution)
        ).float()
        dropout = Dropout(settings.dropout, counter(self.seed, "dropout", step))
        self._optimizer.zero_grad()
        loss = self._backward(pairs.first + rows, targets, dropout)
        if not math.isfinite(loss):
            raise FloatingPointError(f"the loss is {loss} after {self.seen} instances")
        nn.utils.clip_grad_norm_(self.model.trained().values(), settings.gradient_norm)
        factor = learning_rate_factor(self.seen, settings)
        for group, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor
        self._optimizer.step()
        self.seen += settings.batch_size
        return loss, factor

    def _backward(self, numbers: Rows, targets: Tensor, dropout: Dropout) -> float:
        """Adds the gradient of the batch's mean loss, micro-batch by micro-batch; returns the loss."""
        settings, loss = self.settings, 0.0
        for places in micro_batches(self.source.lengths[numbers], settings.tokens_per_micro_batch):
            with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=settings.precision == "bf16"):
                logits = self.model(self.source.read(numbers[places]), dropout)
            wanted = targets[torch.from_numpy(places)].to(self.device)
            losses = nn.functional.cross_entropy(logits.float(), wanted, reduction="sum")
            part = losses / len(numbers)
            part.backward()  # type: ignore[no-untyped-call]
            loss += part.item()
        return loss

    def scores(self, pairs: Pairs) -> np.ndarray:
        """logit(relevant) - logit(not relevant) of every pair: (pairs,) float64."""
        return self.scores_of(pairs.first + np.arange(len(pairs.relevant)))

    def scores_of(self, numbers: Rows) -> np.ndarray:
        """The same of the pairs with these numbers, in this order."""
        settings, scores = self.settings, np.empty(len(numbers))
        bf16 = settings.evaluation_precision == "bf16"
        with torch.inference_mode(), torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=bf16):
            for places in micro_batches(self.source.lengths[numbers], settings.tokens_per_micro_batch):
                logits = self.model(self.source.read(numbers[places])).double()
                scores[places] = (logits[:, 1] - logits[:, 0]).cpu().numpy()
        return scores

    @property
    def best(self) -> Best | None:
        """The evaluation whose weights a run that ended now would end with; None: with the present ones."""
        return self._best.found

    def evaluated(self, value: float) -> bool:
        """Remembers the present weights if `value`, the metric `checkpoint` of an evaluation, is the best so far.

        Returns:
            Whether it is; not on a tie.
        """
        return self._best.offer(Best(self.seen, value), self.model.trained())

    def conclude(self) -> None:
        """Training is over: exchanges the weights for those that the run ends with."""
        self._best.give(self.model.trained())

    def stage(self, final: bool) -> Stage:
        """The state to remember; of a finished run, once it is concluded, the weights are enough."""
        tensors = {f"weights/{name}": value.detach() for name, value in self.model.trained().items()}
        if not final:
            names = {parameter: name for name, parameter in self.model.trained().items()}
            for parameter, moments in self._optimizer.state.items():
                tensors |= {f"{kind}/{names[parameter]}": value for kind, value in moments.items()}
            tensors |= self._best.tensors(self.seen)
        whole = {name: value.cpu().contiguous() for name, value in tensors.items()}
        return Stage(self.seen, whole, list(self.history), best=self.best)

    def restore(self, stage: Stage) -> None:
        """Takes up a remembered state."""
        self.seen, self.history = stage.instances, list(stage.history)
        self._best.restore(stage)
        for name, parameter in self.model.trained().items():
            parameter.data.copy_(stage.tensors[f"weights/{name}"])
            kinds = ("step", "exp_avg", "exp_avg_sq")
            if f"step/{name}" in stage.tensors:
                self._optimizer.state[parameter] = {
                    kind: stage.tensors[f"{kind}/{name}"].to(parameter.device, copy=True) for kind in kinds
                }

    def weights_hash(self) -> str:
        """SHA-256 over the trained parameters, bit for bit."""
        return weights_hash(self.model.trained())


def weights_hash(parameters: dict[str, Tensor]) -> str:
    """SHA-256 over names and bits of `parameters`."""
    total = hashlib.sha256()
    for name in sorted(parameters):
        total.update(name.encode() + parameters[name].detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()
