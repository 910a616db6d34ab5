"""The weights of the best evaluation so far, for runs that end with those and not with their last ones.

Penha and Hauff (2020) apply the best checkpoint on the development set to the test set.
"""

from torch import Tensor

from trainables.metrics import LOWER_IS_BETTER
from trainables.specs.checkpoints import BestEvaluation, Checkpoint


class BestWeights:
    """A copy of them, in the machine's memory.

    Args:
        metric: which decides; less is better in those that are `trainables.metrics.MINIMISED`.

    Attributes:
        found: their evaluation, the earliest on a tie; None before the first.
    """

    def __init__(self, metric: str) -> None:
        self.evaluation: BestEvaluation | None = None
        self._lower_is_better = metric in LOWER_IS_BETTER
        self._weights: dict[str, Tensor] = {}

    def update(self, evaluation: BestEvaluation, weights: dict[str, Tensor]) -> bool:
        """Keeps the weights if no earlier evaluation was as good; returns whether it did."""
        if self.evaluation is not None:
            before, now = self.evaluation.value, evaluation.value
            if not (now < before if self._lower_is_better else now > before):
                return False
        self.evaluation = evaluation
        self._weights = {name: value.detach().to("cpu", copy=True) for name, value in weights.items()}
        return True

    def load_into(self, weights: dict[str, Tensor]) -> None:
        """Lets `weights` be these, if there was an evaluation."""
        for name, value in self._weights.items():
            weights[name].data.copy_(value)

    def get_tensors_to_save(self, instances: int) -> dict[str, Tensor]:
        """What a state after `instances` must hold beside its own weights; nothing where these are the best ones."""
        if self.evaluation is None or self.evaluation.instances == instances:
            return {}
        return {f"best/{name}": value for name, value in self._weights.items()}

    def restore(self, checkpoint: Checkpoint) -> None:
        """Takes up a remembered state; that of a finished run has no weights but the best."""
        self.evaluation, own = checkpoint.best, {}
        if checkpoint.best is not None:
            for key in checkpoint.tensors:
                if key.startswith("weights/"):
                    name = key.removeprefix("weights/")
                    own[name] = checkpoint.tensors.get(f"best/{name}", checkpoint.tensors[key]).clone()
        self._weights = own
