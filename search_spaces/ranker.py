"""Study type of rankers: label smoothing of a cross-encoder."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Protocol

from pydantic import AfterValidator, BeforeValidator

from search_spaces.registry import ConfigError, ConfigSections, StudyType
from search_spaces.search_settings import (
    AnalysisSettings,
    PositiveNumbers,
    SearchSettings,
    Shares,
    check_distinct,
    check_increasing,
    expect,
)
from trainables.losses import DEFAULT_LOSS, DEFAULT_TEMPERATURE, LOSSES, TEMPERATURES
from trainables.losses.variants import BASELINE, RANKER_VARIANTS, can_smooth
from trainables.smoothing import DISTRIBUTIONS
from trainables.specs.ranker import LabelSmoothing, RankerModelSettings, RankerRunSpec, RankerTrainingSettings
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.utils.base_settings import PositiveInt
from trainables.utils.registry import PLUGINS_HINT

_SIMILARITY_PREFIX = "STS"
"""Prefix of the metrics of sentence pairs."""


def _check_several(values: tuple[str, ...]) -> tuple[str, ...]:
    """Return `values` if they are none, or at least two and distinct; raise ValueError otherwise."""
    if values and len(check_distinct(values)) < 2:
        raise ValueError
    return values


class RankerSearchSettings(SearchSettings):
    """Search settings of rankers."""

    smoothing_params: ClassVar[tuple[str, ...]] = ("epsilon",)
    loss_params: ClassVar[tuple[str, ...]] = ("loss", *TEMPERATURES)
    optimisation_params: ClassVar[tuple[str, ...]] = ("learning_rate", "batch_size", "negatives")

    epsilon: Shares = (0.1, 0.2, 0.3, 0.4)
    """Strengths of the smoothing."""
    loss: Annotated[
        tuple[Annotated[str, BeforeValidator(LOSSES.check_name)], ...],
        AfterValidator(_check_several),
        expect(
            "a list of at least two distinct names out of ",
            lambda _: f"{LOSSES.format_names()}; for one loss, change variants{PLUGINS_HINT}",
        ),
    ] = ()
    """Losses, searched for every system, the baseline included. If empty, the names of the variants say the loss.

    With compare = "loss" each variant is one system for each loss, such as LCE-T-WSLS, compared with its unsmoothed
    form, here LCE."""
    teacher_temperature: PositiveNumbers = (DEFAULT_TEMPERATURE,)
    """Divisors of the scores that margin_mse and kl learn."""
    weak_temperature: PositiveNumbers = (DEFAULT_TEMPERATURE,)
    """Divisors of the sampler's scores by which WSLS and T-WSLS smooth the losses of whole queries."""
    negatives: Annotated[
        tuple[PositiveInt, ...],
        AfterValidator(check_increasing),
        expect("a list of increasing whole numbers, e.g. [1, 3]"),
    ] = ()
    """Negatives per query, searched for every system, the baseline included.

    If empty, training.negatives applies."""


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
    if training.negatives > task.n_train_negatives:
        yield "training.negatives", training.negatives, *_describe_most_negatives(task)
    if training.checkpoint != "last" and not _is_usable_metric(training.checkpoint, task):
        expected = f"last, or {_describe_usable_metrics(task)}"
        yield "training.checkpoint", training.checkpoint, expected, ("task.candidates",)


def _describe_most_negatives(task: RankerTaskSettings) -> tuple[str, tuple[str, ...]]:
    key = task.get_number_key("train")
    number = key if task.train_negatives else f"{key} - 1"
    return f"at most {number} = {task.n_train_negatives}", (key,)


