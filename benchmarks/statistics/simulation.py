"""Simulated studies as arrays, and the tests of the product on all of them at once.

Mean squares of normal differences are scaled chi-squares that are independent of each other and of the mean. So a study
with normal scores needs no scores: four numbers for each comparison are drawn, and thousands of studies take a second.
A family of comparisons with a common baseline needs Wishart matrices instead.

An estimator returns, for each comparison, its standard error and its degrees of freedom at a level. `rejections` and
`critical_differences` turn them into decisions. The estimators are those of `analysis.stats`, written again for arrays;
tests/benchmarks/test_statistics.py compares the two.
"""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special, stats

from analysis.stats.pooled import compute_pooled_df
from analysis.stats.power import DifferenceVariance
from analysis.stats.two_way import MIN_SEED_SHARE

Floats = np.ndarray
SEED_SD, QUERY_SD, REST_SD = 0.006, 0.05, 0.12
"""Standard deviations of one system's scores between seeds, of query x system, and of the rest (assumed)."""
_CAUTION, _LEVEL, _POWER = 0.3, 0.05, 0.6


class Squares(NamedTuple):
    """Means and mean squares of comparisons, arrays of one shape: (studies,) or (studies, comparisons)."""

    seeds: int
    queries: int
    mean: Floats
    ms_seed: Floats
    ms_query: Floats
    ms_residual: Floats

    @classmethod
    def from_differences(cls, d: Floats) -> "Squares":
        """Compute them from differences (..., seeds, queries)."""
        seeds, queries = d.shape[-2:]
        by_seed, by_query, grand = d.mean(-1), d.mean(-2), d.mean((-2, -1))
        residual = d - by_seed[..., None]
        residual -= (by_query - grand[..., None])[..., None, :]
        rest = np.einsum("...sq,...sq->...", residual, residual) / ((seeds - 1) * (queries - 1))
        return cls(seeds, queries, grand, queries * by_seed.var(-1, ddof=1), seeds * by_query.var(-1, ddof=1), rest)


Spread = tuple[Floats, Floats | float]
"""Standard error and degrees of freedom."""
Estimator = Callable[[Squares, float], Spread]


def estimate_here(squares: Squares, level: float) -> Spread:
    """`two_way_estimate` with `Estimate.df_at`: the test of the product."""
    few = np.maximum(squares.ms_seed, MIN_SEED_SHARE * squares.ms_residual)
    return _cautious(squares, few, squares.seeds - 1, level)


def estimate_classical(squares: Squares, level: float) -> Spread:
    """`classical_estimate`: the published variance, without a floor, and degrees of freedom (Hillis 2007)."""
    total = squares.ms_seed + np.maximum(squares.ms_query - squares.ms_residual, 0)
    with np.errstate(divide="ignore"):  # without a part of the seeds, t is normal
        return _error(squares, total), (squares.seeds - 1) * (total / squares.ms_seed) ** 2


def estimate_satterthwaite(squares: Squares, level: float) -> Spread:
    """`satterthwaite_estimate`: a variance of at least the rest's, no caution. The test of racing."""
    a, b, rest = squares.ms_seed, squares.ms_query, squares.ms_residual
    seeds, queries = squares.seeds - 1, squares.queries - 1
    total = np.maximum(a + b - rest, rest)
    return _error(squares, total), total**2 / (a**2 / seeds + b**2 / queries + rest**2 / (seeds * queries))


def estimate_over_queries(squares: Squares, level: float) -> Spread:
    """Paired t-test over queries of the means over seeds, which says nothing about new seeds: the usual test."""
    return _error(squares, squares.ms_query), squares.queries - 1.0


