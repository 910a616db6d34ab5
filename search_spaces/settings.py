"""Settings of the search, of what confirms it and of what is tested, as every trainable has them; and their types.

A trainable names its own hyperparameters in a class of its own, made from `SearchSettings`.
"""

import math
import re
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, Field, WrapValidator

from trainables.smoothing.schedules import SCHEDULE_SETTINGS
from trainables.utils.settings import AtLeastTwo, PositiveInt, Settings

DecayingScheduleName = Literal["two_stage", "linear", "exponential", "cosine", "beta"]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
_RECALL_PATTERN = r"R[1-9]\d{0,5}@[1-9]\d{0,5}"
"""Whether its k is too large for its n, `study.config.validation` says."""


def expect(expected: str) -> WrapValidator:
    """Whatever fails inside, the message is `expected` and the value is the whole field's."""

    def validate(value: Any, inner: Any) -> Any:
        try:
            return inner(tuple(value) if isinstance(value, list) else value)
        except ValueError:
            raise ValueError(expected) from None

    return WrapValidator(validate)


def _check_metric(name: str, ranks_only: bool = False) -> str:
    """`name`, if it is a metric, and every system has it query by query where that is asked; ValueError otherwise."""
    if not re.fullmatch(_RECALL_PATTERN, name):
        from trainables.metrics import get_measure  # numpy, which most studies load without

        if ranks_only and not get_measure(name).is_rank_based:
            raise ValueError
        get_measure(name)
    return name


def _check_rank_metric(name: str) -> str:
    return _check_metric(name, ranks_only=True)


Metric = Annotated[str, AfterValidator(_check_metric)]
RankMetric = Annotated[str, AfterValidator(_check_rank_metric)]


def check_distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """`values`, if there are any and no two are equal; ValueError otherwise."""
    if not values or len(set(values)) < len(values):
        raise ValueError
    return values


def check_increasing(values: tuple[float, ...]) -> tuple[float, ...]:
    """`values`, if each is above the one before it; ValueError otherwise."""
    if len(set(values)) < len(values) or list(values) != sorted(values):
        raise ValueError
    return values


def check_not_empty(values: tuple[float, ...]) -> tuple[float, ...]:
    """`values`, if there are any; ValueError otherwise."""
    if not values:
        raise ValueError
    return values


PositiveNumber = Annotated[float, Field(gt=0, lt=math.inf)]
PositiveNumbers = Annotated[
    tuple[PositiveNumber, ...],
    AfterValidator(check_increasing),
    AfterValidator(check_not_empty),
    expect("a list of increasing numbers above 0, e.g. [0.5, 1.0]"),
]
Shares = Annotated[
    tuple[Annotated[float, Field(gt=0, le=1)], ...],
    AfterValidator(check_increasing),
    AfterValidator(check_not_empty),
    expect("a list of increasing numbers, each above 0 and at most 1, e.g. [0.1, 0.2]"),
]


