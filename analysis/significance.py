"""Is one system better than another? Paired tests on per-query differences, and what they could have seen.

Every function takes d (seeds, queries): d[s, q] is the system's metric minus the baseline's, both with seed s, on
query q. Three targets, three questions: `queries` asks about new queries for *these trained checkpoints* (the test of
Penha and Hauff 2021, Table 2), `seeds` about new seeds for these queries, `both` about new seeds and new queries, which
is what "the method is better" means. The first rejects too often when read as the last: the seeds' own variation is not
in it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
CORRECTIONS = {"bonferroni": "bonferroni", "holm": "holm", "bh": "fdr_bh"}
"""Name of a correction for several comparisons -> its name in statsmodels."""
_DECIMALS = 12
"""Differences are rounded here, so that a difference that is zero but for rounding is zero."""


@dataclass(frozen=True)
class Test:
    """Two-sided p-value, confidence interval of the mean difference, degrees of freedom."""

    __test__ = False

    p: float
    low: float
    high: float
    df: float


def differences(system: ArrayLike, baseline: ArrayLike) -> Array:
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
    paired: Array = np.round(first - second, _DECIMALS)
    return paired


def targets(d: ArrayLike, confidence: float = 0.95) -> dict[str, Test | None]:
    """The three tests; those that need several seeds are None with one seed, those of queries with one query."""
    values = _checked(d)
    seeds, queries = values.shape
    return {
        "queries": queries_test(values, confidence) if queries > 1 else None,
        "seeds": seeds_test(values, confidence) if seeds > 1 else None,
        "both": both_test(values, confidence) if seeds > 1 and queries > 1 else None,
    }


def queries_test(d: ArrayLike, confidence: float = 0.95) -> Test:
    """Paired Student's t-test over queries of the seed-averaged values; df = queries - 1."""
    return _student(_checked(d).mean(axis=0), confidence)


def seeds_test(d: ArrayLike, confidence: float = 0.95) -> Test:
    """Paired Student's t-test over seeds of the query-averaged values; df = seeds - 1."""
    return _student(_checked(d).mean(axis=1), confidence)


def both_test(d: ArrayLike, confidence: float = 0.95) -> Test:
    """Two-way random effects: seeds and queries are both samples.

    The variance of the mean is (MS_seed + MS_query - MS_residual) / (S Q), never below MS_residual / (S Q), with the
    degrees of freedom of Satterthwaite (1946) over the three mean squares.
    """
    values = _checked(d)
    seeds, queries = values.shape
    grand, by_seed, by_query = values.mean(), values.mean(axis=1), values.mean(axis=0)
    residual = values - by_seed[:, None] - by_query[None, :] + grand
    ms_seed = queries * float(by_seed.var(ddof=1))
    ms_query = seeds * float(by_query.var(ddof=1))
    ms_residual = float((residual**2).sum()) / ((seeds - 1) * (queries - 1))
    combined = max(ms_seed + ms_query - ms_residual, ms_residual)
    spread = ms_seed**2 / (seeds - 1) + ms_query**2 / (queries - 1) + ms_residual**2 / ((seeds - 1) * (queries - 1))
    df = combined**2 / spread if spread > 0 else float(min(seeds, queries) - 1)
    return _from_t(float(grand), math.sqrt(combined / values.size), df, confidence)


def adjust(p: Sequence[float | None], correction: str) -> list[float | None]:
    """p-values of one family, corrected for their number.

    A comparison that could not be made (None) stays None but counts, as if its p were 1: what was declared is what is
    corrected for.

    Raises:
        ValueError: for an unknown correction.
    """
    if correction not in CORRECTIONS:
        raise ValueError(f"unknown correction {correction!r}; expected one of {', '.join(CORRECTIONS)}")
    if not p:
        return []
    from statsmodels.stats.multitest import multipletests

    raised = multipletests([1.0 if value is None else value for value in p], method=CORRECTIONS[correction])[1]
    return [None if value is None else float(new) for value, new in zip(p, raised, strict=True)]


def effect_size(d: ArrayLike) -> float | None:
    """Mean over standard deviation of the seed-averaged per-query differences; None if they are equal but not zero."""
    per_query = np.round(_checked(d).mean(axis=0), _DECIMALS)
    mean, deviation = float(per_query.mean()), float(per_query.std(ddof=1)) if len(per_query) > 1 else 0.0
    if mean == 0:
        return 0.0
    return None if np.ptp(per_query) == 0 else mean / deviation


def detectable(d: ArrayLike, alpha: float, power: float = 0.8) -> float | None:
    """Smallest true mean difference that the test over queries finds with this power, given the spread seen in d.

    Solved exactly over the non-central t distribution, two-sided.

    Args:
        d: (seeds, queries) differences.
        alpha: level of one comparison, after correction.
        power: probability of finding it.

    Returns:
        The difference, in units of the metric; None with a single query or no spread.
    """
    from scipy import optimize, stats

    per_query = np.round(_checked(d).mean(axis=0), _DECIMALS)
    count = len(per_query)
    if count < 2 or np.ptp(per_query) == 0:
        return None
    critical = stats.t.isf(alpha / 2, count - 1)

    def shortfall(shift: float) -> float:
        return float(stats.nct.sf(critical, count - 1, shift) + stats.nct.cdf(-critical, count - 1, shift)) - power

    upper = 1.0
    while shortfall(upper) < 0:
        upper *= 2
    shift = float(optimize.brentq(shortfall, 0.0, upper, xtol=1e-12))
    return shift / math.sqrt(count) * float(per_query.std(ddof=1))


def _checked(d: ArrayLike) -> Array:
    values = np.asarray(d, dtype=np.float64)
    if values.ndim != 2 or 0 in values.shape or not np.isfinite(values).all():
        raise ValueError(f"expected finite differences (seeds, queries) but got shape {values.shape}")
    return values


def _student(values: Array, confidence: float) -> Test:
    rounded = np.round(values, _DECIMALS)
    error = 0.0 if np.ptp(rounded) == 0 else float(rounded.std(ddof=1)) / math.sqrt(len(rounded))
    return _from_t(float(rounded.mean()), error, len(rounded) - 1, confidence)


def _from_t(mean: float, error: float, df: float, confidence: float) -> Test:
    """Without spread a zero difference has p 1 and any other has p 0."""
    from scipy import stats

    if error == 0:
        return Test(1.0 if mean == 0 else 0.0, mean, mean, df)
    half = float(stats.t.ppf((1 + confidence) / 2, df)) * error
    return Test(float(2 * stats.t.sf(abs(mean) / error, df)), mean - half, mean + half, df)
