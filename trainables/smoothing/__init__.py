"""Label smoothing: what a hard target is mixed with, and the schedules of the strength.

Penha and Hauff (2021), "Weakly Supervised Label Smoothing".
"""

from typing import NamedTuple

from trainables.smoothing.schedules import SCHEDULES
from trainables.utils.registry import Entry, Registry

__all__ = ["DISTRIBUTIONS", "SCHEDULES", "Distribution"]


class Distribution(NamedTuple):
    """Distribution that a hard target is mixed with, in the form that each kind of loss needs.

    Attributes:
        relevance: "module:function" of (labels, weak labels), both of shape (n,). It returns the probability of
            "relevant" that each label is mixed with, shape (n,). Losses of single pairs use it. If None, the default,
            their target stays hard.
        scores: "module:function" of the sampler's scores of shape (queries, candidates), divided by the temperature.
            It returns the scores of a ranking, in the same shape, with which the target of a query is mixed: by their
            softmax, or by the sigmoid of their differences. Losses of whole queries use it. If None, the default,
            their target stays hard.
        needs_sampler: True if it reads what the negative sampler says of a document. Default False.
        relaxes: True if it does not mix the target but gives no loss to predictions within epsilon of it. Default
            False.
    """

    relevance: str | None = None
    scores: str | None = None
    needs_sampler: bool = False
    relaxes: bool = False


DISTRIBUTIONS: Registry[Distribution] = Registry(
    Entry("none", Distribution(), "the hard target, without smoothing", "Penha and Hauff (2021), BERT"),
    Entry(
        "uniform",
        Distribution(
            "trainables.smoothing.distributions:smooth_uniformly", "trainables.smoothing.distributions:score_equally"
        ),
        "relevant and not relevant with probability 1/2 each; for a query 1/n for each candidate",
        "Szegedy et al. (2016); Penha and Hauff (2021), LS and T-LS; for a query new here",
        ("epsilon",),
    ),
    Entry(
        "weak_supervision",
        Distribution(
            "trainables.smoothing.distributions:smooth_by_weak_labels",
            "trainables.smoothing.distributions:keep_scores",
            needs_sampler=True,
        ),
        "a non-relevant document is relevant with its weak label; for a query the sampler's scores",
        "Penha and Hauff (2021), WSLS and T-WSLS; for a query new here",
        ("epsilon", "temperature"),
    ),
    Entry(
        "relaxation",
        Distribution(relaxes=True),
        "no loss for a prediction within epsilon of the hard target, else the divergence from there",
        "Lienen and Hüllermeier (2021); for rankers Sharma et al. (2025)",
        ("epsilon",),
    ),
    kind=Distribution,
)
"""Distribution name -> distribution."""
