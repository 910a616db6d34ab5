"""The objective of training: a loss with a distribution that smooths its targets."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor, from_numpy

from trainables.losses import DEFAULT_LOSS, DEFAULT_TEMPERATURE, LOSSES
from trainables.losses.forms import FORMS, Candidates, ListwiseForm, Places
from trainables.losses.relaxation import relax
from trainables.smoothing import DISTRIBUTIONS
from trainables.utils.arrays import Floats
from trainables.utils.registry import load_object


class Supervision(NamedTuple):
    """Labels and scores that a batch is trained with, all of shape (queries, candidates).

    Attributes:
        labels: 1 for relevant and 0 for not relevant.
        weak_labels: weak labels in [0, 1], NaN where there is none.
        scores: scores of the negative sampler, NaN where there is none.
        teacher: scores that a distillation learns, NaN where there is none. If None, the default, `scores`.
    """

    labels: Floats
    weak_labels: Floats
    scores: Floats
    teacher: Floats | None = None

    @classmethod
    def of_labels(cls, labels: Floats) -> "Supervision":
        """Return labels alone, without weak labels or scores."""
        unknown = np.full(labels.shape, np.nan)
        return cls(labels, unknown, unknown)


class Objective:
    """A loss with a distribution that smooths its targets.

    Args:
        loss: name of the loss.
        distribution: name of the distribution.
        temperature: divisor of the scores that a distillation learns or that the target of a query is mixed with.
            Default 1.

    Attributes:
        is_per_query: True if the loss needs all candidates of a query together.

    Raises:
        KeyError: if there is no such loss or distribution; the message lists the names.

    Example:
        >>> import numpy as np, torch
        >>> supervision = Supervision.of_labels(np.array([[1.0, 0.0]]))
        >>> objective = Objective("lce", "uniform")
        >>> objective.compute_sum(torch.tensor([[[2.0], [0.0]]]), supervision, epsilon=0.2)
        tensor(0.3269)
    """

    def __init__(
        self,
        loss: str = DEFAULT_LOSS,
        distribution: str = "none",
        temperature: float | None = None,
    ) -> None:
        self._loss, self._distribution = LOSSES[loss], DISTRIBUTIONS[distribution]
        self._name, self._form = loss, FORMS[self._loss.form]
        self._function = load_object(self._loss.function)
        self._temperature = temperature or DEFAULT_TEMPERATURE
        self.is_per_query = self._loss.is_per_query
        mixed_with = self._distribution.scores if self.is_per_query else self._distribution.relevance
        self._compute_soft = load_object(mixed_with) if mixed_with else None

    def count_terms(self, labels: Floats) -> int:
        """Return the number of terms of the loss, at least 1, for labels of shape (queries, candidates)."""
        return max(1, self._form.count_terms(labels))

    def compute_sum(self, logits: Tensor, supervision: Supervision, epsilon: float) -> Tensor:
        """Return the sum of the losses of all terms, a scalar.

        Args:
            logits: shape (queries, candidates, outputs); a pointwise loss may have any grouping.
            supervision: labels and scores of the same candidates.
            epsilon: strength of the smoothing. With 0 the loss is the unsmoothed one, bit for bit.

        Raises:
            ValueError: if a candidate has no score that is needed, or if the function of the loss does not return one
                number per term.
        """
        arrays = self.make_arrays(supervision, epsilon)
        return self.sum_losses(logits, [from_numpy(array).to(logits.device) for array in arrays], epsilon)

    def make_arrays(self, supervision: Supervision, epsilon: float) -> tuple[np.ndarray, ...]:
        """Return what `sum_losses` takes in addition to logits: the targets of all terms, then their places."""
        merged: Places = ()
        if self.get_relaxation(epsilon) and isinstance(self._form, ListwiseForm):
            labels, merged = self._form.merge_relevant(supervision.labels)
            supervision = supervision._replace(labels=labels)
        candidates = self._make_candidates(supervision, epsilon)
        targets = self._form.make_hard_targets(candidates, self._loss.is_distillation)
        if epsilon and self._compute_soft:
            targets = (1 - epsilon) * targets + epsilon * self._form.make_soft_targets(candidates)
        return (targets, *self._form.find_terms(supervision.labels), *merged)

    def sum_losses(self, logits: Tensor, arrays: Sequence[Tensor], epsilon: float) -> Tensor:
        """Return what `compute_sum` returns, for the arrays of `make_arrays` on the device of the logits."""
        targets, *places = arrays
        losses: Tensor = self._function(self._form.select_terms(logits, *places), targets.to(logits))
        if losses.shape != (len(targets),):
            raise ValueError(f"{self._name} returned the shape {tuple(losses.shape)}; expected ({len(targets)},)")
        relaxation = self.get_relaxation(epsilon)
        return (relax(losses, relaxation) if relaxation else losses).sum()

    def get_relaxation(self, epsilon: float) -> float:
        """Return the strength that `sum_losses` itself reads: epsilon if the losses are relaxed, otherwise 0."""
        return epsilon if self._distribution.relaxes else 0.0

    def _make_candidates(self, supervision: Supervision, epsilon: float) -> Candidates:
        """Return the candidates with what this loss and this distribution read."""
        labels, weak_labels, scores, taught = supervision
        relevance = ranking = teacher = labels
        if epsilon and self._compute_soft and self.is_per_query:
            ranking = self._compute_soft(scores / self._temperature)
        elif epsilon and self._compute_soft:
            relevance = self._compute_soft(labels, weak_labels)
        if self._loss.is_distillation:
            taught = scores if taught is None else taught
            if np.isnan(taught).any():
                raise ValueError(f"{np.isnan(taught).sum()} candidates have no score that could be learnt")
            teacher = taught / self._temperature
        return Candidates(labels, relevance, ranking, teacher)
