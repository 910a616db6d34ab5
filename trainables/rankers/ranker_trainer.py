"""Training of a ranker: a loss with smoothed targets over query-document pairs.

Each batch is a pure function of (seed, step).
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from trainables.curriculum.sampler import Curriculum
from trainables.data.query_groups import QueryGroups
from trainables.losses.objective import Objective, Supervision
from trainables.models.cross_encoder import CrossEncoder
from trainables.models.dropout import Dropout
from trainables.models.precision import Precision, prepare_for_scoring
from trainables.specs.checkpoint_chain import Segment
from trainables.specs.ranker import LabelSmoothing, RankerTrainingSettings
from trainables.training.batching import BatchSampler, split_into_micro_batches
from trainables.training.trainer import Batch, MicroBatch, TokenSource, Trainer
from trainables.utils.arrays import Ints


class Pairs(NamedTuple):
    """Labelled candidate pairs of one split.

    Attributes:
        first_row: number of the first pair of the split.
        relevant: 0 or 1, shape (pairs,).
        labels: labels that training sees, 0 or 1, shape (pairs,): `relevant`, unless the task has label noise.
        weak_labels: weak labels of shape (pairs,), NaN if the pair is relevant and labelled so, or if the weak label is
            undefined.
        scores: scores of the negative sampler, shape (pairs,), NaN if it has none. They are needed for losses of whole
            queries with weak supervision, and for distillation without a teacher.
        teacher: scores of the teacher that a distillation learns, shape (pairs,). If None, the default, those of the
            sampler.
    """

    first_row: int
    relevant: np.ndarray
    labels: np.ndarray
    weak_labels: np.ndarray
    scores: np.ndarray
    teacher: np.ndarray | None = None

    @property
    def rows(self) -> QueryGroups:
        """Rows of each query, unless a first stage retrieved them."""
        return QueryGroups.from_relevant(self.relevant)

    def select_queries(self, first: int, last: int) -> "Pairs":
        """Return the pairs of the queries from number `first` to `last` - 1, or to the end."""
        start, end = self.rows.starts[[first, min(last, len(self.rows))]]
        arrays = {name: array[start:end] for name, array in self._asdict().items() if isinstance(array, np.ndarray)}
        return self._replace(first_row=self.first_row + int(start), **arrays)

    def get_supervision(self, rows: Ints) -> Supervision:
        """Return what these pairs are trained with, in the shape of `rows`."""
        labels = self.labels[rows].astype(np.float64)
        teacher = None if self.teacher is None else self.teacher[rows]
        return Supervision(labels, self.weak_labels[rows], self.scores[rows], teacher)


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
        source: TokenSource,
        load_curriculum: Callable[[], Curriculum | None] = lambda: None,
    ) -> None:
        super().__init__(model, settings, seed)
        assert settings.tokens_per_micro_batch != "auto"
        self._tokens_at_once = settings.tokens_per_micro_batch
        self.source, self._load_curriculum = source, load_curriculum

    def train(self, segment: Segment, until: int, pairs: Pairs, after_step: Callable[[], None] = lambda: None) -> None:
        """Train from the instances seen to `until`, which lies inside `segment`; `after_step` follows every batch.

        Raises:
            FloatingPointError: if the loss is not finite.
        """
        sampler = BatchSampler(self.seed, self.settings, pairs.rows, self._load_curriculum())
        smoothing = segment.smoothing
        assert isinstance(smoothing, LabelSmoothing)
        objective = Objective(smoothing.loss, smoothing.distribution, smoothing.temperature)

        def make_batch(step: int, epsilon: float) -> Batch:
            group = 1 + self.settings.negatives if objective.is_per_query else 1
            rows = sampler.sample_rows(step).reshape(-1, group)
            dropout = self.make_dropout(step)
            n_terms = objective.count_terms(pairs.get_supervision(rows).labels)
            lengths = self.source.lengths[pairs.first_row + rows].sum(axis=1)
            places = split_into_micro_batches(lengths, self._tokens_at_once)
            make = partial(self._make_micro_batch, pairs, objective, epsilon, dropout, n_terms)
            return Batch(dropout, [partial(make, rows[own]) for own in places])

        self._train(segment, until, make_batch, after_step)

    def _make_micro_batch(
        self, pairs: Pairs, objective: Objective, epsilon: float, dropout: Dropout, n_terms: int, rows: Ints
    ) -> MicroBatch:
        """Return a part of a batch: `rows`, numbers in `pairs` of shape (groups, pairs of a group).

        Its loss is a part of the mean over the `n_terms` terms of the batch. A group stays together.
        """
        flat = pairs.first_row + rows.reshape(-1)
        order = np.argsort(self.source.lengths[flat], kind="stable")  # neighbours of similar length cost least
        layout = self.make_layout(self.source.read(flat[order]))
        arrays = objective.make_arrays(pairs.get_supervision(rows), epsilon)
        read_order, *read_arrays = (layout.arrays.add(array) for array in (np.argsort(order), *arrays))

        def compute_loss() -> Tensor:
            with self.use_autocast():
                logits: Tensor = self.model(layout, dropout)
            if rows.shape[1] > 1:
                logits = logits[read_order()]
            logits = logits.view(*rows.shape, -1).float()
            return objective.sum_losses(logits, [read() for read in read_arrays], epsilon) / n_terms

        return MicroBatch(layout.arrays, (layout.longest, objective.get_relaxation(epsilon), n_terms), compute_loss)

    def score_pairs(
        self, pairs: Pairs, precision: Precision | None = None, source: TokenSource | None = None
    ) -> np.ndarray:
        """Return the score that ranks every pair, a float64 array of shape (pairs,).

        It is logit(relevant) - logit(not relevant), or logit(relevant) if the model's `ranking_score` says so. A model
        with one logit ranks by it. Without a precision, it is that of the test split; without a source, the trainer's.
        """
        rows = pairs.first_row + np.arange(len(pairs.relevant))
        if self.model.ranking_score == "difference":
            return self.compute_log_odds(rows, precision, source)
        logits: np.ndarray = self._compute_logits(rows, precision, source)[-1]
        return logits

    def compute_log_odds(
        self, rows: Ints, precision: Precision | None = None, source: TokenSource | None = None
    ) -> np.ndarray:
        """Return logit(relevant) - logit(not relevant) of the pairs with these numbers, or their only logit."""
        logits = self._compute_logits(rows, precision, source)
        log_odds: np.ndarray = logits[0] if len(logits) == 1 else logits[1] - logits[0]
        return log_odds

    def _compute_logits(self, rows: Ints, precision: Precision | None, source: TokenSource | None) -> np.ndarray:
        """Return the logits of the pairs with these numbers, float64 of shape (outputs, rows)."""
        logits, source = np.empty((self.model.outputs, len(rows))), source or self.source
        parts = split_into_micro_batches(source.lengths[rows], self._tokens_at_once)
        with prepare_for_scoring(self.model, precision or self.settings.evaluation_precision):
            outputs = [self.model(source.read(rows[places])) for places in parts]
            if outputs:  # nothing else waits for a GPU
                logits[:, np.concatenate(parts)] = torch.cat(outputs).cpu().double().numpy().T
        return logits