class SearchSettings(Settings):
    """The hyperparameters searched, on the development set. Every configuration is judged over the study's seeds.

    A subclass has a field of values for each of its `strengths` and of what is `optimised`.
    """

    trials: dict[str, PositiveInt] = Field(default={})
    """Configurations proposed for a system; systems left out have the default of their variant."""
    hours: PositiveNumber | None = None
    """No round of proposals begins after the study has run for so long, all its starts counted; what a study then finds
    depends on the machine's speed."""
    gpu_hours: PositiveNumber | None = None
    """The same for the GPU time of all its runs."""
    parallel: Annotated[
        PositiveInt,
        expect(
            "a whole number from 1 on: configurations proposed in a round. Results depend on it, and "
            "resources.concurrent is how many trials run at once"
        ),
    ] = 2
    """Configurations proposed in a round, for each variant. It is no matter of speed: the proposals depend on it."""
    sampler: Literal["tpe", "gp", "qmc", "grid"] = "tpe"
    """Tree-structured Parzen estimator, Gaussian process that takes results as noisy, quasi-Monte Carlo (Sobol), or
    every configuration of the grid."""
    seed: Seed = 0
    """Seed of the sampler."""
    objectives: Annotated[
        tuple[Metric, ...],
        expect('a list of metrics, analysis.metric first, e.g. ["R10@1", "ECE"]'),
    ] = ()
    """Several: a Pareto search, whose winner is the best of its front by the first; none: analysis.metric alone. Beside
    the metrics that analysis.metric may be: Brier, NLL, ECE and Spearman."""
    pruning: Literal["race"] | None = None
    """race: seeds are started in rounds, and a configuration that is significantly behind gets no more of them. Of
    those that are as good as the best, .005 to .044 are dropped (measured by benchmarks/race.py: 12 configurations, 5
    or 10 seeds, seeds' standard deviation 0 to .01)."""
    schedule: Annotated[
        tuple[DecayingScheduleName, ...],
        AfterValidator(check_distinct),
        expect(f"a list of distinct names out of {', '.join(get_args(DecayingScheduleName))}"),
    ] = ("two_stage",)
    """How the smoothing of two-stage variants ends."""
    switch: Annotated[
        tuple[Annotated[float, Field(gt=0, lt=1)], ...],
        AfterValidator(check_increasing),
        AfterValidator(check_not_empty),
        expect("a list of increasing numbers, each above 0 and below 1 (share of training), e.g. [0.25, 0.5]"),
    ] = (0.25, 0.5, 0.75)
    """Switch points of the schedule two_stage, as share of training."""
    end: Shares = (0.8,)
    """Where the schedule linear reaches 0, as share of training."""
    rate: PositiveNumbers = (5.0,)
    """Of the schedule exponential: the strength falls by exp(-rate) over the training."""
    a: PositiveNumbers = (2.0,)
    """First parameter of the schedule beta."""
    b: PositiveNumbers = (2.0,)
    """Second parameter of the schedule beta."""
    learning_rate: Annotated[
        tuple[PositiveNumber, ...],
        AfterValidator(check_increasing),
        expect("a list of increasing numbers above 0, e.g. [1e-5, 3e-5]"),
    ] = ()
    """Learning rates, searched for every system, the baseline included; none: training.learning_rate."""
    batch_size: Annotated[
        tuple[AtLeastTwo, ...],
        AfterValidator(check_increasing),
        expect("a list of increasing whole numbers from 2 on, e.g. [16, 32]"),
    ] = ()
    """The same for training.batch_size."""

    smoothing_params: ClassVar[tuple[str, ...]] = ()
    """Hyperparameters that smoothing has whether or not it ends, in the order of asking."""
    optimisation_params: ClassVar[tuple[str, ...]] = ("learning_rate", "batch_size")
    """Settings of training that may be searched, in the order of asking."""

    @property
    def smoothing_grid(self) -> dict[str, tuple[Any, ...]]:
        """The values of every setting of smoothing, by name."""
        names = (*self.smoothing_params, "schedule", *(name for own in SCHEDULE_SETTINGS.values() for name in own))
        return {name: getattr(self, name) for name in names}

    @property
    def optimisation_grid(self) -> dict[str, tuple[Any, ...]]:
        """The values of the settings of training that are searched, by name."""
        return {name: found for name in self.optimisation_params if (found := getattr(self, name))}


class BaseHyperparameters(Settings):
    """The hyperparameters that one configuration may name, and their ranges; None: not named. Here those that every
    trainable has."""

    schedule: DecayingScheduleName | None = None
    switch: Annotated[float, Field(gt=0, lt=1)] | None = None
    end: Annotated[float, Field(gt=0, le=1)] | None = None
    rate: PositiveNumber | None = None
    a: PositiveNumber | None = None
    b: PositiveNumber | None = None
    learning_rate: PositiveNumber | None = None
    batch_size: AtLeastTwo | None = None


class ConfirmSettings(Settings):
    """What is run again before the test set is touched."""

    seeds: Annotated[
        tuple[Seed, ...],
        expect("a list of distinct whole numbers that are not among seeds, e.g. [101, 102, 103], or []"),
    ] = ()
    """Fresh seeds, with which each winner, its untuned default and the baseline are run again; the test set then judges
    those runs. None: the runs of the search go to the test set."""


class AnalysisSettings(Settings):
    """What is tested, and when a difference counts."""

    metric: Annotated[
        RankMetric,
        expect("R<n>@<k>, e.g. R10@1, with n = task.candidates, or MAP, MRR, nDCG@<k> or position"),
    ] = "R10@1"
    """R<n>@<k>: among n candidates, the share of the relevant ones ranked in the first k. position: rank of the first
    relevant one, where less is better."""
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    correction: Literal["bonferroni", "holm", "bh", "maxt"] = "bonferroni"
    margin: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Differences below it do not matter: what is surely below is called equivalent; none: nothing is."""
