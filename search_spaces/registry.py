"""Study types: all that a study knows of a trainable.

The module loads neither torch nor numpy. A trainable has a module here that provides `STUDY_TYPE`, and a line in
`STUDY_TYPES` that names the module. Together with the trainable's own module this is all that a new trainable needs.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pydantic import ValidationError

from search_spaces.settings import AnalysisSettings, BaseHyperparameters, SearchSettings
from trainables.smoothing.schedules import SCHEDULES, Variant
from trainables.specs.base import BaseModelSettings, BaseSmoothing, BaseTaskSettings, BaseTrainingSettings, RunSpec
from trainables.specs.plugin import TrainablePlugin, get_trainable
from trainables.utils.errors import UserError

STUDY_TYPES = {
    "cross-encoder": "search_spaces.ranker",
    "sentence-encoder": "search_spaces.sentence_encoder",
}
"""Name of a trainable -> module of its study type, imported on first use. The first is the default."""
DEFAULT_STUDY_TYPE = next(iter(STUDY_TYPES))
ConfigError = tuple[str, object, str, tuple[str, ...]]
"""Key, value, what was expected, and the other keys that a user may have meant to change."""


def _check_nothing(*settings: Any) -> Iterator[ConfigError]:
    return iter(())


def _list_no_metrics(study: Any) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True)
class ConfigSections:
    """Sections of a study file that differ between trainables."""

    task: type[BaseTaskSettings]
    model: type[BaseModelSettings]
    training: type[BaseTrainingSettings]
    search: type[SearchSettings]
    analysis: type[AnalysisSettings]


@dataclass(frozen=True)
class StudyType:
    """A trainable as studies see it.

    Attributes:
        specification: class of the specification of its runs.
        smoothing: class of the smoothing settings.
        sections: classes of the sections of a study file.
        hyperparameter_schema: every hyperparameter that a configuration may name, with its range and the default None.
        variants: variants by name, the baseline first.
        default_n_configurations: number of configurations that the search proposes for a variant, if the study file
            does not say.
        defaults: published values of the smoothing hyperparameters; the first is the strength.
        reference_rankings: name of a system that is not trained -> the `system` of its specification.
        comparisons: pairs of variants that are compared with each other, if a study has both.
        list_metrics: returns the metrics in which a study compares its variants. If empty, it is the study's metric
            alone.
        unit: what a metric is averaged over, default "query".
        check_training: yields the conflicts between settings of training and a task.
        check_study: yields all other conflicts in a study.
        has_curricula: True if curricula can order its training data, default False.

    Raises:
        UserError: if a table lacks an entry, such as the number of configurations of a variant.
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
        """Check the tables, which are written by hand for a new variant or hyperparameter."""
        trainable = self.specification.trainable
        for name, row in self.variants.items():
            place = f"{trainable}, variant {name}"
            if not isinstance(row, Variant):
                raise UserError(place, repr(row), "Variant(distribution, schedule)")
            if row.schedule not in SCHEDULES:
                raise UserError(place, f"the schedule {row.schedule!r}", f"one of {SCHEDULES.format_names()}")
            try:
                self.make_smoothing(name, {})
            except ValidationError as error:
                expected = error.errors()[0]["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
                raise UserError(place, f"the distribution {row.distribution!r}", expected) from error
            if not isinstance(self.default_n_configurations.get(name), int):
                raise UserError(place, "no number of configurations", f"a line for {name} in default_n_configurations")
        for name in self.sections.search.smoothing_params:
            fields = self.sections.search.model_fields.keys() & self.hyperparameter_schema.model_fields.keys()
            if name not in fields or name not in self.defaults:
                expected = "a field in the search's settings and in hyperparameter_schema, and a line in defaults"
                raise UserError(f"{trainable}, hyperparameter {name}", "incomplete", expected)

    @property
    def baseline(self) -> str:
        """Variant that every study has, and with which the others are compared."""
        return next(iter(self.variants))

    @property
    def strength_name(self) -> str:
        """Name of the hyperparameter that a schedule changes."""
        return next(iter(self.defaults))

    @property
    def hyperparameter_names(self) -> tuple[str, ...]:
        """Names of all hyperparameters, the strength first."""
        return self.strength_name, *(
            name for name in self.hyperparameter_schema.model_fields if name != self.strength_name
        )

    @property
    def trainable(self) -> TrainablePlugin:
        """Plugin that provides its runs and its data."""
        return get_trainable(self.specification)

    def make_smoothing(self, variant: str, values: Mapping[str, Any]) -> BaseSmoothing:
        """Return the smoothing settings of a variant at these hyperparameters.

        Args:
            variant: name of the variant.
            values: values of its hyperparameters by name; empty for the baseline.
        """
        distribution, schedule = self.variants[variant]
        return self.smoothing.model_validate({"distribution": distribution, "schedule": schedule, **values})


def get_study_type(name: str) -> StudyType:
    """Return the study type of this name.

    Raises:
        ValueError: if there is none.
    """
    if name not in STUDY_TYPES:
        raise ValueError(f"one of {', '.join(STUDY_TYPES)}")
    study_type: StudyType = import_module(STUDY_TYPES[name]).STUDY_TYPE
    return study_type
