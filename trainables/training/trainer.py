"""Training loop: instances in order, each batch a pure function of (seed, step)."""

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from itertools import islice
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from trainables.models.dropout import Dropout
from trainables.models.packing import DeviceArrays, PackedBatch, PackedLayout
from trainables.models.precision import Bf16Weights
from trainables.models.transformer import Transformer
from trainables.specs.checkpoint_chain import WEIGHTS_PREFIX, BestEvaluation, Checkpoint, Segment
from trainables.specs.run_spec import BaseTrainingSettings
from trainables.training.best_weights import BestWeights
from trainables.training.checkpoints import load_weights_into
from trainables.training.embedding_optimizer import EmbeddingOptimizer
from trainables.training.graphs import StepGraphs
from trainables.utils.arrays import Ints
from trainables.utils.errors import UserError
from trainables.utils.random import derive_seed


class MicroBatch(NamedTuple):
    """A part of a batch that is ready on the host.

    Attributes:
        arrays: arrays that the device gets of it.
        numbers: numbers of the host that `compute_loss` uses and that may differ in another batch.
        compute_loss: returns the part of the loss; it reads nothing else that differs in another batch.
    """

    arrays: DeviceArrays
    numbers: tuple[float, ...]
    compute_loss: Callable[[], Tensor]


class Batch(NamedTuple):
    """The dropout of a batch, and functions that make its parts."""

    dropout: Dropout
    parts: Sequence[Callable[[], MicroBatch]]


BatchFunction = Callable[[int, float], Batch]
"""Function of (0-based batch number, current smoothing strength)."""
_STEPS_PER_READ = {"cpu": 1, "cuda": 50}
"""Type of device -> steps after which losses are read from it; a read waits for a GPU."""
_BETAS = (0.9, 0.999)
_ADAM_EPSILON = 1e-8


class TokenSource(Protocol):
    """Source of a trainer's texts, by number."""

    @property
    def lengths(self) -> Ints:
        """Tokens of each text, shape (texts,)."""

    def read(self, rows: Ints) -> PackedBatch:
        """Return a batch of these texts, in this order."""


def learning_rate_factor(seen: int, training: BaseTrainingSettings) -> float:
    """Return the factor of the learning rate for the batch that starts after `seen` instances."""
    total, warmup = training.instances, training.warmup * training.instances
    if seen + training.batch_size <= warmup:
        return (seen + training.batch_size) / warmup
    return min(1.0, (total - seen) / (total - warmup)) if training.decay == "linear" else 1.0


