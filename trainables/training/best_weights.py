"""The weights of the best evaluation so far, for runs that end with those and not with their last ones.

Penha and Hauff (2020) apply the best checkpoint on the development set to the test set.
"""

from torch import Tensor

from trainables.metrics import MINIMISED
from trainables.specs.stages import Best, Stage


class BestWeights:
    """A copy of them, in the machine's memory.

    Args:
        metric: which decides; less is better in those that are `trainables.metrics.MINIMISED`.

    Attributes:
        found: their evaluation, the earliest on a tie; None before the first.
    """

    def __init__(self, metric: str) -> None:
        self.found: Best | None = None
        self._minimised = metric in MINIMISED
        self._weights: dict[str, Tensor] = {}

    def offer(self, evaluation: Best, weights: dict[str, Tensor]) -> bool:
        """Keeps the weights if no earlier evaluation was as good; returns whether it did."""
        if self.found is not None:
            before, now = self.found.value, evaluation.value
            if not (now < before if self._minimised else now > before):
                return False
        self.found = evaluation
        self._weights = {name: value.detach().to("cpu", copy=True) for name, value in weights.items()}
        return True

    def give(self, weights: dict[str, Tensor]) -> None:
        """Lets `weights` be these, if there was an evaluation."""
        for name, value in self._weights.items():
            weights[name].data.copy_(value)

    def tensors(self, instances: int) -> dict[str, Tensor]:
        """What a state after `instances` must hold beside its own weights; nothing where these are the best ones."""
        if self.found is None or self.found.instances == instances:
            return {}
        return {f"best/{name}": value for name, value in self._weights.items()}

    def restore(self, stage: Stage) -> None:
        """Takes up a remembered state; that of a finished run has no weights but the best."""
        self.found, own = stage.best, {}
        if stage.best is not None:
            for key in stage.tensors:
                if key.startswith("weights/"):
                    name = key.removeprefix("weights/")
                    own[name] = stage.tensors.get(f"best/{name}", stage.tensors[key]).clone()
        self._weights = own