def make_pooled_estimate(
    pairs: Sequence[tuple[int, int]], shared_beginnings: Sequence[tuple[int, int]] = ()
) -> Estimator:
    """`pooled.pool_seeds`: F ratios of the seeds pooled over a family (the last axis), never below the own.

    Args:
        pairs: numbers of the two systems of each comparison.
        shared_beginnings: numbers of two systems that share the beginning of their training.
    """
    named, related = ([(str(one), str(other)) for one, other in own] for own in (pairs, shared_beginnings))

    def estimate_pooled(squares: Squares, level: float) -> Spread:
        ratio = np.maximum(squares.ms_seed / squares.ms_residual, MIN_SEED_SHARE)
        ratio = np.maximum(ratio, ratio.mean(-1, keepdims=True))
        df = compute_pooled_df(named, squares.seeds, squares.queries, related)
        return _cautious(squares, ratio * squares.ms_residual, df, level)

    return estimate_pooled


def get_caution(level: float, df: float) -> float:
    """Return the mean square that `Estimate.df_at` assumes at a level, divided by its expectation."""
    return float(stats.chi2.ppf(_CAUTION * (min(level, _LEVEL) / _LEVEL) ** _POWER, df)) / df


def _error(squares: Squares, total: Floats) -> Floats:
    return np.sqrt(total / (squares.seeds * squares.queries))


def _cautious(squares: Squares, few: Floats, df: float, level: float) -> Spread:
    more, df_more = np.maximum(squares.ms_query - squares.ms_residual, 0), squares.queries - 1
    share = few / (few + more)
    cautious = share / (share + (1 - share) * get_caution(level, df))
    inverse = [one**2 / df + (1 - one) ** 2 / df_more for one in (share, cautious)]
    return _error(squares, few + more), 1 / np.maximum(*inverse)


def rejections(estimator: Estimator, squares: Squares, level: float) -> Floats:
    """Return which comparisons have a p-value below the level."""
    error, df = estimator(squares, level)
    ratio = np.abs(squares.mean) / error
    candidates = ratio > stats.norm.isf(level / 2)  # no t has a critical value below the normal one
    df = np.broadcast_to(df, ratio.shape)
    rejected = np.zeros(ratio.shape, bool)
    rejected[candidates] = 2 * special.stdtr(df[candidates], -ratio[candidates]) < level
    return rejected


def critical_differences(estimator: Estimator, squares: Squares, level: float) -> Floats:
    """Return the size that a mean difference must exceed for a p-value below the level."""
    error, df = estimator(squares, level)
    return -special.stdtrit(df, level / 2) * error


def draw_squares(
    seeds: int, queries: int, variance: DifferenceVariance, studies: int, rng: np.random.Generator
) -> Squares:
    """Draw (studies,) comparisons of two equal systems with normal scores."""
    rest = variance.rest
    expected = rest + queries * variance.seed, rest + seeds * variance.query, rest
    df = seeds - 1, queries - 1, (seeds - 1) * (queries - 1)
    drawn = [square * rng.chisquare(n, studies) / n for square, n in zip(expected, df, strict=True)]
    total = expected[0] + expected[1] - rest
    return Squares(seeds, queries, rng.normal(0, (total / (seeds * queries)) ** 0.5, studies), *drawn)


