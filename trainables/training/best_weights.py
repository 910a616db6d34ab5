"""Weights of the best evaluation so far, for runs that end with the best weights instead of the last.

Penha and Hauff (2020) apply the best checkpoint on the development set to the test set.
"""

from torch import Tensor

from trainables.metrics import LOWER_IS_BETTER
from trainables.specs.checkpoint_chain import BestEvaluation, Checkpoint


class BestWeights:
    """Keeps a copy of the best weights in main memory.

    Args:
        metric: metric that decides. Lower is better for the metrics in `trainables.metrics.LOWER_IS_BETTER`.

    Attributes:
        evaluation: evaluation of the kept weights, the earliest on a tie. None before the first evaluation.
    """

    def __init__(self, metric: str) -> None:
        self.evaluation: BestEvaluation | None = None
        self._lower_is_better = metric in LOWER_IS_BETTER
        self._weights: dict[str, Tensor] = {}

    def update(self, evaluation: BestEvaluation, weights: dict[str, Tensor]) -> bool:
        """Keep the weights if no earlier evaluation was as good, and return whether they were kept."""
        if self.evaluation is not None:
            before, now = self.evaluation.value, evaluation.value
            if not (now < before if self._lower_is_better else now > before):
                return False
        self.evaluation = evaluation
        self._weights = {name: value.detach().to("cpu", copy=True) for name, value in weights.items()}
        return True

    def load_into(self, weights: dict[str, Tensor]) -> None:
        """Copy the kept weights into `weights`, if there was an evaluation."""
        for name, value in self._weights.items():
            weights[name].data.copy_(value)

    def get_tensors_to_save(self, instances: int) -> dict[str, Tensor]:
        """Return what a checkpoint after `instances` needs in addition to its own weights, unless they are the best."""
        if self.evaluation is None or self.evaluation.instances == instances:
            return {}
        return {f"best/{name}": value for name, value in self._weights.items()}

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore the best weights from a checkpoint; that of a finished run contains only the best weights."""
        self.evaluation, weights = checkpoint.best, {}
        if checkpoint.best is not None:
            for name, value in checkpoint.weights.items():
                weights[name] = checkpoint.tensors.get(f"best/{name}", value).clone()
        self._weights = weights
