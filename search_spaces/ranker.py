"""Study type of rankers: label smoothing of a cross-encoder."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Protocol

from pydantic import AfterValidator, Field

from search_spaces.curriculum import parse_pacing
from search_spaces.registry import ConfigError, ConfigSections, StudyType
from search_spaces.settings import (
    AnalysisSettings,
    BaseHyperparameters,
    SearchSettings,
    Shares,
    check_increasing,
    expect,
)
from trainables.curriculum.scores import DifficultyScoreName
from trainables.smoothing.schedules import VARIANTS
from trainables.specs.ranker import (
    LabelSmoothing,
    RankerModelSettings,
    RankerRunSpec,
    RankerTaskSettings,
    RankerTrainingSettings,
)
from trainables.utils.settings import PositiveInt

_SIMILARITY_PREFIX = "STS"
"""Prefix of the metrics of sentence pairs."""


class RankerSearchSettings(SearchSettings):
    """Search settings of rankers."""

    smoothing_params: ClassVar[tuple[str, ...]] = ("epsilon",)
    optimisation_params: ClassVar[tuple[str, ...]] = ("learning_rate", "batch_size", "negatives")

    epsilon: Shares = (0.1, 0.2, 0.3, 0.4)
    """Strengths of the smoothing."""
    negatives: Annotated[
        tuple[PositiveInt, ...],
        AfterValidator(check_increasing),
        expect("a list of increasing whole numbers, e.g. [1, 3]"),
    ] = ()
    """Negatives per query, searched for every system, the baseline included.

    If empty, training.negatives applies."""


class RankerHyperparameters(BaseHyperparameters):
    """The hyperparameters of a ranker."""

    epsilon: Annotated[float, Field(gt=0, le=1)] | None = None
    negatives: PositiveInt | None = None
    pacing: Annotated[str, AfterValidator(parse_pacing)] | None = None
    score: DifficultyScoreName | None = None
    delta: Annotated[float, Field(gt=0, lt=1)] | None = None
    duration: Annotated[float, Field(gt=0, le=1)] | None = None


class RankerStudySettings(Protocol):
    """The settings of a study that this module reads."""

    @property
    def variants(self) -> tuple[str, ...]:
        """Variants of the study."""

    @property
    def task(self) -> RankerTaskSettings:
        """Settings of the task."""

    @property
    def model(self) -> RankerModelSettings:
        """Settings of the model."""

    @property
    def training(self) -> RankerTrainingSettings:
        """Settings of the training."""

    @property
    def search(self) -> RankerSearchSettings:
        """Settings of the search."""

    @property
    def analysis(self) -> AnalysisSettings:
        """Settings of the analysis."""

    @property
    def curriculum(self) -> Any:
        """Settings of the curricula."""


def _check_training(training: RankerTrainingSettings, task: RankerTaskSettings) -> Iterator[ConfigError]:
    group = 1 + training.negatives
    if training.unit == "query" and training.batch_size % group:
        valid = max(1, (training.batch_size + group // 2) // group) * group
        expected = f'a multiple of 1 + training.negatives = {group}; {valid} works, as does training.unit = "pair"'
        yield "training.batch_size", training.batch_size, expected, ("training.negatives", "training.unit")
    if training.negatives >= task.get_candidates_per_query("train"):
        key = "task.train_candidates" if task.train_candidates else "task.candidates"
        expected = f"fewer than {key} = {task.get_candidates_per_query('train')}"
        yield "training.negatives", training.negatives, expected, (key,)
    if training.checkpoint != "last" and not _is_usable_metric(training.checkpoint, task.candidates):
        expected = f"last, or R{task.candidates}@<k> (n is task.candidates) with k below {task.candidates}"
        yield "training.checkpoint", training.checkpoint, expected, ("task.candidates",)


def _check_study(study: RankerStudySettings) -> Iterator[ConfigError]:
    task, search = study.task, study.search
    weak = [name for name in study.variants if VARIANTS[name].distribution == "weak_supervision"]
    if weak and task.sampler.name == "random" and task.sampler.weak_label == "score":
        expected = f'"bm25" or "uniform" for {weak[0]}, since the sampler random has no scores'
        yield "task.sampler.weak_label", "score", expected, ("task.sampler.name", "variants")
    if study.curriculum.variants:
        yield from _check_curriculum_training(study.training)
    yield from _check_probability_metrics(study)
    expected_metric = f"R{task.candidates}@<k> (n is task.candidates) with k below {task.candidates}"
    for metric in search.objectives[1:]:
        if not _is_usable_metric(metric, task.candidates):
            yield "search.objectives", metric, expected_metric, ("task.candidates",)
    for negatives in search.negatives or (study.training.negatives,):
        if search.negatives and negatives >= task.get_candidates_per_query("train"):
            expected = f"fewer than task.candidates = {task.get_candidates_per_query('train')}"
            yield "search.negatives", negatives, expected, ("task.candidates", "task.train_candidates")
        for size in search.batch_size or ((study.training.batch_size,) if search.negatives else ()):
            if study.training.unit == "query" and size % (1 + negatives):
                expected = f"multiples of 1 + negatives; {size} is not a multiple of {1 + negatives}"
                yield "search.batch_size", list(search.batch_size), expected, ("search.negatives", "training.unit")
    if not _is_usable_metric(study.analysis.metric, task.candidates):
        yield "analysis.metric", study.analysis.metric, expected_metric, ("task.candidates",)


def _check_probability_metrics(study: RankerStudySettings) -> Iterator[ConfigError]:
    """Yield an error for each metric of probabilities if no probability follows from the scores."""
    if study.model.ranking_score == "difference":
        return
    from trainables.metrics import get_measure  # loads numpy, which most studies do not need

    expected = f'a metric of rankings while model.ranking_score = "{study.model.ranking_score}"'
    checkpoint = study.training.checkpoint
    if checkpoint != "last" and get_measure(checkpoint).needs_logits:
        yield "training.checkpoint", checkpoint, expected, ("model.ranking_score",)
    for metric in study.search.objectives:
        if get_measure(metric).needs_logits:
            yield "search.objectives", metric, expected, ("model.ranking_score",)


def _check_curriculum_training(training: RankerTrainingSettings) -> Iterator[ConfigError]:
    if training.sampling != "uniform":
        expected = '"uniform": with curricula the baseline must sample in the same way, so that only the order differs'
        yield "training.sampling", training.sampling, expected, ("curriculum.variants",)
    if training.batching != "random":
        expected = '"random" with curricula: buckets of many batches would mix early with late queries'
        yield "training.batching", training.batching, expected, ("curriculum.variants",)


def _is_usable_metric(metric: str, candidates: int) -> bool:
    """Return whether the metric is for rankings and distinguishes rankings of so many candidates."""
    if metric.partition("/")[0] == _SIMILARITY_PREFIX:
        return False
    recall = re.fullmatch(r"R(\d+)@(\d+)", metric)
    return recall is None or (int(recall[1]) == candidates and int(recall[2]) < candidates)


STUDY_TYPE = StudyType(
    specification=RankerRunSpec,
    smoothing=LabelSmoothing,
    sections=ConfigSections(
        RankerTaskSettings, RankerModelSettings, RankerTrainingSettings, RankerSearchSettings, AnalysisSettings
    ),
    hyperparameter_schema=RankerHyperparameters,
    variants=VARIANTS,
    default_n_configurations={"BERT": 2, "LS": 2, "WSLS": 2, "T-LS": 3, "T-WSLS": 3},
    defaults={"epsilon": 0.2},
    reference_rankings={"BM25": "sampler"},
    comparisons=(("T-WSLS", "T-LS"),),
    check_training=_check_training,
    check_study=_check_study,
    has_curricula=True,
)
