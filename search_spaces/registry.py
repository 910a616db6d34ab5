"""What a study knows of what it trains. Loads neither torch nor numpy.

A trainable has a module here that provides `STUDY_TYPE`, found by its name in `STUDY_TYPES`: that line, the module and
the trainable's own are all that it takes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pydantic import ValidationError

from search_spaces.settings import AnalysisSettings, BaseHyperparameters, SearchSettings
from trainables.smoothing.schedules import SCHEDULE_SETTINGS, SCHEDULES, Variant
from trainables.specs.base import BaseModelSettings, BaseSmoothing, BaseTaskSettings, BaseTrainingSettings, RunSpec
from trainables.specs.plugin import TrainablePlugin, get_trainable
from trainables.utils.errors import UserError

STUDY_TYPES = {
    "cross-encoder": "search_spaces.ranker",
    "sentence-encoder": "search_spaces.sentence_encoder",
}
"""Name of a trainable -> module of its kind, imported when first used. A study that names none has the first."""
DEFAULT_STUDY_TYPE = next(iter(STUDY_TYPES))
ConfigError = tuple[str, object, str, tuple[str, ...]]
"""Key, value, what was expected, and the other keys that a user may have meant to change."""


def _check_nothing(*about: Any) -> Iterator[ConfigError]:
    return iter(())


def _list_no_metrics(study: Any) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True)
class ConfigSections:
    """The sections of a study's file that are not the same for every trainable."""

    task: type[BaseTaskSettings]
    model: type[BaseModelSettings]
    training: type[BaseTrainingSettings]
    search: type[SearchSettings]
    analysis: type[AnalysisSettings]


@dataclass(frozen=True)
class StudyType:
    """A trainable as studies see it.

    Attributes:
        specification: of its runs.
        smoothing: what varies in them.
        sections: of its studies.
        values: every hyperparameter that a configuration may name, with its range and None by default.
        variants: what it can be smoothed with, by name, the baseline first.
        proposals: configurations proposed for a variant, where the study does not say.
        untuned: published values of the hyperparameters of smoothing; the first is the strength.
        orders: systems that nobody trains, by name: the `system` of their specification.
        comparisons: variants that are compared with each other, where a study has both.
        metrics: those in which a study compares its variants; none: its metric alone.
        unit: what a metric is averaged over.
        misfits: what does not fit between settings of training and a task.
        disagreements: what else does not fit in a study.
        curricula: whether its training data can be put in order.

    Raises:
        UserError: a row of a table lacks something, such as a variant its number of proposals.
    """

    specification: type[RunSpec]
    smoothing: type[BaseSmoothing]
    sections: ConfigSections
    hyperparameter_schema: type[BaseHyperparameters]
    variants: Mapping[str, Variant]
    default_n_configurations: Mapping[str, int]
    defaults: Mapping[str, Any]
    reference_rankings: Mapping[str, str]
    comparisons: tuple[tuple[str, str], ...] = ()
    list_metrics: Callable[[Any], tuple[str, ...]] = _list_no_metrics
    unit: str = "query"
    check_training: Callable[[Any, Any], Iterator[ConfigError]] = _check_nothing
    check_study: Callable[[Any], Iterator[ConfigError]] = _check_nothing
    has_curricula: bool = False

    def __post_init__(self) -> None:
        """Checks the tables, which whoever adds a variant or a hyperparameter writes by hand."""
        where = self.specification.trainable
        for name, row in self.variants.items():
            here = f"{where}, variant {name}"
            if not isinstance(row, Variant):
                raise UserError(here, repr(row), "Variant(distribution, schedule)")
            if row.schedule not in SCHEDULES.keys() & SCHEDULE_SETTINGS.keys():
                expected = f"one of {', '.join(SCHEDULES)}, each with a line in SCHEDULE_SETTINGS"
                raise UserError(here, f"the schedule {row.schedule!r}", expected)
            try:
                self.make_smoothing(name, {})
            except ValidationError as error:
                expected = error.errors()[0]["msg"].removeprefix("Input should be ")
                raise UserError(here, f"the distribution {row.distribution!r}", expected) from error
            if not isinstance(self.default_n_configurations.get(name), int):
                raise UserError(here, "no number of configurations", f"a line for {name} in default_n_configurations")
        for name in self.sections.search.smoothing_params:
            fields = self.sections.search.model_fields.keys() & self.hyperparameter_schema.model_fields.keys()
            if name not in fields or name not in self.defaults:
                expected = "a field in the search's settings and in hyperparameter_schema, and a line in defaults"
                raise UserError(f"{where}, hyperparameter {name}", "incomplete", expected)

    @property
    def baseline(self) -> str:
        """The variant that every study has, and with which the others are compared."""
        return next(iter(self.variants))

    @property
    def strength_name(self) -> str:
        """The hyperparameter that a schedule moves."""
        return next(iter(self.defaults))

    @property
    def hyperparameter_names(self) -> tuple[str, ...]:
        """The names of all, the strength first."""
        return self.strength_name, *(
            name for name in self.hyperparameter_schema.model_fields if name != self.strength_name
        )

    @property
    def trainable(self) -> TrainablePlugin:
        """How its runs and its data are made."""
        return get_trainable(self.specification)

    def make_smoothing(self, variant: str, values: Mapping[str, Any]) -> BaseSmoothing:
        """The settings of a variant at these values of its hyperparameters; the baseline takes none."""
        distribution, schedule = self.variants[variant]
        return self.smoothing.model_validate({"distribution": distribution, "schedule": schedule, **values})


def get_study_type(name: str) -> StudyType:
    """The kind of this name.

    Raises:
        ValueError: there is none.
    """
    if name not in STUDY_TYPES:
        raise ValueError(f"one of {', '.join(STUDY_TYPES)}")
    found: StudyType = import_module(STUDY_TYPES[name]).STUDY_TYPE
    return found
