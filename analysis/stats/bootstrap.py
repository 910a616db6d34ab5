"""Difference of two systems' rank correlations by resampling pairs and seeds (Efron 1979), ranks and all made anew.

Distinct pairs are drawn with replacement, the same for both systems, every run and every set, and so are the seeds. It
is shown beside the headline, which is the two-way test of pseudo-values (`trainables.metrics.jackknife`), and decides
nothing: with few seeds that matter it rejects too often, and where they do not matter, too rarely, since what a run
alone has of luck with a pair is then counted more than once. Measured at .05 with 200 and 1,500 pairs, 400 studies a
cell (`python -m benchmarks.correlation`), so that a level has a deviation of .011, with 2, 3, 5 and 10 seeds:

    seeds that do not vary, 200 pairs      bootstrap .020 .013 .025 .025    two-way .035 .040 .052 .055
    seeds that do not vary, 1,500 pairs              .020 .018 .030 .040            .035 .055 .058 .058
    seeds vary by a point, 200 pairs                 .043 .033 .022 .033            .045 .043 .043 .048
    seeds vary by a point, 1,500 pairs               .125 .077 .055 .030            .050 .050 .052 .043
    so do they, mean of 7 sets, 1,886 pairs          .085 .070 .035 .045            .068 .055 .040 .043
    the same, 1,765 of the pairs distinct            .083 .060 .048 .043            .068 .055 .048 .055
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainables.utils.arrays import Floats
from trainables.utils.random import make_generator

DRAWS = 10_000
_BLOCK = 2**18
"""Weights drawn at once: about as many as a processor's cache holds."""


class Bootstrap(NamedTuple):
    """Two-sided p-value, uncorrected, and percentile interval of a difference."""

    p: float
    low: float
    high: float


def resample_correlations(
    scores: Floats,
    grades: Floats,
    units: NDArray[np.intp],
    lists: Sequence[NDArray[np.intp]],
    seed: int = 0,
    draws: int = DRAWS,
) -> Floats:
    """Spearman's correlation of each run over resampled pairs, tied values sharing their mean rank; 0 without spread.

    A resample is a weight of each distinct pair; ranks are running sums of weights in the order of the scores, which
    does not change.

    Args:
        scores: (runs, pairs)
        grades: (pairs,)
        units: (pairs,) numbers of the distinct pairs, from 0 on: those of one number are drawn together.
        lists: places among the pairs of each list of which there is a correlation.
        seed: names the draws.
        draws: how many.

    Returns:
        (lists, runs, draws)
    """
    distinct = int(units.max()) + 1
    ordered = [([_Order(row) for row in scores[:, own]], _Order(grades[own])) for own in lists]
    made, width = np.empty((len(lists), len(scores), draws)), max(1, _BLOCK // distinct)
    for step, start in enumerate(range(0, draws, width)):
        size = min(width, draws - start)
        drawn = make_generator(seed, "bootstrap, pairs", step).integers(0, distinct, (size, distinct))
        often = np.stack([np.bincount(row, minlength=distinct) for row in drawn], axis=1, dtype=np.float64)
        for place, (own, (runs, gold)) in enumerate(zip(lists, ordered, strict=True)):
            made[place, :, start : start + size] = _correlations(runs, gold, often[units[own]])
    return made


def _correlations(runs: "Sequence[_Order]", gold: "_Order", weights: Floats) -> Floats:
    """(runs, draws) of weights (pairs, draws)."""
    ranks, spread = gold.ranks(weights), gold.squares(weights)
    products, untied = weights * ranks[gold.groups], _squares(weights)
    found = np.zeros((len(runs), weights.shape[1]))
    for run, order in enumerate(runs):
        both = np.sqrt(spread * (order.squares(weights) if order.tied else untied))
        np.divide(order.covariance(weights, products), both, out=found[run], where=both > 0)
    return found


def difference(system: Floats, baseline: Floats, confidence: float = 0.95, seed: int = 0) -> Bootstrap:
    """Return the bootstrap of a mean difference over pairs and seeds. With one seed, only pairs are resampled.

    Args:
        system: (seeds, draws) or (1, draws) metric of the system on each resample.
        baseline: the same of the baseline, on the same resamples.
        confidence: of the interval.
        seed: names the draws of seeds, the same for every comparison.
    """
    d = system - baseline
    seeds, draws = d.shape
    if seeds > 1:
        chosen = make_generator(seed, "bootstrap, seeds", 0).integers(0, seeds, (seeds, draws))
        d = np.take_along_axis(d, chosen, axis=0)
    means = d.mean(axis=0)
    rarer = min((means <= 0).sum(), (means >= 0).sum())
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Bootstrap(min(1.0, 2 * (float(rarer) + 1) / (draws + 1)), float(low), float(high))


class _Order:
    """The order of n values, equal ones as one group.

    Attributes:
        groups: (n,) the place of each value among the distinct ones.
        tied: whether some are equal.
    """

    def __init__(self, values: Floats) -> None:
        _, self.groups, counts = np.unique(values, return_inverse=True, return_counts=True)
        self._order = np.argsort(self.groups, kind="stable")
        self._starts, self.tied = np.cumsum(counts) - counts, len(counts) < len(values)

    def sums(self, columns: Floats) -> Floats:
        """(groups, draws) of (n, draws), lowest group first."""
        ordered = columns.take(self._order, axis=0)
        return np.add.reduceat(ordered, self._starts, axis=0) if self.tied else ordered

    def ranks(self, weights: Floats) -> Floats:
        """(groups, draws) mean ranks, less their mean."""
        sizes = self.sums(weights)
        ranks: Floats = np.cumsum(sizes, axis=0) - 0.5 * (sizes + sizes.sum(axis=0))
        return ranks

    def squares(self, weights: Floats) -> Floats:
        """(draws,) sum of squares of the ranks of what was drawn."""
        return _squares(self.sums(weights))

    def covariance(self, weights: Floats, products: Floats) -> Floats:
        """(draws,) sum of ranks times `products` (n, draws), of which each draw's sum is 0."""
        sizes, own = self.sums(weights), self.sums(products)
        twice: Floats = np.einsum("gb,gb->b", 2 * np.cumsum(sizes, axis=0) - sizes, own)
        return twice / 2


def _squares(sizes: Floats) -> Floats:
    """(draws,) sum of squares of mean ranks, of ties of these (groups, draws) sizes."""
    squares: Floats = (sizes.sum(axis=0) ** 3 - np.einsum("gb,gb->b", sizes * sizes, sizes)) / 12
    return squares