def _check_study(study: RankerStudySettings) -> Iterator[ConfigError]:
    task, search = study.task, study.search
    yield from _check_losses(study)
    for key in ("sampler", "evaluation_sampler") if task.listed_candidates else ():
        if (name := getattr(task, key).name) != "given":
            expected = "none, since task.listed_candidates takes the candidates that the source lists"
            yield f"task.{key}.name", name, expected, ("task.listed_candidates",)
    if study.curriculum.variants:
        yield from _check_curriculum_training(study.training)
    yield from _check_probability_metrics(study)
    yield from _check_first_stage(task)
    expected_metric = _describe_usable_metrics(task)
    for negatives in search.negatives or (study.training.negatives,):
        if search.negatives and negatives > task.n_train_negatives:
            yield "search.negatives", negatives, *_describe_most_negatives(task)
        for size in search.batch_size or ((study.training.batch_size,) if search.negatives else ()):
            if study.training.unit == "query" and size % (1 + negatives):
                expected = f"multiples of 1 + negatives; {size} is not a multiple of {1 + negatives}"
                yield "search.batch_size", list(search.batch_size), expected, ("search.negatives", "training.unit")
    if not _is_usable_metric(study.analysis.metric, task):
        yield "analysis.metric", study.analysis.metric, expected_metric, ("task.candidates",)


def list_objectives(study: RankerStudySettings) -> list[tuple[str, str, str]]:
    """Return every loss that a study may train with: name of the variant, loss and distribution.

    Example:
        >>> from study.config.loader import load_study
        >>> list_objectives(load_study("quick", ['variants=["BERT", "LCE", "LCE-LS"]']))[-1]
        ('LCE-LS', 'lce', 'uniform')
    """
    return [
        (name, loss, RANKER_VARIANTS[name].distribution)
        for name in study.variants
        for loss in study.search.loss or (RANKER_VARIANTS[name].loss or DEFAULT_LOSS,)
    ]


def _check_losses(study: RankerStudySettings) -> Iterator[ConfigError]:
    """Yield errors of losses that a variant cannot have, or that need other data or other batches."""
    task, objectives = study.task, list_objectives(study)
    named = [name for name in study.variants if RANKER_VARIANTS[name].loss != DEFAULT_LOSS]
    if study.search.loss and named:
        expected = f"none, because {named[0]} in variants has a loss of its own"
        yield "search.loss", list(study.search.loss), expected, ("variants",)
    refused = [(name, loss) for name, loss, distribution in objectives if not can_smooth(loss, distribution)]
    for name, loss in refused[:1]:
        expected = f"losses that all variants can have; {loss} has no {name}"
        yield "search.loss", list(study.search.loss), expected, ("variants",)
    per_query = [f"{name} with the loss {loss}" for name, loss, _ in objectives if LOSSES[loss].is_per_query]
    if per_query and study.training.unit == "pair":
        expected = f'"query" for {per_query[0]}, which needs all candidates of a query in one batch'
        yield "training.unit", "pair", expected, ("variants",)
    asking = [
        (name, LOSSES[loss].is_per_query)
        for name, loss, distribution in objectives
        if DISTRIBUTIONS[distribution].needs_sampler or (LOSSES[loss].is_distillation and not task.teacher)
    ]
    if task.teacher and not any(LOSSES[loss].is_distillation for _, loss, _ in objectives):
        yield "task.teacher", task.teacher, "none, because no variant has a loss that learns scores", ("variants",)
    whole = [name for name, is_whole in asking if is_whole]
    if whole and task.sampler.weak_label == "uniform":
        expected = f'"score" or "bm25" for {whole[0]}, which reads the scores of all candidates'
        yield "task.sampler.weak_label", "uniform", expected, ("variants",)
        return
    if task.sampler.name == "random" and task.sampler.weak_label != "bm25":
        for name, is_whole in asking:
            if is_whole or task.sampler.weak_label == "score":
                choices = '"bm25"' if is_whole else '"bm25" or "uniform"'
                expected = f"{choices} for {name}, since the sampler random has no scores"
                yield "task.sampler.weak_label", task.sampler.weak_label, expected, ("task.sampler.name", "variants")
                return