@dataclass(frozen=True)
class Family:
    """Systems with normal scores and the pairs of them that are compared.

    Attributes:
        pairs: numbers of the two systems of each comparison.
        seed: (systems, systems) covariance of what a seed does to the mean of a run.
        query: (systems,) variances of query x system.
        rest: (systems,) variances of the rest.
    """

    pairs: tuple[tuple[int, int], ...]
    seed: Floats
    query: Floats
    rest: Floats

    @classmethod
    def with_baseline(
        cls,
        comparisons: int,
        seed_sd: float = SEED_SD,
        factors: Sequence[float] = (),
        shared: float | Floats = 0.0,
        query_sd: float = QUERY_SD,
    ) -> "Family":
        """Every other system with system 0; all other deviations are those of this module.

        Args:
            comparisons: number of comparisons.
            seed_sd: standard deviation of a run's mean between seeds.
            factors: seed variance of each system in units of seed_sd^2; those not given are 1.
            shared: correlation of the seed effects of two systems, or of each two (systems, systems).
            query_sd: standard deviation of query x system.
        """
        systems = comparisons + 1
        deviations = seed_sd * np.sqrt([*factors, *[1.0] * (systems - len(factors))])
        correlation = np.where(np.eye(systems, dtype=bool), 1.0, shared)
        return cls(
            tuple((number, 0) for number in range(1, systems)),
            deviations[:, None] * correlation * deviations,
            np.full(systems, query_sd**2),
            np.full(systems, REST_SD**2),
        )

    def draw(self, seeds: int, queries: int, studies: int, rng: np.random.Generator) -> Squares:
        """Draw (studies, comparisons) comparisons of equal systems."""
        signs = np.zeros((len(self.pairs), len(self.rest)))
        for number, (system, baseline) in enumerate(self.pairs):
            signs[number, system], signs[number, baseline] = 1, -1
        rest, query = np.diag(self.rest), np.diag(self.query)
        df = seeds - 1, queries - 1, (seeds - 1) * (queries - 1)
        drawn = [
            _draw_mean_squares(signs @ _root(covariance), n, studies, rng)
            for covariance, n in zip((rest + queries * self.seed, rest + seeds * query, rest), df, strict=True)
        ]
        root = signs @ _root((rest / queries + self.seed) / seeds + query / queries)
        return Squares(seeds, queries, rng.standard_normal((studies, len(self.rest))) @ root.T, *drawn)


def draw_comparisons_of_runs(runs: Floats, queries: int, rng: np.random.Generator) -> Squares:
    """Draw (studies, comparisons) comparisons of every other system with system 0.

    Args:
        runs: (studies, systems, seeds) what a seed does to the mean of a run, with any distribution.
        queries: number of queries.
        rng: generator of query x system and of the rest, which are normal.
    """
    studies, systems, seeds = runs.shape
    signs = np.hstack([-np.ones((systems - 1, 1)), np.eye(systems - 1)])
    means = runs + rng.normal(0, REST_SD / queries**0.5, runs.shape)
    by_seed = means[:, 1:] - means[:, :1]
    grand = by_seed.mean(-1) + rng.normal(0, QUERY_SD / queries**0.5, (studies, systems)) @ signs.T
    drawn = [
        _draw_mean_squares(variance**0.5 * signs, df, studies, rng)
        for variance, df in (
            (REST_SD**2 + seeds * QUERY_SD**2, queries - 1),
            (REST_SD**2, (seeds - 1) * (queries - 1)),
        )
    ]
    return Squares(seeds, queries, grand, queries * by_seed.var(-1, ddof=1), *drawn)


def _root(covariance: Floats) -> Floats:
    """Return a matrix R with R R' = covariance, which may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0))


def _draw_mean_squares(root: Floats, df: int, studies: int, rng: np.random.Generator) -> Floats:
    """Return the diagonals (studies, rows) of Wishart matrices divided by df; their covariance is root root'."""
    size = root.shape[1]
    if df < size:
        factor = rng.standard_normal((studies, size, df))
    else:  # Bartlett's decomposition
        factor = np.tril(rng.standard_normal((studies, size, size)), -1)
        factor[:, np.arange(size), np.arange(size)] = np.sqrt(rng.chisquare(df - np.arange(size), (studies, size)))
    return ((root @ factor) ** 2).sum(-1) / df


def format_share(share: float, digits: int = 3) -> str:
    """Write a share between 0 and 1 without its leading zero."""
    return f"{share:.{digits}f}".removeprefix("0")


def format_level(share: float, nominal: float) -> str:
    """Write a measured level, with more digits for a low nominal one."""
    return format_share(share, 3 if nominal >= 0.05 else 4)


def print_row(*cells: object) -> None:
    """Print a row of a Markdown table."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def print_header(*columns: object) -> None:
    """Print the first two lines of a Markdown table."""
    print_row(*columns)
    print_row(*["---"] * len(columns))


def run_with_count(main: Callable[[int], None], default: int) -> None:
    """Call the main function of a simulation with the number of studies that the command line gives."""
    started = time.perf_counter()
    main(int(sys.argv[1]) if len(sys.argv) > 1 else default)
    print(f"\n{time.perf_counter() - started:.0f} s")
