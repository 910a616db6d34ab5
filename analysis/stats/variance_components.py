"""Variance components of scores: queries, seeds, query x system, and the rest.

The model is y[n, s, q] = m + system[n] + query[q] + (query x system)[n, q] + seed[n, s] + e[n, s, q]. Seeds are nested
within systems, since seed 1 of one system has only the number in common with seed 1 of another.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from analysis.stats.power import DifferenceVariance
from trainables.utils.arrays import Floats


class VarianceComponents(NamedTuple):
    """Variance components of one system's scores; negative estimates are set to 0."""

    query: float
    query_by_system: float
    seed: float
    rest: float

    def to_difference_variance(self) -> DifferenceVariance:
        """Return the variances of the paired difference of two systems.

        The variance between queries cancels out, the others count twice.
        """
        return DifferenceVariance(2 * self.seed, 2 * self.query_by_system, 2 * self.rest)


def estimate_variance_components(values: Sequence[Floats]) -> VarianceComponents | None:
    """Estimate the components from the mean squares of a balanced analysis of variance.

    Args:
        values: scores (seeds, queries) of each system, all of one shape.

    Returns:
        None with fewer than two systems, seeds or queries.
    """
    if len(values) < 2 or min(values[0].shape) < 2:
        return None
    systems, (seeds, queries) = len(values), values[0].shape
    by_query = np.stack([scores.mean(axis=0) for scores in values])  # (systems, queries)
    of_system, of_query = by_query.mean(axis=1), by_query.mean(axis=0)
    interaction = by_query - of_system[:, None] - of_query + of_system.mean()
    by_seed, rest = 0.0, 0.0
    for scores, mean, row in zip(values, of_system, by_query, strict=True):
        of_seed = scores.mean(axis=1)
        by_seed += float(((of_seed - mean) ** 2).sum())
        residual = scores - of_seed[:, None] - (row - mean)
        rest += float(np.vdot(residual, residual))
    ms_query = systems * seeds * float(of_query.var(ddof=1))
    ms_interaction = seeds * float((interaction**2).sum()) / ((systems - 1) * (queries - 1))
    ms_seed = queries * by_seed / (systems * (seeds - 1))
    ms_rest = rest / (systems * (seeds - 1) * (queries - 1))
    return VarianceComponents(
        max((ms_query - ms_interaction) / (systems * seeds), 0.0),
        max((ms_interaction - ms_rest) / seeds, 0.0),
        max((ms_seed - ms_rest) / queries, 0.0),
        ms_rest,
    )


def describe_deviations(components: VarianceComponents) -> str:
    """Return the square roots of the components in words."""
    named = zip(("queries", "query x system", "seeds", "rest"), components, strict=True)
    return "standard deviations: " + ", ".join(f"{name} {value**0.5:.4f}" for name, value in named)
