"""Is one system better than another? Paired tests on per-query differences, and what they could have seen.

Every function takes d (seeds, queries): d[s, q] is the system's metric minus the baseline's, both with seed s, on
query q. Three targets, three questions: `queries` asks about new queries for *these trained checkpoints* (the test of
Penha and Hauff 2021, Table 2), `seeds` about new seeds for these queries, `both` about new seeds and new queries, which
is what "the method is better" means. The first rejects too often when read as the last: the seeds' own variation is not
in it.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from analysis.stats.estimate import Estimate, TestResult
from analysis.stats.two_way import two_way_anova, two_way_estimate
from trainables.utils.arrays import Floats

_DECIMALS = 12
"""Differences are rounded here, so that a difference that is zero but for rounding is zero."""


def differences(system: ArrayLike, baseline: ArrayLike) -> Floats:
    """(seeds, queries) paired differences; a side with one row only, such as BM25, is repeated for every seed.

    Args:
        system: (seeds, queries) or (1, queries) metric of the system.
        baseline: the same of the baseline.

    Raises:
        ValueError: if queries, or the numbers of seeds beyond one, differ.
    """
    first, second = np.atleast_2d(np.asarray(system, float)), np.atleast_2d(np.asarray(baseline, float))
    if first.shape[1] != second.shape[1] or (first.shape[0] != second.shape[0] and 1 not in (len(first), len(second))):
        raise ValueError(f"system {first.shape} and baseline {second.shape} are not paired")
    rounded: Floats = np.round(first - second, _DECIMALS)
    return rounded


def differences_or_none(system: ArrayLike | None, baseline: ArrayLike | None) -> Floats | None:
    """`differences`, (seeds, queries); None where a side is incomplete."""
    return None if system is None or baseline is None else differences(system, baseline)


def run_tests(d: ArrayLike, confidence: float = 0.95) -> dict[str, TestResult | None]:
    """The three tests; those that need several seeds are None with one seed, those of queries with one query."""
    return {name: found.test(confidence) if found else None for name, found in estimate_all(d).items()}


def estimate_all(d: ArrayLike) -> dict[str, Estimate | None]:
    """What the three tests are made of, None where a test cannot be made."""
    values = _as_differences(d)
    seeds, queries = values.shape
    return {
        "queries": estimate_over_queries(values) if queries > 1 else None,
        "seeds": estimate_over_seeds(values) if seeds > 1 else None,
        "both": estimate_over_both(values) if seeds > 1 and queries > 1 else None,
    }


def estimate_over_queries(d: ArrayLike) -> Estimate:
    """Paired Student's t-test over queries of the seed-averaged values; df = queries - 1."""
    return _student_estimate(_as_differences(d).mean(axis=0))


def estimate_over_seeds(d: ArrayLike) -> Estimate:
    """Paired Student's t-test over seeds of the query-averaged values; df = seeds - 1."""
    return _student_estimate(_as_differences(d).mean(axis=1))


def estimate_over_both(d: ArrayLike) -> Estimate:
    """Two-way random effects: seeds and queries are both samples; see `analysis.stats.two_way`."""
    return two_way_estimate(two_way_anova(_as_differences(d)))


def estimate_each_seed(d: ArrayLike) -> list[Estimate]:
    """The paired t-test over queries for every seed alone, as Penha and Hauff (2020) report it."""
    return [_student_estimate(row) for row in _as_differences(d)]


def effect_size(d: ArrayLike) -> float | None:
    """Mean over standard deviation of the seed-averaged per-query differences; None if they are equal but not zero."""
    per_query = np.round(_as_differences(d).mean(axis=0), _DECIMALS)
    mean, deviation = float(per_query.mean()), float(per_query.std(ddof=1)) if len(per_query) > 1 else 0.0
    if mean == 0:
        return 0.0
    return None if np.ptp(per_query) == 0 else mean / deviation


def _as_differences(d: ArrayLike) -> Floats:
    values = np.asarray(d, dtype=np.float64)
    if values.ndim != 2 or 0 in values.shape or not np.isfinite(values).all():
        raise ValueError(f"expected finite differences (seeds, queries) but got shape {values.shape}")
    return values


def _student_estimate(values: Floats) -> Estimate:
    rounded = np.round(values, _DECIMALS)
    error = 0.0 if np.ptp(rounded) == 0 else float(rounded.std(ddof=1)) / math.sqrt(len(rounded))
    return Estimate(float(rounded.mean()), error, len(rounded) - 1)
