"""The settings of a run, and the modules that train it and prepare its data."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainables.specs.plugin import TrainablePlugin
from trainables.specs.run_spec import BaseModelSettings, BaseSmoothing, BaseTaskSettings, BaseTrainingSettings, RunSpec
from trainables.utils.base_settings import AtLeastTwo, NonNegativeInt, PositiveInt, Proportion


class PointsTask(BaseTaskSettings):
    """Queries with one relevant candidate each. A candidate is a point."""

    name: Literal["points"] = "points"
    queries: PositiveInt = 60
    """Number of queries in each split."""
    candidates: AtLeastTwo = 10
    """Candidates per query."""

    def scores_per_query(self, split: str) -> int:
        """Return one score per candidate."""
        return self.candidates


class LogisticTraining(BaseTrainingSettings):
    """Stochastic gradient descent. An instance is a query with its candidates."""

    instances: NonNegativeInt = 320
    batch_size: AtLeastTwo = 8
    learning_rate: Annotated[float, Field(gt=0)] = 0.5


class SoftTargets(BaseSmoothing):
    """Targets that are moved towards the share of relevant candidates."""

    distribution: Literal["none", "share"] = "none"
    softness: Proportion = 0.0
    """Strength of the smoothing; a schedule changes it during training."""

    @property
    def initial_strength(self) -> float:
        """Softness at the beginning of training."""
        return self.softness


class LogisticRunSpec(RunSpec):
    """Specification of one run."""

    trainable: ClassVar[str] = "own_package.logistic.specification"

    system: Literal["logistic"] = "logistic"
    task: PointsTask
    model: BaseModelSettings | None = None
    training: LogisticTraining | None = None
    variant: SoftTargets = SoftTargets()


TRAINABLE = TrainablePlugin(LogisticRunSpec, "own_package.logistic.backend", "own_package.logistic.data")