class Trainer:
    """A model in training; a subclass defines the batches and their loss.

    Args:
        model: fresh model with the head of this seed.
        settings: settings of the optimisation.
        seed: seed of every draw.

    Attributes:
        instances_seen: instances trained so far.
        history: learning curve with one row per batch or evaluation.
    """

    strength_key: ClassVar[str]
    """Key of the smoothing strength in the history."""

    def __init__(self, model: Transformer, settings: BaseTrainingSettings, seed: int) -> None:
        self.model, self.settings, self.seed = model, settings, seed
        self.device = next(model.parameters()).device
        model.recomputation.is_on = settings.gradient_checkpointing
        self.instances_seen = 0
        self.history: list[dict[str, float]] = []
        self._losses: list[list[Tensor]] = []  # of the last rows of the history, on the device
        self._best_weights = BestWeights(settings.checkpoint)
        head, body = model.head_parameters(), model.trainable_parameters()
        words = model.trained_word_embedding
        on_gpu, is_packed = self.device.type == "cuda", model.architecture.padding_mask is None
        self._bf16_weights = Bf16Weights(model) if on_gpu and is_packed and settings.precision == "bf16" else None
        if settings.cuda_graphs and not (self._bf16_weights and model.runs_without_padding(torch.bfloat16)):
            raise UserError("training.cuda_graphs", "true", "false, or a model that runs in bf16 without padding")
        self._graphs = StepGraphs() if settings.cuda_graphs else None
        # On a processor alone: on a GPU the gain was not measured.
        self._words: EmbeddingOptimizer | None = None
        if words is not None and self.device.type == "cpu":
            self._words = EmbeddingOptimizer(words, _BETAS, _ADAM_EPSILON, settings.weight_decay)
        self._names = {parameter: name for name, parameter in body.items()}
        self._words_name = self._names.pop(self._words.weight) if self._words is not None else ""
        groups = [[each for each, name in self._names.items() if name not in head], list(head.values())]
        self._learning_rates = [settings.learning_rate, settings.get_head_learning_rate()]
        self._optimizer = torch.optim.AdamW(
            [{"params": params, "lr": rate} for params, rate in zip(groups, self._learning_rates, strict=True)],
            betas=_BETAS,
            eps=_ADAM_EPSILON,
            weight_decay=settings.weight_decay,
            fused=True,
            capturable=settings.cuda_graphs,
        )

    def _train(
        self,
        segment: Segment,
        until: int,
        make_batch: BatchFunction,
        after_step: Callable[[], None] = lambda: None,
    ) -> None:
        """Train from the instances seen to `until`, which lies inside `segment`.

        Raises:
            FloatingPointError: if the loss is not finite.
        """
        settings, key = self.settings, self.strength_key
        with self._graphs.use_stream() if self._graphs else nullcontext():
            while self.instances_seen < until:
                strength = segment.smoothing.compute_strength(self.instances_seen, settings.instances)
                factor = learning_rate_factor(self.instances_seen, settings)
                rates = [rate * factor for rate in self._learning_rates]
                self._losses.append(self._step(make_batch(self.instances_seen // settings.batch_size, strength), rates))
                self.instances_seen += settings.batch_size
                row = {"train/loss": math.nan, "train/learning_rate": rates[0], key: strength}
                self.history.append({"instances": self.instances_seen, **row})
                if len(self._losses) == _STEPS_PER_READ[self.device.type]:
                    self._read_losses()
                after_step()
            self._read_losses()

    def _read_losses(self) -> None:
        """Write the losses of the last steps into the history."""
        losses, self._losses = self._losses, []
        values = iter(torch.stack([part for parts in losses for part in parts]).cpu().tolist() if losses else ())
        for row, parts in zip(self.history[len(self.history) - len(losses) :], losses, strict=True):
            row["train/loss"] = sum(islice(values, len(parts)), 0.0)
            if not math.isfinite(row["train/loss"]):
                before = round(row["instances"]) - self.settings.batch_size
                raise FloatingPointError(f"the loss is {row['train/loss']} after {before} instances")

    def make_dropout(self, step: int) -> Dropout:
        """Return the dropout of a batch."""
        adapters = Dropout(self.model.adapter_dropout, derive_seed(self.seed, "adapter dropout", step))
        return Dropout(self.settings.dropout, derive_seed(self.seed, "dropout", step), adapters)

    def use_autocast(self) -> torch.autocast:
        """Return the context in which a forward pass is computed."""
        is_used = self.settings.precision == "bf16" and self._bf16_weights is None
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=is_used)

    def make_layout(self, batch: PackedBatch) -> PackedLayout:
        """Return texts for the model; with CUDA graphs they are filled up, so that shapes repeat."""
        return self.model.make_layout(batch, is_filled=self._graphs is not None)

    def _step(self, batch: Batch, rates: list[float]) -> list[Tensor]:
        """Change the weights by a batch, with a learning rate for each group, and return the parts of its loss.

        A step on a GPU is captured if the batch has one part: then nothing but its arrays decides about its kernels.
        """
        with batch.dropout.draw_on(self.device):
            if self._graphs is None or len(batch.parts) > 1:
                return self._update((make() for make in batch.parts), rates)
            part = batch.parts[0]()
            read_rates = part.arrays.add(np.array(rates, np.float32))
            return [
                self._graphs.run(part.arrays, part.numbers, lambda: self._update([part], read_rates().unbind())[0]),
            ]

    def _update(self, parts: Iterable[MicroBatch], rates: Sequence[float | Tensor]) -> list[Tensor]:
        self._optimizer.zero_grad()
        collecting = self._words.collect() if self._words else nullcontext()
        with collecting, self._bf16_weights.use() if self._bf16_weights else nullcontext():
            losses = [self._backpropagate(part) for part in parts]
        scale = self._clip_gradients()
        for group, rate in zip(self._optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._optimizer.step()
        if self._words is not None:
            self._words.step(float(rates[0]), scale)
        return losses

    def _backpropagate(self, part: MicroBatch) -> Tensor:
        """Add the gradient of a part of the loss to the gradients of the model, and return the part."""
        loss = part.compute_loss()
        loss.backward()  # type: ignore[no-untyped-call]
        if self._bf16_weights is not None:
            self._bf16_weights.move_gradients()
        return loss.detach()

    def _clip_gradients(self) -> float:
        """Scale the gradients of the optimizer to the largest norm, and return the factor, at most 1, for the words."""
        parameters = [each for each in self._names if each.grad is not None]
        gradients = [each.grad for each in parameters if each.grad is not None]
        words = [] if self._words is None else [self._words.gradient]
        norm = nn.utils.get_total_norm([*gradients, *words])
        if self.device.type == "cuda":  # the norm is not read, which would wait
            nn.utils.clip_grads_with_norm_(parameters, self.settings.gradient_norm, norm)
            return 1.0
        scale = float((self.settings.gradient_norm / (norm + 1e-6)).clamp(max=1.0))  # as torch's clip_grad_norm_
        if scale != 1.0:
            nn.utils.clip_grads_with_norm_(parameters, self.settings.gradient_norm, norm)
        return scale

    @property
    def best_evaluation(self) -> BestEvaluation | None:
        """Evaluation of the weights with which a run ends if it stops now; None if they are the present ones."""
        return self._best_weights.evaluation

    def record_evaluation(self, value: float) -> bool:
        """Keep the present weights if a value of the deciding metric is the best so far, and return whether it is."""
        return self._best_weights.update(BestEvaluation(self.instances_seen, value), self.model.trainable_parameters())

    def load_best_weights(self) -> None:
        """Replace the weights, at the end of training, by those with which the run ends."""
        self._best_weights.load_into(self.model.trainable_parameters())

    def make_checkpoint(self, final: bool) -> Checkpoint:
        """Return a checkpoint of the present state, with the weights alone if it is the final one."""
        self._read_losses()
        tensors = {
            f"{WEIGHTS_PREFIX}{name}": value.detach() for name, value in self.model.trainable_parameters().items()
        }
        if not final:
            states = {self._names[parameter]: state for parameter, state in self._optimizer.state.items()}
            if self._words is not None:
                states[self._words_name] = self._words.get_state()
            tensors |= {f"{kind}/{name}": value for name, state in states.items() for kind, value in state.items()}
            tensors |= self._best_weights.get_tensors_to_save(self.instances_seen)
        saved = {name: value.cpu().contiguous() for name, value in tensors.items()}
        return Checkpoint(self.instances_seen, saved, list(self.history), best=self.best_evaluation)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint."""
        self.instances_seen, self.history = checkpoint.instances, list(checkpoint.history)
        if self._graphs is not None:
            self._graphs = StepGraphs()  # the old ones have the old states of the optimizer
        self._best_weights.restore(checkpoint)
        load_weights_into(self.model.trainable_parameters(), checkpoint.weights)
        states = {
            name: {
                kind: checkpoint.tensors[f"{kind}/{name}"].to(parameter.device, copy=True)
                for kind in ("step", "exp_avg", "exp_avg_sq")
                if f"{kind}/{name}" in checkpoint.tensors
            }
            for name, parameter in self.model.trainable_parameters().items()
        }
        for parameter, name in self._names.items():
            if states[name]:
                self._optimizer.state[parameter] = states[name]
        if self._words is not None:
            self._words.load_state(states[self._words_name])

    def hash_weights(self) -> str:
        """Return the SHA-256 over the trained parameters, bit for bit."""
        return hash_weights(self.model.trainable_parameters())


def hash_weights(parameters: dict[str, Tensor]) -> str:
    """Return the SHA-256 over the names and bits of `parameters`."""
    digest = hashlib.sha256()
    for name in sorted(parameters):
        digest.update(name.encode() + parameters[name].detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
