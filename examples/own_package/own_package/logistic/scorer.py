"""The model and its training, with the methods that `trainables.training.resume.ResumableTraining` calls."""

from collections.abc import Callable

import numpy as np
import torch

from own_package.logistic.data import draw_points
from own_package.logistic.specification import LogisticRunSpec
from trainables.metrics import get_measure
from trainables.specs.checkpoint_chain import Checkpoint
from trainables.utils.random import make_generator


class LogisticScorer:
    """Linear scorer of points. Its weights depend only on the specification and the instances seen."""

    def __init__(self, specification: LogisticRunSpec, metric: str) -> None:
        self.specification, self.metric = specification, metric
        self.instances_seen, self.history = 0, list[dict[str, float]]()
        features = draw_points(specification.task, "train")[0].shape[-1]
        self.weights = make_generator(specification.seed, "start", 0).normal(size=features)

    def train(self, until: int, after_step: Callable[[], None]) -> None:
        """Train up to `until` instances; call `after_step` after every batch."""
        spec, training = self.specification, self.specification.training
        points, relevant = draw_points(spec.task, "train")
        while self.instances_seen < until:
            softness = spec.variant.compute_strength(self.instances_seen, training.instances)
            rows = make_generator(spec.seed, "batch", self.instances_seen).choice(len(points), training.batch_size)
            targets = (1 - softness) * relevant[rows] + softness / relevant.shape[1]
            error = 1 / (1 + np.exp(-points[rows] @ self.weights)) - targets
            gradient = (error[..., None] * points[rows]).mean(axis=(0, 1))
            self.weights = self.weights - training.learning_rate * gradient
            self.instances_seen += training.batch_size
            self.history.append({"instances": self.instances_seen, "train/softness": softness})
            if self.instances_seen == training.instances:
                self.history[-1][f"dev/{self.metric}"] = self.judge("dev")
            after_step()

    def score(self, split: str) -> np.ndarray:
        """Return the (queries x candidates,) scores of a split."""
        return (draw_points(self.specification.task, split)[0] @ self.weights).ravel()

    def judge(self, split: str) -> float:
        """Return the metric on a split."""
        relevant = draw_points(self.specification.task, split)[1]
        return get_measure(self.metric).compute_overall(self.score(split), relevant.ravel(), np.full(*relevant.shape))

    def make_checkpoint(self, final: bool) -> Checkpoint:
        """Return the present state."""
        return Checkpoint(self.instances_seen, {"weights": torch.from_numpy(self.weights)}, list(self.history))

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue from a saved state."""
        self.instances_seen, self.history = checkpoint.instances, list(checkpoint.history)
        self.weights = checkpoint.tensors["weights"].numpy().copy()

    def load_best_weights(self) -> None:
        """Do nothing: the last weights are the final ones."""
