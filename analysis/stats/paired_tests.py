"""Paired tests on per-query differences between two systems.

Every function takes d (seeds, queries): d[s, q] is the system's metric minus the baseline's, both with seed s, on
query q. There are three targets. `queries` asks about new queries for *these trained checkpoints* (the test of Penha
and Hauff 2021, Table 2). `seeds` asks about new seeds for these queries. `both` asks about new seeds and new queries,
which is what "the method is better" means. If the first is read as the last, it rejects too often, because it does not
include the variation between seeds.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from analysis.stats.estimate import Estimate, guess_deviation
from analysis.stats.two_way import two_way_anova, two_way_estimate
from trainables.utils.arrays import Floats, count_decimals, round_off


def differences(system: ArrayLike, baseline: ArrayLike) -> Floats:
    """Return (seeds, queries) paired differences.

    A side with one row only, such as BM25, is repeated for every seed.

    Args:
        system: (seeds, queries) or (1, queries) metric of the system.
        baseline: (seeds, queries) or (1, queries) metric of the baseline.

    Returns:
        The differences. If they are the same for every seed and not all zero, one row: copies tell nothing about seeds.

    Raises:
        ValueError: if the numbers of queries differ, or the numbers of seeds differ and none is one.

    Example:
        >>> differences([[0.5, 1.0], [0.5, 0.75]], [[0.5, 0.5]]).tolist()
        [[0.0, 0.5], [0.0, 0.25]]
    """
    first, second = np.atleast_2d(np.asarray(system, float)), np.atleast_2d(np.asarray(baseline, float))
    if first.shape[1] != second.shape[1] or (first.shape[0] != second.shape[0] and 1 not in (len(first), len(second))):
        raise ValueError(f"system {first.shape} and baseline {second.shape} are not paired")
    rounded: Floats = np.round(first - second, count_decimals(first, second))
    are_copies = rounded.shape[1] > 1 and rounded.any() and not np.ptp(rounded, axis=0).any()
    return rounded[:1] if are_copies else rounded


def vary_over_seeds(*systems: ArrayLike | None) -> bool:
    """Return whether the scores of every system differ between seeds: it is no single row, nor copies of one.

    Args:
        systems: (seeds, queries) metric of each system. None counts as not varying.

    Example:
        >>> vary_over_seeds([[0.5, 1.0], [0.5, 0.75]]), vary_over_seeds([[0.5, 1.0], [0.5, 0.75]], [[0.5, 0.5]])
        (True, False)
    """
    rows = [None if scores is None else np.atleast_2d(np.asarray(scores, float)) for scores in systems]
    return all(scores is not None and np.ptp(round_off(scores), axis=0).any() for scores in rows)


def differences_or_none(system: ArrayLike | None, baseline: ArrayLike | None) -> Floats | None:
    """Return `differences`, (seeds, queries), or None if a side is None."""
    return None if system is None or baseline is None else differences(system, baseline)


def estimate_all(d: ArrayLike) -> dict[str, Estimate | None]:
    """Return the estimates of the three tests by target.

    With one seed, those over seeds are None; with one query, those over queries are None.

    Args:
        d: (seeds, queries) differences.

    Example:
        >>> estimates = estimate_all([[0.2, 0.1, 0.3, 0.2], [0.1, 0.2, 0.2, 0.3]])
        >>> round(estimates["queries"].test().p, 4), round(estimates["both"].test().p, 4)
        (0.0062, 0.0092)
    """
    values = _as_differences(d)
    seeds, queries = values.shape
    return {
        "queries": estimate_over_queries(values) if queries > 1 else None,
        "seeds": estimate_over_seeds(values) if seeds > 1 else None,
        "both": estimate_over_both(values) if seeds > 1 and queries > 1 else None,
    }


def estimate_interval(values: ArrayLike, confidence: float = 0.95) -> tuple[float, float] | None:
    """Return the interval of the mean of a system, for new queries if there are several, and new seeds likewise.

    Args:
        values: (seeds, queries) scores.
        confidence: confidence of the interval.

    Returns:
        None of a single score.

    Example:
        >>> [round(bound, 3) for bound in estimate_interval([[0.5, 0.5, 1.0, 0.0]])]
        [-0.15, 1.15]
    """
    estimates = estimate_all(values)
    known = estimates["both"] or estimates["queries"] or estimates["seeds"]
    return known.confidence_interval(confidence) if known else None


def estimate_over_queries(d: ArrayLike) -> Estimate:
    """Estimate for new queries: paired Student's t of the seed-averaged values, df = queries - 1.

    Example:
        >>> round(estimate_over_queries([[0.2, 0.1, 0.3, 0.2]]).test().p, 4)
        0.0163
    """
    return _student_estimate(_as_differences(d).mean(axis=0))


def estimate_over_seeds(d: ArrayLike) -> Estimate:
    """Estimate for new seeds: paired Student's t of the query-averaged values, df = seeds - 1."""
    return _student_estimate(_as_differences(d).mean(axis=1))


def estimate_over_both(d: ArrayLike) -> Estimate:
    """Estimate for new seeds and new queries: two-way random effects, see `analysis.stats.two_way`."""
    return two_way_estimate(two_way_anova(_as_differences(d)))


def estimate_each_seed(d: ArrayLike) -> list[Estimate]:
    """Estimate by a paired t-test over queries for every seed alone, as in Penha and Hauff (2020)."""
    return [_student_estimate(row) for row in _as_differences(d)]


def _as_differences(d: ArrayLike) -> Floats:
    values = np.asarray(d, dtype=np.float64)
    if values.ndim != 2 or 0 in values.shape or not np.isfinite(values).all():
        raise ValueError(f"expected finite differences (seeds, queries) but got shape {values.shape}")
    return values


def _student_estimate(values: Floats) -> Estimate:
    rounded = round_off(values)
    mean = float(rounded.mean())
    deviation = guess_deviation(mean) if np.ptp(rounded) == 0 else float(rounded.std(ddof=1))
    return Estimate(mean, deviation / math.sqrt(len(rounded)), len(rounded) - 1)
