"""Study type of rankers: label smoothing of a cross-encoder."""

import re
from collections.abc import Iterator
from typing import Any, ClassVar

from search_spaces.search_settings import AnalysisSettings, PositiveNumbers, SearchSettings, Shares
from search_spaces.study_type import ConfigError, ConfigSections, StudyType
from trainables.losses import DEFAULT_LOSS, DEFAULT_TEMPERATURE, LOSSES
from trainables.losses.variants import BASELINE, RANKER_VARIANTS
from trainables.smoothing import DISTRIBUTIONS
from trainables.specs.ranker import LabelSmoothing, RankerModelSettings, RankerRunSpec, RankerTrainingSettings
from trainables.specs.ranking_task import CollectionSettings, RankerTaskSettings

_SIMILARITY_PREFIX = "STS"
"""Prefix of the metrics of sentence pairs."""


class RankerSearchSettings(SearchSettings):
    """Search settings of rankers."""

    smoothing_params: ClassVar[tuple[str, ...]] = ("epsilon",)
    loss_params: ClassVar[tuple[str, ...]] = ("temperature",)

    epsilon: Shares = (0.1, 0.2, 0.3, 0.4)
    """Strengths of the smoothing."""
    temperature: PositiveNumbers = (DEFAULT_TEMPERATURE,)
    """Divisors of scores: those that margin_mse and kl learn, and those of the sampler in WSLS losses of whole queries.
    """


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


def _check_study(study: Any) -> Iterator[ConfigError]:
    task, layers = study.task, study.model.num_layers
    yield from _check_losses(study)
    if study.model.has_saved_head and layers is not None:
        expected = 'none while model.pooling = "saved", since the saved head reads the last layer'
        yield "model.num_layers", layers, expected, ("model.pooling",)
    if study.curriculum.variants and study.training.sampling != "uniform":
        expected = '"uniform": with curricula the baseline must sample in the same way, so that only the order differs'
        yield "training.sampling", study.training.sampling, expected, ("curriculum.variants",)
    yield from _check_probability_metrics(study)
    if task.sampler.margin is not None and task.sampler.name not in ("bm25", "dense"):
        expected = f"none, since the sampler {task.sampler.name} has no scores of relevant documents"
        yield "task.sampler.margin", task.sampler.margin, expected, ("task.sampler.name",)
    if task.searches_collection and task.evaluation_sampler.name == "random":
        expected = 'a sampler that finds documents, such as "bm25", since task.depth is set'
        yield "task.evaluation_sampler.name", "random", expected, ("task.depth",)
    if not _is_usable_metric(study.analysis.metric, task):
        yield "analysis.metric", study.analysis.metric, _describe_usable_metrics(task), ("task.candidates",)
    for each in study.evaluate:
        if not _is_usable_metric(each.metric, each.task):
            yield "evaluate.metric", each.metric, f"{_describe_usable_metrics(each.task)} ({each.label})", ("evaluate",)


def list_objectives(study: Any) -> list[tuple[str, str, str]]:
    """Return every loss that a study may train with: name of the variant, loss and distribution.

    Example:
        >>> from study.config.loader import load_study
        >>> list_objectives(load_study("quick", ['variants=["BERT", "LCE", "LCE-LS"]']))[-1]
        ('LCE-LS', 'lce', 'uniform')
    """
    variants = [(name, RANKER_VARIANTS[name]) for name in study.variants]
    return [(name, row.loss or DEFAULT_LOSS, row.distribution) for name, row in variants]


def _check_losses(study: Any) -> Iterator[ConfigError]:
    """Yield errors of losses that need other data or other batches."""
    task, objectives = study.task, list_objectives(study)
    per_query = [name for name, loss, _ in objectives if LOSSES[loss].is_per_query]
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


def _check_probability_metrics(study: Any) -> Iterator[ConfigError]:
    """Yield an error for each metric of probabilities if no probability follows from the scores."""
    checkpoint = study.training.checkpoint
    without = [name for name, loss, _ in list_objectives(study) if not LOSSES[loss].has_probabilities]
    if checkpoint == "last":
        return
    if study.model.ranking_score != "difference":
        expected = f'a metric of rankings while model.ranking_score = "{study.model.ranking_score}"'
    elif without:
        expected = f"a metric of rankings with {without[0]}, since no probability follows from the scores of its loss"
    else:
        return
    from trainables.metrics import get_measure  # loads numpy, which most studies do not need

    if get_measure(checkpoint).needs_logits:
        yield "training.checkpoint", checkpoint, expected, ("model.ranking_score",)


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


def _name_starting_ranking(model: RankerModelSettings) -> tuple[str, str]:
    return ("before", "cross-encoder") if model.has_saved_head else ("cosine", "cosine")


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
    name_starting_ranking=_name_starting_ranking,
    check_training=_check_training,
    check_study=_check_study,
    has_curricula=True,
    collection=CollectionSettings,
)
