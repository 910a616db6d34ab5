"""Power of the tests for new queries and new seeds.

python -m benchmarks.statistics.power [STUDIES]

Scores are normal, with the deviations of `simulation`: .006 between seeds, .05 between queries and systems, .12 in the
rest. The first table has one comparison at .05: levels, also of the usual test over queries alone, and powers for a
true difference of .01. It has the minimum detectable effect as the product computes it from the true variances, and the
difference that is found with 80 % power in fact. The second has families of comparisons with one baseline, at the
corrected level .05 / m. It has the powers for true differences of .01 and .02 and the difference that is found with
80 % power, by the own and by the pooled test. The third has the studies of the archive: the share of a difference's
variance that falls with the number of queries, and the shares of its standard error that four times the queries, and
four times the seeds, remove.

The mean of normal scores is independent of their mean squares. So power is not counted: for each study it is the
probability that the mean exceeds the study's critical difference, and these probabilities are averaged.
"""

import itertools

import numpy as np
from scipy import optimize, special

from analysis.stats.power import DifferenceVariance, minimum_detectable_effect
from analysis.stats.variance_components import estimate_variance_components
from benchmarks.statistics.replication import list_compared
from benchmarks.statistics.simulation import (
    QUERY_SD,
    REST_SD,
    SEED_SD,
    Estimator,
    Family,
    Floats,
    critical_differences,
    draw_squares,
    estimate_classical,
    estimate_here,
    estimate_over_queries,
    format_share,
    make_pooled_estimate,
    print_header,
    print_row,
    run_with_count,
)

STUDIES, ALPHA, DIFFERENCE, POWER, MORE = 40_000, 0.05, 0.01, 0.8, 4
SEEDS, QUERIES = (2, 3, 5, 10, 20), (200, 1_000, 5_000)
FAMILIES = ((2, 5), (3, 2), (3, 5), (3, 10), (4, 5), (5, 5), (6, 5), (10, 5))
"""Seeds and comparisons; a plan pools up to six seeds."""


def true_variance(seed_sd: float = SEED_SD) -> DifferenceVariance:
    """Return the variances of the difference of two systems."""
    return DifferenceVariance(2 * seed_sd**2, 2 * QUERY_SD**2, 2 * REST_SD**2)


def compute_power(critical: Floats, error: float, difference: float) -> float:
    """Return the probability that a normal mean is beyond the critical difference, on average over studies.

    Args:
        critical: (studies, ...) critical differences.
        error: true standard error of the mean.
        difference: true difference.
    """
    tails = special.ndtr((difference - critical) / error) + special.ndtr((-difference - critical) / error)
    return float(tails.mean())


def find_difference(critical: Floats, error: float, power: float = POWER) -> float:
    """Return the true difference that is found with this power."""
    upper = 4 * error
    while compute_power(critical, error, upper) < power:
        upper *= 2
    return float(optimize.brentq(lambda d: compute_power(critical, error, d) - power, 0.0, upper, rtol=1e-6))


def true_error(variance: DifferenceVariance, seeds: int, queries: int) -> float:
    """Return the true standard error of a mean difference."""
    return float(np.sqrt(variance.seed / seeds + variance.query / queries + variance.rest / (seeds * queries)))


def measure_family(seeds: int, comparisons: int, queries: int, seed_sd: float, studies: int) -> list[str]:
    """Return the powers of the own and the pooled test at .01 and at .02, and what each finds with 80 % power."""
    family, variance = Family.with_baseline(comparisons, seed_sd=seed_sd), true_variance(seed_sd)
    squares = family.draw(seeds, queries, studies, np.random.default_rng([2615, seeds, comparisons, queries]))
    estimators: tuple[Estimator, ...] = estimate_here, make_pooled_estimate(family.pairs)
    critical = [critical_differences(estimator, squares, ALPHA / comparisons) for estimator in estimators]
    error = true_error(variance, seeds, queries)
    powers = [compute_power(one, error, factor * DIFFERENCE) for factor in (1, 2) for one in critical]
    return [*map(format_share, powers), *(format_share(find_difference(one, error), 4) for one in critical)]


def measure_gain(variance: DifferenceVariance, seeds: int, queries: int) -> tuple[float, float, float]:
    """Return what more data does to a difference.

    Returns:
        Share of the variance that falls with the number of queries; shares of the standard error that `MORE` times the
        queries, and as many times the seeds, remove.
    """
    error = true_error(variance, seeds, queries)
    more = true_error(variance, seeds, MORE * queries), true_error(variance, MORE * seeds, queries)
    return 1 - variance.seed / seeds / error**2, 1 - more[0] / error, 1 - more[1] / error


def print_archive() -> None:
    """Print what more data does in each study of the archive, with the variances of all its systems."""
    print(f"\nThe archive, {MORE} times the data\n")
    print_header("study", "systems", "seeds", "queries", "variance of queries", "error less by queries", "by seeds")
    for runs in list_compared():
        components = estimate_variance_components([*runs.values.values()])
        if components is not None:
            gain = measure_gain(components.to_difference_variance(), runs.seeds, runs.queries)
            shares = (format_share(share, 2) for share in gain)
            print_row(runs.study, len(runs.values), runs.seeds, f"{runs.queries:,}", *shares)


def main(studies: int) -> None:
    """Print levels, powers and detectable effects of one comparison, and what both tests find in a family."""
    variance = true_variance()
    print(f"One comparison at .05, {studies:,} studies a row\n")
    columns = "level, here", "level, classical", "level, queries alone", "power, here", "power, classical"
    print_header("seeds", "queries", *columns, "MDE", "80 %, here")
    for seeds, queries in itertools.product(SEEDS, QUERIES):
        squares = draw_squares(seeds, queries, variance, studies, np.random.default_rng([2614, seeds, queries]))
        critical = [critical_differences(one, squares, ALPHA) for one in (estimate_here, estimate_classical)]
        usual = critical_differences(estimate_over_queries, squares, ALPHA)
        error = true_error(variance, seeds, queries)
        shares = [compute_power(one, error, 0.0) for one in (*critical, usual)]
        shares += [compute_power(one, error, DIFFERENCE) for one in critical]
        effect = minimum_detectable_effect(variance.estimate(seeds, queries), ALPHA)
        found = effect or np.nan, find_difference(critical[0], error)
        print_row(seeds, f"{queries:,}", *map(format_share, shares), *(format_share(one, 4) for one in found))
    print(f"\nFamilies at .05 / comparisons, {studies:,} families a row\n")
    powers = "power at .01, own", "pooled", "power at .02, own", "pooled", "80 %, own", "80 %, pooled"
    print_header("seeds", "comparisons", "queries", "seed SD", *powers)
    for (seeds, comparisons), queries, seed_sd in itertools.product(FAMILIES, (200, 1_000), (SEED_SD / 3, SEED_SD)):
        cells = measure_family(seeds, comparisons, queries, seed_sd, studies)
        print_row(seeds, comparisons, f"{queries:,}", format_share(seed_sd), *cells)
    print_archive()


if __name__ == "__main__":
    run_with_count(main, STUDIES)
