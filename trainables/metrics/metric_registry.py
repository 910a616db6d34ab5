"""Registry of all metrics by the names that study files, run records and the analysis use."""

from collections.abc import Callable, Collection, Iterator
from functools import cache, partial
from typing import Any

from trainables.metrics.calibration import brier_score, expected_calibration_error, negative_log_likelihood
from trainables.metrics.correlation import spearman
from trainables.metrics.measure import Measure
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
from trainables.metrics.sts_correlation import STSCorrelation
from trainables.utils.arrays import Floats
from trainables.utils.registry import PLUGINS_HINT, Entry, Registry


def _make_recall(n: str, k: str) -> Measure:
    if int(k) > int(n):
        raise ValueError("expected k at most n, such as R10@1")
    return Measure(f"R{n}@{k}", partial(recall_at, int(k)), required_candidates=int(n))


def _at_cutoff(name: str, function: Callable[..., Floats], **further: Any) -> Callable[[str], Measure]:
    """Return a function of k, as text, that returns the metric <name>@<k>."""
    return lambda k: Measure(f"{name}@{k}", partial(function, int(k)), handles_unretrieved=True, **further)


def _make_sts(scope: str) -> Measure:
    return Measure(f"STS/{scope}", spearman, sts_correlation=STSCorrelation(scope))


METRICS: Registry[Measure] = Registry(
    Entry(
        "R<n>@<k>",
        _make_recall,
        "share of the relevant documents that are among the first k of n candidates, k at most n",
        "Penha and Hauff (2021), section 4",
        pattern=r"R([1-9]\d*)@([1-9]\d*)",
        examples=("R10@1",),
    ),
    Entry(
        "R@<k>",
        _at_cutoff("R", recall_at),
        "share of the relevant documents that are among the first k, of any number of candidates",
        "trec_eval, ir_measures R@k",
        pattern=r"R@([1-9]\d{0,5})",
        examples=("R@100",),
    ),
    Entry(
        "P@<k>",
        _at_cutoff("P", precision_at),
        "number of relevant documents among the first k, divided by k",
        "trec_eval, ir_measures P@k",
        pattern=r"P@([1-9]\d{0,5})",
        examples=("P@10",),
    ),
    Entry(
        "nDCG@<k>",
        _at_cutoff("nDCG", ndcg_at, labels="grade"),
        "normalised discounted cumulative gain of the first k",
        "Järvelin and Kekäläinen (2002)",
        pattern=r"nDCG@([1-9]\d{0,5})",
        examples=("nDCG@10",),
    ),
    Entry(
        "MAP",
        Measure("MAP", average_precision, handles_unretrieved=True),
        "mean average precision",
        "Buckley and Voorhees (2005)",
    ),
    Entry(
        "MRR",
        Measure("MRR", reciprocal_rank, handles_unretrieved=True),
        "mean reciprocal rank of the first relevant document",
        "Voorhees (1999)",
    ),
    Entry(
        "MRR@<k>",
        _at_cutoff("MRR", reciprocal_rank_at, id_order="ascending"),
        "the same, but 0 if this document is not among the first k",
        "Voorhees (1999), ir_measures RR@k",
        pattern=r"MRR@([1-9]\d{0,5})",
        examples=("MRR@10",),
    ),
    Entry(
        "position",
        Measure("position", rank_of_first_relevant, lower_is_better=True),
        "mean rank of the first relevant document; lower is better",
        "slides on WSLS with hard negatives, which report 10 minus it",
    ),
    Entry(
        "Judged@<k>",
        _at_cutoff("Judged", judged_at, labels="judged", id_order="ascending"),
        "share of the first k, or of the retrieved if they are fewer, that someone judged",
        "ir_measures Judged@k",
        pattern=r"Judged@([1-9]\d{0,5})",
        examples=("Judged@10",),
    ),
    Entry(
        "Brier",
        Measure("Brier", brier_score, lower_is_better=True, needs_logits=True),
        "mean squared difference of probability and relevance; lower is better",
        "Brier (1950)",
    ),
    Entry(
        "NLL",
        Measure("NLL", negative_log_likelihood, lower_is_better=True, needs_logits=True),
        "mean negative log-likelihood of the labels, in nats; lower is better",
        "Good (1952)",
    ),
    Entry(
        "ECE",
        Measure("ECE", expected_calibration_error, per_query=False, lower_is_better=True, needs_logits=True),
        "expected calibration error of all pairs together; lower is better",
        "Naeini, Cooper and Hauskrecht (2015)",
    ),
    Entry(
        "Spearman",
        Measure("Spearman", spearman, per_query=False),
        "rank correlation of scores and labels over all pairs together",
        "Spearman (1904)",
    ),
    Entry(
        "STS",
        Measure("STS", spearman, sts_correlation=STSCorrelation()),
        "100 x Spearman of cosine and gold similarity, mean over the sets of sentence pairs",
        "Gao et al. (2021), Wu et al. (2021)",
    ),
    Entry(
        "STS/<set>",
        _make_sts,
        "the same for one set, such as STS/STS12, or one subset, such as STS/STS12/MSRpar",
        "Gao et al. (2021), Wu et al. (2021)",
        pattern=r"STS/(\S*[^\s/])",
        examples=("STS/STS12",),
    ),
    kind=Measure,
)
"""Metrics by name."""


class _LowerIsBetter(Collection[str]):
    """Names of the metrics for which a lower value is better.

    It asks the registry each time, because metrics of other packages cannot be imported before this module is.
    """

    def __contains__(self, name: object) -> bool:
        try:
            return get_measure(str(name)).lower_is_better
        except ValueError:
            return False

    def __iter__(self) -> Iterator[str]:
        return (name for name, measure in METRICS.items() if measure.lower_is_better)

    def __len__(self) -> int:
        return sum(1 for _ in self)


LOWER_IS_BETTER: Collection[str] = _LowerIsBetter()
"""Names of the metrics for which a lower value is better."""


@cache
def get_measure(name: str) -> Measure:
    """Return the metric of this name.

    Args:
        name: a name in `METRICS`, such as "R10@1", "MAP" or "STS/STS12".

    Raises:
        ValueError: there is no metric of this name.

    Example:
        >>> import numpy as np
        >>> scores, relevant = np.array([3.0, 2.0, 1.0, 1.0, 2.0]), np.array([1, 0, 0, 1, 0])
        >>> measure, lengths = get_measure("MRR"), np.array([3, 2])
        >>> measure.compute_values(scores, relevant, lengths).tolist()
        [1.0, 0.5]
        >>> measure.compute_overall(scores, relevant, lengths)
        0.75
    """
    try:
        return METRICS[name]
    except KeyError:
        expected = f"one of {METRICS.format_names()}, with k at most n{METRICS.suggest_spelling(name) or PLUGINS_HINT}"
        raise ValueError(f"{name!r} is not a metric; expected {expected}") from None
