"""Settings of the search, the confirmation and the analysis, and their types.

All trainables share them. A trainable defines its own hyperparameters in a subclass of `SearchSettings`.
"""

import operator
import re
from collections.abc import Callable
from types import GenericAlias
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationError,
    WrapValidator,
    field_validator,
)

from search_spaces.search_samplers import SAMPLERS
from trainables.smoothing.schedules import SCHEDULES, SETTINGS, get_setting_type
from trainables.specs.run_spec import LoraSettings
from trainables.utils.base_settings import AtLeastTwo, PositiveInt, PositiveNumber, Settings
from trainables.utils.registry import PLUGINS_HINT


def list_decaying_schedules() -> list[str]:
    """Return the names of the schedules with which smoothing ends."""
    return [name for name in SCHEDULES if name != "constant"]


def _check_decaying_schedule(name: Any) -> Any:
    if name not in SCHEDULES or name == "constant":
        raise ValueError(f"one of {', '.join(list_decaying_schedules())}{SCHEDULES.suggest_spelling(name)}")
    return name


DecayingScheduleName = Annotated[str, BeforeValidator(_check_decaying_schedule)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
_RECALL_PATTERN = r"R[1-9]\d{0,5}@[1-9]\d{0,5}"
"""Pattern of a recall metric; `study.config.validation` checks that its k is not too large for its n."""


def expect(expected: str, suggest: Callable[[object], str] = lambda _: "") -> WrapValidator:
    """Return a validator that replaces the message of every inner error by `expected`.

    The error shows the value of the whole field.

    Args:
        expected: what the field expects, for the error message.
        suggest: returns what is added to it for a value.
    """

    def validate(value: Any, inner: Any) -> Any:
        try:
            return inner(tuple(value) if isinstance(value, list) else value)
        except ValueError:
            raise ValueError(expected + suggest(value)) from None

    return WrapValidator(validate)


def _check_metric(name: str) -> str:
    """Return `name` if it is a metric with a value for every query.

    Raises:
        ValueError: if it is not.
    """
    if not re.fullmatch(_RECALL_PATTERN, name):
        from trainables.metrics import get_measure  # loads numpy, which most studies do not need

        if not get_measure(name).is_rank_based:
            raise ValueError
    return name


def suggest_metric(value: object) -> str:
    """Return a hint at a similar metric or at plug-ins; empty if the value looks like a metric with a number."""
    from trainables.metrics import METRICS  # imported here, since it loads numpy

    return METRICS.suggest_spelling(value) or ("" if "@" in str(value) else PLUGINS_HINT)


Metric = Annotated[str, AfterValidator(_check_metric)]


def check_distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return `values` if there is at least one and no two are equal.

    Raises:
        ValueError: otherwise.
    """
    if not values or len(set(values)) < len(values):
        raise ValueError
    return values


def check_increasing(values: tuple[float, ...]) -> tuple[float, ...]:
    """Return `values` if each is above the one before it.

    Raises:
        ValueError: otherwise.
    """
    if len(set(values)) < len(values) or list(values) != sorted(values):
        raise ValueError
    return values


SystemPair = Annotated[tuple[str, str], expect("a pair of systems")]
PositiveNumbers = Annotated[
    tuple[PositiveNumber, ...],
    AfterValidator(check_increasing),
    Field(min_length=1),
    expect("a list of increasing numbers above 0, e.g. [0.5, 1.0]"),
]
Shares = Annotated[
    tuple[Annotated[float, Field(gt=0, le=1)], ...],
    AfterValidator(check_increasing),
    Field(min_length=1),
    expect("a list of increasing numbers, each above 0 and at most 1, e.g. [0.1, 0.2]"),
]


NumberList = Annotated[
    tuple[float, ...],
    AfterValidator(check_increasing),
    Field(min_length=1),
    expect("a list of increasing numbers, e.g. [0.25, 0.5]"),
]
LORA = "lora_"
"""Prefix of the names of searched settings of adapters."""


def _check_lora(values: dict[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
    """Return the values with the types that the settings of adapters have.

    Raises:
        ValueError: if one is impossible.
    """
    try:
        return {
            name: tuple(getattr(LoraSettings.model_validate({name: value}), name) for value in listed)
            for name, listed in values.items()
        }
    except ValueError:
        raise ValueError("values of rank, alpha or dropout of [model.lora], e.g. { rank = [4, 16] }") from None


_SWITCHES = (0.25, 0.5, 0.75)
"""Switch points of the schedule two_stage, unless a study names others."""


class SearchSettings(Settings):
    """The hyperparameter search on the development set.

    Every configuration is judged over the study's seeds. A subclass has a field with values for each name in its
    `smoothing_params` and `optimisation_params`.
    """

    n_configurations: dict[str, PositiveInt] = Field(default={})
    """Number of configurations of a system. Others have the default of their variant."""
    hours: PositiveNumber | None = None
    """Maximum hours of the study; no search round begins later.

    The result then depends on the machine's speed. If None, no limit."""
    gpu_hours: PositiveNumber | None = None
    """Maximum GPU hours of all runs; no search round begins later. If None, no limit."""
    round_size: Annotated[
        PositiveInt,
        expect(
            "a whole number from 1 on: configurations proposed in a round. Results depend on it, and "
            "resources.concurrent is how many trials run at once"
        ),
    ] = 2
    """Configurations of a system in a search round. Proposals depend on it, the speed does not."""
    sampler: Annotated[str, BeforeValidator(SAMPLERS.check_name)] = "tpe"
    """Sampler that proposes configurations."""
    pruning: Literal["race"] | None = None
    """Racing: seeds start in rounds, and significantly worse configurations get no more. If None, nothing is pruned."""
    compare: str | None = None
    """Hyperparameter of the smoothing with one system for each value, e.g. epsilon: T-WSLS-0.2.

    Each has as many configurations as its variant. If None, each variant is one system."""
    schedule: Annotated[
        tuple[DecayingScheduleName, ...],
        AfterValidator(check_distinct),
        expect("a list of distinct names out of ", lambda _: ", ".join(list_decaying_schedules()) + PLUGINS_HINT),
    ] = ("two_stage",)
    """Schedules that end the smoothing of two-stage variants."""
    schedule_settings: dict[str, NumberList] = Field(default={})
    """Values of the schedules' settings. Others have their published value; switch has 0.25, 0.5 and 0.75."""
    learning_rate: Annotated[
        tuple[PositiveNumber, ...],
        AfterValidator(check_increasing),
        expect("a list of increasing numbers above 0, e.g. [1e-5, 3e-5]"),
    ] = ()
    """Learning rates, searched for every system and the baseline. If empty, training.learning_rate applies."""
    lora: Annotated[dict[str, NumberList], AfterValidator(_check_lora)] = Field(default={}, exclude_if=operator.not_)
    """Values of rank, alpha and dropout of adapters, searched for every system and the baseline."""
    smoothing_params: ClassVar[tuple[str, ...]] = ()
    """Hyperparameters that smoothing has whether or not it ends, in the order of suggestion."""
    loss_params: ClassVar[tuple[str, ...]] = ()
    """Hyperparameters of the choice of a loss."""
    optimisation_params: ClassVar[tuple[str, ...]] = ("learning_rate",)
    """Training settings that may be searched, in the order of suggestion."""

    @field_validator("schedule_settings")
    @classmethod
    def _check_schedule_settings(cls, settings: dict[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
        for name in settings.keys() & SETTINGS.keys():  # an unknown name is reported as an unknown key
            values: Any = GenericAlias(tuple, (get_setting_type(name), ...))
            try:
                TypeAdapter(values).validate_python(settings[name])
            except ValidationError as error:
                expected = error.errors()[0]["msg"].removeprefix("Input should be ")
                raise ValueError(f"for {name} numbers {expected}") from None
        return settings

    @field_validator("compare")
    @classmethod
    def _check_compare(cls, name: str | None) -> str | None:
        if name is not None and name not in cls._list_smoothing_names():
            raise ValueError(f"one of {', '.join(cls._list_smoothing_names())}, or none")
        return name

    @classmethod
    def _list_smoothing_names(cls) -> tuple[str, ...]:
        return (*cls.smoothing_params, "schedule", *SETTINGS, *cls.loss_params)

    @property
    def smoothing_grid(self) -> dict[str, tuple[Any, ...]]:
        """Values of every smoothing hyperparameter, by name."""
        values: dict[str, tuple[Any, ...]] = {name: (field.default,) for name, field in SETTINGS.items()}
        values |= {"switch": _SWITCHES, **self.schedule_settings}
        return {name: values[name] if name in values else getattr(self, name) for name in self._list_smoothing_names()}

    @property
    def optimisation_grid(self) -> dict[str, tuple[Any, ...]]:
        """Values of the settings of training and of adapters that are searched, by name."""
        searched = {name: values for name in self.optimisation_params if (values := getattr(self, name))}
        return searched | dict(zip(self.adapter_params, self.lora.values(), strict=True))

    @property
    def adapter_params(self) -> tuple[str, ...]:
        """Names of the settings of adapters that are searched."""
        return tuple(f"{LORA}{name}" for name in self.lora)


class ConfirmSettings(Settings):
    """Settings of the confirmation: runs with fresh seeds before the test set is used."""

    seeds: Annotated[
        tuple[Seed, ...],
        AfterValidator(lambda seeds: check_distinct(seeds) if seeds else seeds),
        expect(
            "the number of fresh seeds, from 1 to 1000, e.g. 10; or a list of distinct whole numbers that are not "
            "among seeds, e.g. [101, 102, 103]; or []"
        ),
    ] = ()
    """Fresh seeds: winner, default and baseline of each search run again with them, for the test set.

    If empty, the test set judges the runs of the search, and p-values contain the luck of the choice: declare fresh
    seeds for a claim. A number draws that many."""
    group_size: AtLeastTwo | None = None
    """Fresh seeds between two looks at the test scores (sequential confirmation), until every comparison of the
    conclusion is decided. If None, one look after all."""


class AnalysisSettings(Settings):
    """Settings of the analysis: the metric, the tests and their thresholds."""

    metric: Annotated[
        Metric,
        expect(
            "R<n>@<k>, e.g. R10@1, with n = task.candidates, or MAP, MRR, MRR@<k>, P@<k>, R@<k>, nDCG@<k> or position",
            suggest_metric,
        ),
    ] = "R10@1"
    """Metric that is tested.

    R<n>@<k>: share of the relevant ones among n sampled candidates that are in the first k. position: rank of the first
    relevant one, lower is better. Retrieved candidates (`task.depth`) have the others, as in ir_measures."""
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """Significance level of the tests."""
    correction: Literal["bonferroni", "holm", "bh"] = "bonferroni"
    """Correction for multiple comparisons."""
    margin: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Smallest difference that matters, in units of the metric, for the equivalence test. If None, there is none."""
    comparisons: Annotated[
        tuple[SystemPair, ...],
        expect('a list of pairs of systems, e.g. [["WSLS", "LS"]]'),
    ] = ()
    """Further pairs of a system and its baseline, such as a reference, in the first family of the plan; exploratory if
    they are added after test scores exist."""
    dev_comparisons: bool = False
    """Also compare on the development set, with its own correction. Scores of searched systems are optimistic there."""
    seeds: Literal["own", "pooled"] = "own"
    """Variation between seeds in the tests: "own" of each comparison, or "pooled" over a family.

    With few seeds, pooling finds more of the large differences and fewer of the small ones. A comparison exceeds its
    level if its seeds vary more than the others', or if all variants share effects that the baseline lacks."""
