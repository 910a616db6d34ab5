"""Study types: all that a study knows of a trainable.

The module loads neither torch nor numpy. A trainable has a module here that provides `STUDY_TYPE`, and an entry in
`STUDY_TYPES`. Together with the trainable's own module this is all that a new trainable needs.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from search_spaces.curriculum_params import PARAM_NAMES
from search_spaces.search_settings import AnalysisSettings, SearchSettings
from trainables.smoothing.schedules import SCHEDULES, SETTINGS, Variant
from trainables.specs.plugin import TrainablePlugin, get_trainable
from trainables.specs.run_spec import BaseModelSettings, BaseSmoothing, BaseTaskSettings, BaseTrainingSettings, RunSpec
from trainables.utils.errors import UserError
from trainables.utils.registry import Entry, Registry

_LABELS = frozenset({
    "study", "trainable", "plan_hash", "specification_id", "configuration_id", "task", "data", "model", "variant",
    "seed", "role", "specification", "has_probabilities", "pacing", "score", "delta", "duration",
})  # fmt: skip
"""Names that the labels of a run have for something else than a setting of a schedule."""
ConfigError = tuple[str, object, str, tuple[str, ...]]
"""Key, value, what was expected, and the other keys that a user may have meant to change."""


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
        variants: variants by name, the baseline first.
        default_variants: variants of a study that names none. If empty, all of them.
        defaults: published values of the smoothing hyperparameters; the first is the strength.
        reference_rankings: name of a system that needs no model -> the `system` of its specification. The task may give
            it another name, see `BaseTaskSettings.name_reference_ranking`.
        name_starting_ranking: returns the same two names of the system that ranks by the model before training, for the
            settings of the model. If None, the default, that system is `untrained`, which has every seed.
        list_metrics: returns the metrics in which a study compares its variants. If empty, it is the study's metric
            alone.
        unit: what a metric is averaged over, default "query".
        check_training: yields the conflicts between settings of training and a task.
        check_study: yields all other conflicts in a study.
        has_curricula: True if curricula can order its training data, default False.
        collection: class of the settings of a further collection on which its models are evaluated. If None, the
            default, there are no such collections.

    """

    specification: type[RunSpec]
    smoothing: type[BaseSmoothing]
    sections: ConfigSections
    variants: Mapping[str, Variant]
    defaults: Mapping[str, Any]
    reference_rankings: Mapping[str, str]
    name_starting_ranking: Callable[[Any], tuple[str, str]] | None = None
    default_variants: tuple[str, ...] = ()
    list_metrics: Callable[[Any], tuple[str, ...]] = lambda study: ()
    unit: str = "query"
    check_training: Callable[[Any, Any], Iterator[ConfigError]] = lambda training, task: iter(())
    check_study: Callable[[Any], Iterator[ConfigError]] = lambda study: iter(())
    has_curricula: bool = False
    collection: type[BaseTaskSettings] | None = None

    def check(self) -> None:
        """Check the tables, which are written by hand for a new variant or hyperparameter.

        Raises:
            UserError: if a variant is wrong, or if a hyperparameter lacks its field or its default.
        """
        for name in self.variants:
            self._check_variant(name)
        for name in self.sections.search.smoothing_params:
            if name not in self.sections.search.model_fields or name not in self.defaults:
                expected = "a field in the search's settings and a line in defaults"
                raise UserError(f"{self.specification.trainable}, hyperparameter {name}", "incomplete", expected)
        taken = {*_LABELS, *self.sections.search.model_fields, *self.smoothing.model_fields}
        for entry in SCHEDULES.entries:
            for name in entry.settings.model_fields if entry.module and entry.settings else ():
                if name in taken or hasattr(self.smoothing, name):
                    place = f"the schedule {entry.name}, setting {name}"
                    raise UserError(place, "the name of another setting or label", "a free name")

    def _check_variant(self, name: str) -> None:
        row, place = self.variants[name], f"{self.specification.trainable}, variant {name}"
        if not isinstance(row, Variant):
            raise UserError(place, repr(row), "Variant(distribution, schedule)")
        if row.schedule not in SCHEDULES:
            raise UserError(place, f"the schedule {row.schedule!r}", f"one of {SCHEDULES.format_names()}")
        try:
            self.make_smoothing(name, {})
        except ValidationError as error:
            expected = error.errors()[0]["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
            raise UserError(place, f"the distribution {row.distribution!r}", expected) from error
        if type(row.n_configurations) is not int or row.n_configurations < 1:
            raise UserError(place, f"n_configurations = {row.n_configurations!r}", "a whole number from 1 on")
        if unknown := [other for other in row.compared_with if other not in self.variants or other == name]:
            expected = f"other variants out of {', '.join(self.variants)}"
            raise UserError(place, f"compared_with {unknown[0]!r}", expected)

    @property
    def baseline(self) -> str:
        """Variant with which the others are compared, unless a study has only others that are unsmoothed."""
        return next(iter(self.variants))

    @property
    def default_loss(self) -> str | None:
        """Loss of the baseline; None if the trainable has one loss."""
        return self.variants[self.baseline].loss

    def describe_variants(self) -> str:
        """Return the names of the variants, those of further losses in short."""
        first = self.default_loss
        names = ", ".join(name for name, row in self.variants.items() if row.loss == first)
        others = [name for name, row in self.variants.items() if row.distribution == "none" and row.loss != first]
        if not others:
            return names
        smoothed = next(name for name, row in self.variants.items() if row.loss not in (first, None))
        example = next(name for name in self.variants if name.startswith(f"{smoothed}-"))
        smoothings = [name for name, row in self.variants.items() if row.loss == first and row.distribution != "none"]
        absent = [
            f"{label}-{name}" for label in others for name in smoothings if f"{label}-{name}" not in self.variants
        ]
        less = f" (there is no {', '.join(absent)})" if absent else ""
        return f"{names}, or one of the losses {', '.join(others)} alone or before it, as in {example}{less}"

    def describe_unknown(self, name: str) -> str:
        """Return what to write instead of a name that no variant has; empty if there is nothing similar."""
        loss, _, smoothing = name.partition("-")
        row = self.variants.get(loss)
        is_loss = row is not None and row.distribution == "none" and row.loss != self.default_loss
        if is_loss and smoothing in self.variants:
            return f"none with {smoothing} of the loss {loss}, which cannot have it"
        known = {variant.lower(): variant for variant in self.variants}
        similar = get_close_matches(name.replace("_", "-").lower(), known, n=1)
        return f"another name than {name}, such as {known[similar[0]]}" if similar else ""

    def describe_baselines(self) -> str:
        """Return which variants a study must have."""
        has_losses = len({row.loss for row in self.variants.values()}) > 1
        own = ", or for another loss its unsmoothed form" if has_losses else ""
        return f"the baseline {self.baseline}{own}"

    def find_baseline(self, variant: str) -> str:
        """Return the unsmoothed form of a variant: the variant with the same loss and without a distribution."""
        loss = self.variants[variant].loss
        return next(name for name, row in self.variants.items() if (row.distribution, row.loss) == ("none", loss))

    @property
    def comparisons(self) -> tuple[tuple[str, str], ...]:
        """Pairs of variants that are compared with each other, if a study has both."""
        return tuple((name, other) for name, row in self.variants.items() for other in row.compared_with)

    @property
    def strength_name(self) -> str:
        """Name of the hyperparameter that a schedule changes."""
        return next(iter(self.defaults))

    @property
    def hyperparameter_names(self) -> tuple[str, ...]:
        """Names of all hyperparameters, the strength first."""
        search = self.sections.search
        curriculum = PARAM_NAMES if self.has_curricula else ()
        smoothing = (name for name in search.smoothing_params if name != self.strength_name)
        settings = ("schedule", *SETTINGS, *search.optimisation_params)
        return self.strength_name, *settings, *smoothing, *curriculum, *search.loss_params

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
        row = self.variants[variant]
        loss = {"loss": row.loss} if row.loss else {}
        settings = {"distribution": row.distribution, "schedule": row.schedule, **loss, **values}
        return self.smoothing.model_validate(settings)


STUDY_TYPES: Registry[StudyType] = Registry(
    Entry(
        "cross-encoder",
        "search_spaces.ranker_search:STUDY_TYPE",
        "label smoothing of rankers",
        "Penha and Hauff (2021)",
    ),
    Entry(
        "sentence-encoder",
        "search_spaces.sentence_encoder_search:STUDY_TYPE",
        "contrastive learning smoothed with Gaussian noise",
        "Wu et al. (2021)",
    ),
    kind=StudyType,
)
"""Name of a trainable -> its study type, imported on first use. The first is the default."""
DEFAULT_STUDY_TYPE = next(iter(STUDY_TYPES))


def get_study_type(name: str) -> StudyType:
    """Return the study type of this name.

    Raises:
        ValueError: if there is none.
    """
    STUDY_TYPES.check_name(name)
    return STUDY_TYPES[name]
