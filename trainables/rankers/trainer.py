"""Training of a ranker: label-smoothed cross-entropy of query-document pairs.

Each batch is a pure function of (seed, step).
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from trainables.curriculum.sampler import Curriculum
from trainables.models.cross_encoder import CrossEncoder
from trainables.models.dropout import Dropout
from trainables.models.packing import PackedBatch
from trainables.smoothing.distributions import target_distribution
from trainables.specs.checkpoints import Segment
from trainables.specs.ranker import RankerTrainingSettings
from trainables.training.batching import BatchSampler, split_into_micro_batches
from trainables.training.trainer import Trainer
from trainables.utils.arrays import Ints
from trainables.utils.random import derive_seed


class PairSource(Protocol):
    """Source of a trainer's pairs, by number."""

    @property
    def lengths(self) -> Ints:
        """Tokens of each pair, shape (all pairs,)."""

    def read(self, rows: Ints) -> PackedBatch:
        """Return a batch of these pairs, in this order."""


class Pairs(NamedTuple):
    """Labelled candidate pairs of one split.

    Attributes:
        first_row: number of the first pair of the split.
        relevant: 0 or 1, shape (pairs,); the relevant pairs of a query come first.
        weak_labels: weak labels of shape (pairs,), NaN if the pair is relevant or the weak label is undefined.
        candidates: pairs per query.
    """

    first_row: int
    relevant: np.ndarray
    weak_labels: np.ndarray
    candidates: int


class RankerTrainer(Trainer):
    """A ranker in training.

    Args:
        model: fresh model with the head of this seed.
        settings: settings of the optimisation.
        seed: seed of every draw.
        source: source of the pairs.
        load_curriculum: called when training starts; returns the curriculum that decides which training queries a batch
            may contain, or None if a batch may contain all of them.
    """

    strength_key = "train/epsilon"
    model: CrossEncoder
    settings: RankerTrainingSettings

    def __init__(
        self,
        model: CrossEncoder,
        settings: RankerTrainingSettings,
        seed: int,
        source: PairSource,
        load_curriculum: Callable[[], Curriculum | None] = lambda: None,
    ) -> None:
        super().__init__(model, settings, seed)
        self.source, self._load_curriculum = source, load_curriculum

    def train(self, segment: Segment, until: int, pairs: Pairs, after_step: Callable[[], None] | None = None) -> None:
        """Train from the instances seen to `until`, which lies inside `segment`.

        Args:
            segment: segment with the smoothing setting.
            until: number of instances to train to.
            pairs: training pairs.
            after_step: called after every batch. If None, nothing is called.

        Raises:
            FloatingPointError: if the loss is not finite.
        """
        lengths = self.source.lengths[pairs.first_row : pairs.first_row + len(pairs.relevant)]
        counts = pairs.relevant.reshape(-1, pairs.candidates).sum(axis=1, dtype=np.int64)
        sampler = BatchSampler(self.seed, self.settings, counts, lengths, self._load_curriculum())

        def gradient(step: int, epsilon: float) -> float:
            rows = sampler.sample_rows(step)
            targets = target_distribution(
                pairs.relevant[rows], pairs.weak_labels[rows], epsilon, segment.smoothing.distribution
            )
            dropout = Dropout(self.settings.dropout, derive_seed(self.seed, "dropout", step))
            return self._backward(pairs.first_row + rows, torch.from_numpy(targets).float(), dropout)

        self._train(segment, until, gradient, after_step)

    def _backward(self, rows: Ints, targets: Tensor, dropout: Dropout) -> float:
        """Add the gradient of the batch's mean loss, one micro-batch after another, and return the loss."""
        settings, loss = self.settings, 0.0
        for places in split_into_micro_batches(self.source.lengths[rows], settings.tokens_per_micro_batch):
            with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=settings.precision == "bf16"):
                logits = self.model(self.source.read(rows[places]), dropout)
            batch_targets = targets[torch.from_numpy(places)].to(self.device)
            losses = nn.functional.cross_entropy(logits.float(), batch_targets, reduction="sum")
            part = losses / len(rows)
            part.backward()  # type: ignore[no-untyped-call]
            loss += part.item()
        return loss

    def score_pairs(self, pairs: Pairs) -> np.ndarray:
        """Return the score that ranks every pair, a float64 array of shape (pairs,).

        It is logit(relevant) - logit(not relevant), or logit(relevant) if the model's `ranking_score` says so.
        """
        rows = pairs.first_row + np.arange(len(pairs.relevant))
        return (
            self.compute_log_odds(rows) if self.model.ranking_score == "difference" else self._compute_logits(rows)[1]
        )

    def compute_log_odds(self, rows: Ints) -> np.ndarray:
        """Return logit(relevant) - logit(not relevant) of the pairs with these numbers, in this order."""
        not_relevant, relevant = self._compute_logits(rows)
        log_odds: np.ndarray = relevant - not_relevant
        return log_odds

    def _compute_logits(self, rows: Ints) -> np.ndarray:
        """Return the logits (not relevant, relevant) of the pairs with these numbers, float64 of shape (2, rows)."""
        settings, logits = self.settings, np.empty((2, len(rows)))
        bf16 = settings.evaluation_precision == "bf16"
        with torch.inference_mode(), torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=bf16):
            for places in split_into_micro_batches(self.source.lengths[rows], settings.tokens_per_micro_batch):
                logits[:, places] = self.model(self.source.read(rows[places])).double().cpu().numpy().T
        return logits