def _check_probability_metrics(study: RankerStudySettings) -> Iterator[ConfigError]:
    """Yield an error for each metric of probabilities if no probability follows from the scores."""
    without = [name for name, loss, _ in list_objectives(study) if not LOSSES[loss].has_probabilities]
    if study.model.ranking_score != "difference":
        expected = f'a metric of rankings while model.ranking_score = "{study.model.ranking_score}"'
    elif without:
        expected = f"a metric of rankings with {without[0]}, since no probability follows from the scores of its loss"
    else:
        return
    from trainables.metrics import get_measure  # loads numpy, which most studies do not need

    checkpoint = study.training.checkpoint
    if checkpoint != "last" and get_measure(checkpoint).needs_logits:
        yield "training.checkpoint", checkpoint, expected, ("model.ranking_score",)


def _check_curriculum_training(training: RankerTrainingSettings) -> Iterator[ConfigError]:
    if training.sampling != "uniform":
        expected = '"uniform": with curricula the baseline must sample in the same way, so that only the order differs'
        yield "training.sampling", training.sampling, expected, ("curriculum.variants",)
    if training.batching != "random":
        expected = '"random" with curricula: buckets of many batches would mix early with late queries'
        yield "training.batching", training.batching, expected, ("curriculum.variants",)


def _check_first_stage(task: RankerTaskSettings) -> Iterator[ConfigError]:
    """Yield conflicts between settings of retrieved candidates."""
    if task.retrieval_depth is None:
        if task.candidates_run:
            expected = '"retrieved", since task.candidates_run says which documents a first stage retrieved'
            yield "task.evaluation", task.evaluation, expected, ("task.candidates_run",)
        elif task.depth is not None:
            expected = 'none, or task.evaluation = "retrieved"; task.candidates is the number of sampled candidates'
            yield "task.depth", task.depth, expected, ("task.evaluation",)
    elif task.searches_collection and task.evaluation_sampler.name == "random":
        expected = 'a sampler that finds documents, such as "bm25", since task.evaluation = "retrieved"'
        yield "task.evaluation_sampler.name", "random", expected, ("task.evaluation",)


def _describe_usable_metrics(task: RankerTaskSettings) -> str:
    if task.retrieval_depth:
        metrics = f"nDCG@<k>, MRR, MRR@<k>, MAP, or R@<k> or P@<k> with k below task.depth = {task.retrieval_depth}"
        return f"{metrics}, since relevant documents may be missing from the candidates"
    return f"R{task.candidates}@<k> (n is task.candidates) with k below {task.candidates}"


def _is_usable_metric(metric: str, task: RankerTaskSettings) -> bool:
    """Return whether the metric is for rankings and distinguishes rankings of the candidates of a task."""
    if metric.partition("/")[0] == _SIMILARITY_PREFIX:
        return False
    if metric.startswith("Judged@"):  # it says how well the judgements cover a ranking
        return False
    recall = re.fullmatch(r"([RP])(\d*)@(\d+)", metric)
    if task.retrieval_depth:
        from trainables.metrics import get_measure  # loads numpy, which most studies do not need

        return get_measure(metric).allows_unretrieved and (recall is None or int(recall[3]) < task.retrieval_depth)
    if recall is None or recall[1] == "P":
        return recall is None or int(recall[3]) < task.candidates
    return recall[2] == str(task.candidates) and int(recall[3]) < task.candidates


STUDY_TYPE = StudyType(
    specification=RankerRunSpec,
    smoothing=LabelSmoothing,
    sections=ConfigSections(
        RankerTaskSettings, RankerModelSettings, RankerTrainingSettings, RankerSearchSettings, AnalysisSettings
    ),
    variants=RANKER_VARIANTS,
    default_variants=(BASELINE, "LS", "T-LS", "WSLS", "T-WSLS"),
    defaults={"epsilon": 0.2},
    reference_rankings={"BM25": "sampler"},
    check_training=_check_training,
    check_study=_check_study,
    has_curricula=True,
)
