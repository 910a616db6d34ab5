"""Study type of sentence encoders: contrastive learning smoothed with Gaussian noise (Wu et al. 2021)."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Protocol

from pydantic import AfterValidator, Field

from search_spaces.registry import ConfigError, ConfigSections, StudyType
from search_spaces.search_settings import (
    AnalysisSettings,
    Metric,
    PositiveNumbers,
    SearchSettings,
    check_increasing,
    check_not_empty,
    expect,
    suggest_metric,
)
from trainables.smoothing.schedules import Variant
from trainables.specs.sentence_encoder import (
    EncoderModelSettings,
    EncoderRunSpec,
    EncoderTaskSettings,
    EncoderTrainingSettings,
    NoiseSmoothing,
)
from trainables.utils.base_settings import PositiveNumber

DEFAULT_METRIC = "STS"
_DEV_METRICS = (DEFAULT_METRIC, "STS/STS-B")
"""Metrics that the development set supports; it is that of STS-B."""
_EXPECTED_METRIC = f"{' or '.join(_DEV_METRICS)}: the development set is that of STS-B"


class EncoderSearchSettings(SearchSettings):
    """Search settings of sentence encoders."""

    smoothing_params: ClassVar[tuple[str, ...]] = ("weight", "multiple", "mean", "deviation")
    optimisation_params: ClassVar[tuple[str, ...]] = ("learning_rate", "batch_size", "temperature")

    weight: PositiveNumbers = (1.0,)
    """Lambda, the weight of the noise relative to the batch's own negatives."""
    multiple: PositiveNumbers = (3.0,)
    """M, the number of noise vectors as a multiple of the batch size."""
    mean: Annotated[
        tuple[Annotated[float, Field(allow_inf_nan=False)], ...],
        AfterValidator(check_increasing),
        AfterValidator(check_not_empty),
        expect("a list of increasing numbers, e.g. [0.0, 0.5]"),
    ] = (0.0,)
    """Mu, the mean of the noise."""
    deviation: PositiveNumbers = (1.0,)
    """Sigma, the standard deviation of the noise. If mu is 0, cosines do not depend on it."""
    temperature: Annotated[
        tuple[PositiveNumber, ...],
        AfterValidator(check_increasing),
        expect("a list of increasing numbers above 0, e.g. [0.05, 0.1]"),
    ] = ()
    """Tau, searched for every system, the baseline included. If empty, training.temperature applies."""


class EncoderAnalysisSettings(AnalysisSettings):
    """Settings of the analysis of sentence encoders: the mean over the sets, and each set."""

    metric: Annotated[Metric, expect(_EXPECTED_METRIC, suggest_metric)] = DEFAULT_METRIC
    """STS: Spearman's correlation of cosine and gold similarity times 100, averaged over the sets."""
    margin: PositiveNumber | None = None
    """Smallest difference that matters, in units of the metric, which is at most 100.

    If None, there is no equivalence test."""


class EncoderStudySettings(Protocol):
    """The settings of a study that this module reads."""

    @property
    def task(self) -> EncoderTaskSettings:
        """Settings of the task."""

    @property
    def search(self) -> EncoderSearchSettings:
        """Settings of the search."""

    @property
    def training(self) -> EncoderTrainingSettings:
        """Settings of the training."""

    @property
    def analysis(self) -> EncoderAnalysisSettings:
        """Settings of the analysis."""


def _list_metrics(study: EncoderStudySettings) -> tuple[str, ...]:
    """Return a metric for each set of the test split, or none if there is one set, which equals the mean."""
    return tuple(f"{DEFAULT_METRIC}/{name}" for name in study.task.sets if len(study.task.sets) > 1)


def _check_training(training: EncoderTrainingSettings, task: Any) -> Iterator[ConfigError]:
    if training.checkpoint not in ("last", *_DEV_METRICS):
        yield "training.checkpoint", training.checkpoint, f"last, {_EXPECTED_METRIC}", ()


def _check_study(study: EncoderStudySettings) -> Iterator[ConfigError]:
    search = study.search
    if 0 in search.mean and len(search.deviation) > 1:
        expected = "one value where search.mean has 0: the cosine with noise around 0 does not depend on its sigma"
        yield "search.deviation", list(search.deviation), expected, ("search.mean",)
    if study.analysis.metric not in _DEV_METRICS:
        yield "analysis.metric", study.analysis.metric, _EXPECTED_METRIC, ()
    elif study.analysis.metric == _DEV_METRICS[1] and "STS-B" not in study.task.sets:
        expected = f"{DEFAULT_METRIC}, or STS-B among task.sets, the sets of the test split"
        yield "analysis.metric", study.analysis.metric, expected, ("task.sets",)
    for size in search.batch_size or (study.training.batch_size,):
        smallest = min(search.multiple)
        if round(smallest * size) < 1:
            expected = f"at least {0.5 / size:g}, so that a batch of {size} gets at least one noise vector"
            yield "search.multiple", list(search.multiple), expected, ("training.batch_size", "search.batch_size")


STUDY_TYPE = StudyType(
    specification=EncoderRunSpec,
    smoothing=NoiseSmoothing,
    sections=ConfigSections(
        EncoderTaskSettings,
        EncoderModelSettings,
        EncoderTrainingSettings,
        EncoderSearchSettings,
        EncoderAnalysisSettings,
    ),
    variants={
        "SimCSE": Variant("none", "constant"),
        "GS-InfoNCE": Variant("gaussian", "constant"),
        "T-GS-InfoNCE": Variant("gaussian", "two_stage", n_configurations=3),
    },
    defaults={"weight": 1.0, "multiple": 3.0, "mean": 0.0, "deviation": 1.0},
    reference_rankings={},
    list_metrics=_list_metrics,
    unit="sentence pair",
    check_training=_check_training,
    check_study=_check_study,
)
