"""The study type: the sections of a study file, the variants, and what may vary."""

from collections.abc import Iterator
from typing import Any, ClassVar

from dense_retriever import specification
from dense_retriever.collection_task import CollectionTask
from search_spaces.search_settings import AnalysisSettings, Metric, SearchSettings, Shares
from search_spaces.study_type import STUDY_TYPES, ConfigError, ConfigSections, StudyType
from trainables.smoothing.schedules import Variant


class RetrieverSearch(SearchSettings):
    """Search settings: one value or more for each hyperparameter."""

    smoothing_params: ClassVar[tuple[str, ...]] = ("epsilon",)

    epsilon: Shares = (0.05, 0.1, 0.2)
    """Strengths of the smoothing."""


class RetrieverAnalysis(AnalysisSettings):
    """Settings of the analysis."""

    metric: Metric = "nDCG@10"


def check_study(study: Any) -> Iterator[ConfigError]:
    """Yield metrics that are not for retrieval."""
    from trainables.metrics import get_measure  # imported here, since it loads numpy

    for key, metric in ("analysis.metric", study.analysis.metric), ("training.checkpoint", study.training.checkpoint):
        if metric != "last" and not get_measure(metric).allows_unretrieved:
            yield key, metric, "a metric of retrieval, such as nDCG@10, MRR@10, MAP or R@100", ()


STUDY_TYPE = StudyType(
    specification=specification.RetrieverRunSpec,
    smoothing=specification.InBatchSmoothing,
    sections=ConfigSections(
        CollectionTask,
        specification.RetrieverModel,
        specification.RetrieverTraining,
        RetrieverSearch,
        RetrieverAnalysis,
    ),
    variants={
        "MNRL": Variant("none", "constant", n_configurations=1),  # the first one is the baseline
        "LS": Variant("uniform", "constant"),
        "T-LS": Variant("uniform", "two_stage"),
    },
    defaults={"epsilon": 0.1},  # the strength
    reference_rankings={"BM25": "sampler"},
    list_metrics=lambda study: tuple({f"R@{study.task.depth}"} - {study.analysis.metric}),
    check_study=check_study,
)
STUDY_TYPES.register("dense-retriever", "dense retrieval, in-batch negatives", "Karpukhin et al. (2020)")(STUDY_TYPE)
