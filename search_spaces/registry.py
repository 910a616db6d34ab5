"""What a study knows of what it trains. Loads neither torch nor numpy.

A trainable has a module here that provides `KIND`, found by the trainable's name in `KINDS`: that line, the module and
the trainable's own are all that it takes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pydantic import ValidationError

from search_spaces.settings import AnalysisSettings, SearchSettings, Values
from trainables.smoothing.schedules import SCHEDULE_SETTINGS, SCHEDULES, Variant
from trainables.specs.base import CommonModel, CommonTask, CommonTraining, Smoothing, Specification
from trainables.specs.plugin import Trainable, of
from trainables.utils.errors import UserError

KINDS = {
    "cross-encoder": "search_spaces.ranker",
    "sentence-encoder": "search_spaces.sentence_encoder",
}
"""Name of a trainable -> module of its kind, imported when first used. A study that names none has the first."""
DEFAULT = next(iter(KINDS))
Disagreement = tuple[str, object, str, tuple[str, ...]]
"""Key, value, what was expected, and the other keys that a user may have meant to change."""


def _none(*about: Any) -> Iterator[Disagreement]:
    return iter(())


def _one_metric(study: Any) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True)
class Sections:
    """The sections of a study's file that are not the same for every trainable."""

    task: type[CommonTask]
    model: type[CommonModel]
    training: type[CommonTraining]
    search: type[SearchSettings]
    analysis: type[AnalysisSettings]


@dataclass(frozen=True)
class Kind:
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

    specification: type[Specification]
    smoothing: type[Smoothing]
    sections: Sections
    values: type[Values]
    variants: Mapping[str, Variant]
    proposals: Mapping[str, int]
    untuned: Mapping[str, Any]
    orders: Mapping[str, str]
    comparisons: tuple[tuple[str, str], ...] = ()
    metrics: Callable[[Any], tuple[str, ...]] = _one_metric
    unit: str = "query"
    misfits: Callable[[Any, Any], Iterator[Disagreement]] = _none
    disagreements: Callable[[Any], Iterator[Disagreement]] = _none
    curricula: bool = False

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
                self.smoothed(name, {})
            except ValidationError as error:
                expected = error.errors()[0]["msg"].removeprefix("Input should be ")
                raise UserError(here, f"the distribution {row.distribution!r}", expected) from error
            if not isinstance(self.proposals.get(name), int):
                raise UserError(here, "no number of configurations", f"a line for {name} in proposals")
        for name in self.sections.search.strengths:
            fields = self.sections.search.model_fields.keys() & self.values.model_fields.keys()
            if name not in fields or name not in self.untuned:
                expected = "a field in the search's settings and in values, and an untuned value"
                raise UserError(f"{where}, hyperparameter {name}", "incomplete", expected)

    @property
    def baseline(self) -> str:
        """The variant that every study has, and with which the others are compared."""
        return next(iter(self.variants))

    @property
    def strength(self) -> str:
        """The hyperparameter that a schedule moves."""
        return next(iter(self.untuned))

    @property
    def hyperparameters(self) -> tuple[str, ...]:
        """The names of all, the strength first."""
        return self.strength, *(name for name in self.values.model_fields if name != self.strength)

    @property
    def trainable(self) -> Trainable:
        """How its runs and its data are made."""
        return of(self.specification)

    def smoothed(self, variant: str, values: Mapping[str, Any]) -> Smoothing:
        """The settings of a variant at these values of its hyperparameters; the baseline takes none."""
        distribution, schedule = self.variants[variant]
        return self.smoothing.model_validate({"distribution": distribution, "schedule": schedule, **values})


def kind(name: str) -> Kind:
    """The kind of this name.

    Raises:
        ValueError: there is none.
    """
    if name not in KINDS:
        raise ValueError(f"one of {', '.join(KINDS)}")
    found: Kind = import_module(KINDS[name]).KIND
    return found
