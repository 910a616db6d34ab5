"""Study type of sentence encoders: contrastive learning smoothed with Gaussian noise (Wu et al. 2021)."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from search_spaces.search_settings import (
    AnalysisSettings,
    Metric,
    PositiveNumbers,
    SearchSettings,
    expect,
    suggest_metric,
)
from search_spaces.study_type import ConfigError, ConfigSections, StudyType
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

    smoothing_params: ClassVar[tuple[str, ...]] = ("weight", "multiple")

    weight: PositiveNumbers = (1.0,)
    """Lambda, the weight of the noise relative to the negatives of the batch."""
    multiple: PositiveNumbers = (3.0,)
    """M, the number of noise vectors as a multiple of the batch size."""


class EncoderAnalysisSettings(AnalysisSettings):
    """Settings of the analysis of sentence encoders: the mean over the sets, and each set."""

    metric: Annotated[Metric, expect(_EXPECTED_METRIC, suggest_metric)] = DEFAULT_METRIC
    """STS: Spearman's correlation of cosine and gold similarity times 100, averaged over the sets."""
    margin: PositiveNumber | None = None
    """Smallest difference that matters, in units of the metric (at most 100), for the equivalence test.

    If None, there is none."""


def _list_metrics(study: Any) -> tuple[str, ...]:
    """Return a metric for each set of the test split, or none if there is one set, which equals the mean."""
    return tuple(f"{DEFAULT_METRIC}/{name}" for name in study.task.sets if len(study.task.sets) > 1)


def _check_training(training: EncoderTrainingSettings, task: Any) -> Iterator[ConfigError]:
    if training.checkpoint not in ("last", *_DEV_METRICS):
        yield "training.checkpoint", training.checkpoint, f"last, {_EXPECTED_METRIC}", ()


def _check_study(study: Any) -> Iterator[ConfigError]:
    search = study.search
    if study.analysis.metric not in _DEV_METRICS:
        yield "analysis.metric", study.analysis.metric, _EXPECTED_METRIC, ()
    elif study.analysis.metric == _DEV_METRICS[1] and "STS-B" not in study.task.sets:
        expected = f"{DEFAULT_METRIC}, or STS-B among task.sets, the sets of the test split"
        yield "analysis.metric", study.analysis.metric, expected, ("task.sets",)
    size = study.training.batch_size
    if round(min(search.multiple) * size) < 1:
        expected = f"at least {0.5 / size:g}, so that a batch of {size} gets at least one noise vector"
        yield "search.multiple", list(search.multiple), expected, ("training.batch_size",)


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
    defaults={"weight": 1.0, "multiple": 3.0},
    reference_rankings={},
    list_metrics=_list_metrics,
    unit="sentence pair",
    check_training=_check_training,
    check_study=_check_study,
)
