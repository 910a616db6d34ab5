"""Where scores vary: between queries, between seeds, in what a query means for a system, and in the rest.

The model is y[n, s, q] = m + system[n] + query[q] + (query x system)[n, q] + seed[n, s] + e[n, s, q]: seeds lie within
systems, since seed 1 of one has nothing in common with seed 1 of another but its name.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from analysis.stats.power import DifferenceVariance
from trainables.utils.arrays import Floats


class VarianceComponents(NamedTuple):
    """Variances of the parts of one system's scores; what comes out negative is 0."""

    query: float
    query_by_system: float
    seed: float
    rest: float

    def to_difference_variance(self) -> DifferenceVariance:
        """Of the paired difference of two systems: the queries' own part cancels, the others count twice."""
        return DifferenceVariance(2 * self.seed, 2 * self.query_by_system, 2 * self.rest)


def estimate_variance_components(values: Sequence[Floats]) -> VarianceComponents | None:
    """Estimates the parts from the mean squares of a balanced analysis of variance.

    Args:
        values: of each system its scores (seeds, queries), all of one shape.

    Returns:
        None with fewer than two systems, seeds or queries.
    """
    if len(values) < 2 or min(values[0].shape) < 2:
        return None
    systems, (seeds, queries) = len(values), values[0].shape
    by_query = np.stack([own.mean(axis=0) for own in values])  # (systems, queries)
    of_system, of_query = by_query.mean(axis=1), by_query.mean(axis=0)
    interaction = by_query - of_system[:, None] - of_query + of_system.mean()
    by_seed, rest = 0.0, 0.0
    for own, mean, row in zip(values, of_system, by_query, strict=True):
        of_seed = own.mean(axis=1)
        by_seed += float(((of_seed - mean) ** 2).sum())
        residual = own - of_seed[:, None] - (row - mean)
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


def describe_deviations(parts: VarianceComponents) -> str:
    """The parts in words."""
    named = zip(("queries", "query x system", "seeds", "rest"), parts, strict=True)
    return "standard deviations: " + ", ".join(f"{name} {value**0.5:.4f}" for name, value in named)
