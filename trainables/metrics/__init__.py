"""Metrics of ranked lists, of probabilities and of sentence similarity.

`get_measure` returns a metric by its name. This package needs only numpy.
"""

from trainables.metrics.calibration import (
    ReliabilityCurve,
    brier_score,
    expected_calibration_error,
    negative_log_likelihood,
    reliability_curve,
)
from trainables.metrics.correlation import spearman
from trainables.metrics.jackknife import spearman_pseudo_values
from trainables.metrics.measure import Measure, RetrievedDocuments, collect_documents
from trainables.metrics.metric_registry import LOWER_IS_BETTER, METRICS, get_measure
from trainables.metrics.protocols import RERANKING_NOTE, FirstStage, describe_retrieval
from trainables.metrics.ranking import (
    average_precision,
    judged_at,
    ndcg_at,
    precision_at,
    rank_of_first_relevant,
    recall_at,
    reciprocal_rank,
    reciprocal_rank_at,
)
from trainables.metrics.sts_correlation import PERCENT, get_set_name

__all__ = [
    "LOWER_IS_BETTER",
    "METRICS",
    "PERCENT",
    "RERANKING_NOTE",
    "FirstStage",
    "Measure",
    "ReliabilityCurve",
    "RetrievedDocuments",
    "average_precision",
    "brier_score",
    "collect_documents",
    "describe_retrieval",
    "expected_calibration_error",
    "get_measure",
    "get_set_name",
    "judged_at",
    "ndcg_at",
    "negative_log_likelihood",
    "precision_at",
    "rank_of_first_relevant",
    "recall_at",
    "reciprocal_rank",
    "reciprocal_rank_at",
    "reliability_curve",
    "spearman",
    "spearman_pseudo_values",
]
