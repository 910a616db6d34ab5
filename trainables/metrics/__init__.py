"""Metrics of scored candidates: of ranked lists and of probabilities, and all of them by name. Needs only numpy."""

from trainables.metrics.calibration import (
    Reliability,
    brier_score,
    expected_calibration_error,
    negative_log_likelihood,
    reliability_curve,
)
from trainables.metrics.correlation import spearman
from trainables.metrics.jackknife import spearman_pseudo_values
from trainables.metrics.ranking import (
    RERANKING,
    average_precision,
    metric,
    ndcg_at,
    position,
    recall_at,
    reciprocal_rank,
)
from trainables.metrics.registry import MINIMISED, Measure, measure
from trainables.metrics.sts import PERCENT, set_of

__all__ = [
    "MINIMISED",
    "PERCENT",
    "RERANKING",
    "Measure",
    "Reliability",
    "average_precision",
    "brier_score",
    "expected_calibration_error",
    "measure",
    "metric",
    "ndcg_at",
    "negative_log_likelihood",
    "position",
    "recall_at",
    "reciprocal_rank",
    "reliability_curve",
    "set_of",
    "spearman",
    "spearman_pseudo_values",
]
