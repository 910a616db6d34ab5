"""Share of tests that call equal rankers different, and of differences that replicate, in the archive of seeds.

python -m benchmarks.statistics.replication

Two groups of runs of one system differ by their seeds alone, so a test that calls them different errs. `make evidence`
writes the tables into docs/results/equal-rankers.md. Standard errors are those of the jackknife over seeds, because
pairs share runs.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import stats

from analysis.archive import load_scores
from analysis.checks.equal_rankers import LEVEL, call_different, list_pairs
from analysis.data.score_table import build_score_table
from benchmarks.statistics.simulation import (
    Estimator,
    Squares,
    estimate_classical,
    estimate_here,
    estimate_over_queries,
    format_share,
    print_header,
    print_row,
    rejections,
)
from trainables.utils.arrays import Bools, Floats, Ints

Rows = list[list[str]]
_COLLAPSING = "smoothing-qqp-random"
"""Study with runs that collapsed. Its rows are marked, and not in what holds for all."""
_SIZES = (3, 5, 10)
_QUERIES = (200, 500, 1_000, 2_000)
_DRAWS, _PARTS, _RESAMPLES = 20_000, 100, 1_000


class Runs(NamedTuple):
    """The runs of the trained systems of a study: (seeds, queries) scores by system."""

    study: str
    values: dict[str, Floats]

    @property
    def seeds(self) -> int:
        return len(next(iter(self.values.values())))

    @property
    def queries(self) -> int:
        return next(iter(self.values.values())).shape[1]


class Share(NamedTuple):
    """A share of decisions with its standard error; NaN if seeds are too few for one."""

    value: float
    error: float

    def __str__(self) -> str:
        return format_share(self.value) + (f" ± {format_share(self.error)}" if np.isfinite(self.error) else "")


@cache
def list_studies() -> tuple[Runs, ...]:
    """List the studies of the archive, those with many seeds last, without controls and second metrics."""
    scores, found = load_scores(), list[Runs]()
    is_other = scores["study"].str.startswith("control-") | (scores["metric"] == "position")
    for name, own in scores[~is_other].groupby("study", observed=True):
        values, trained = build_score_table(own).values, own.loc[own["trained"], "system"].unique()
        found.append(Runs(str(name), {system: values[system] for system in values if system in trained}))
    return tuple(sorted(found, key=lambda runs: runs.seeds))


def list_compared() -> list[Runs]:
    """List the studies that compare systems."""
    return [runs for runs in list_studies() if len(runs.values) > 1]


def list_many() -> list[Runs]:
    """List the studies of one system, made to look at seeds."""
    return [runs for runs in list_studies() if len(runs.values) == 1]


def make_share(decisions: Floats | Bools, members: Ints, seeds: int) -> Share:
    """Average decisions, with the standard error of the jackknife over seeds.

    Args:
        decisions: (decisions,) or (systems, decisions) what a test says.
        members: (decisions, runs) seeds of the runs that a decision is about.
        seeds: number of seeds.
    """
    each = np.atleast_2d(decisions).mean(axis=0)
    without = np.array([each[~(members == seed).any(axis=1)].mean() for seed in range(seeds)] if seeds > 2 else [])
    error = ((seeds - 1) * np.mean((without - without.mean()) ** 2)) ** 0.5 if len(without) else np.nan
    return Share(float(each.mean()), float(error))


def compare_single(runs: Runs) -> Share:
    """Return how often the usual test calls two runs of a system different."""
    pairs = np.stack(np.triu_indices(runs.seeds, 1), axis=1)
    return make_share(np.array([list_pairs(call_different(own)) for own in runs.values.values()]), pairs, runs.seeds)


def compare_parts(runs: Runs, queries: int) -> Share:
    """Return the same on random parts of the queries."""
    pairs, found = np.stack(np.triu_indices(runs.seeds, 1), axis=1), []
    for part in range(_PARTS if queries < runs.queries else 1):
        drawn = np.random.default_rng([queries, part]).permutation(runs.queries)[:queries]
        found += [list_pairs(call_different(own[:, drawn])) for own in runs.values.values()]
    return make_share(np.array(found), pairs, runs.seeds)


def draw_groups(seeds: int, size: int, draws: int = _DRAWS) -> Ints:
    """Draw pairs of disjoint groups of seeds: (draws, 2 size), the first group in the first half."""
    rng = np.random.default_rng([seeds, size])
    return np.argsort(rng.random((draws, seeds)), axis=1)[:, : 2 * size]


def compute_squares(values: Floats, groups: Ints) -> Squares:
    """Compute the mean squares of the differences of two groups of runs, paired in their order.

    They follow from the means of the runs and the covariances over queries, so the scores are read once.

    Args:
        values: (seeds, queries) scores.
        groups: (draws, 2 size) seeds of the two groups.
    """
    size, queries = groups.shape[1] // 2, values.shape[1]
    covariance, means = np.cov(values), values.mean(axis=1)
    first, second = groups[:, :size], groups[:, size:]
    d = means[first] - means[second]
    weights = np.repeat([1.0, -1.0], size) / size
    among = covariance[groups[:, :, None], groups[:, None, :]]
    of_mean = np.einsum("i,nij,j->n", weights, among, weights)
    own = covariance.diagonal()
    of_pairs = (own[first] + own[second] - 2 * covariance[first, second]).sum(axis=1)
    rest = (of_pairs - size * of_mean) / (size - 1)
    return Squares(size, queries, d.mean(axis=1), queries * d.var(axis=1, ddof=1), size * of_mean, rest)


def by_squares(estimator: Estimator) -> "GroupTest":
    """Make the test of two groups from an estimator over mean squares."""
    return lambda values, groups: rejections(estimator, compute_squares(values, groups), LEVEL)


def reject_by_wilcoxon(values: Floats, groups: Ints) -> Bools:
    """Wilcoxon's signed-rank test over queries, of the means over seeds."""
    first, second = np.split(groups, 2, axis=1)
    d = np.array(
        [values[one].mean(axis=0) - values[other].mean(axis=0) for one, other in zip(first, second, strict=True)]
    )
    found: Bools = stats.wilcoxon(np.round(d, 12), zero_method="pratt", axis=1).pvalue < LEVEL
    return found


def reject_by_welch(values: Floats, groups: Ints) -> Bools:
    """Welch's t-test of the means of the runs: over seeds, on these queries."""
    first, second = np.split(values.mean(axis=1)[groups], 2, axis=1)
    found: Bools = stats.ttest_ind(first, second, axis=1, equal_var=False).pvalue < LEVEL
    return found


def reject_by_sign_flips(values: Floats, groups: Ints) -> Bools:
    """All signs of the differences of the means of paired runs: over seeds, on these queries."""
    first, second = np.split(values.mean(axis=1)[groups], 2, axis=1)
    d = first - second
    signs = 1 - 2 * (np.arange(2 ** d.shape[1])[:, None] >> np.arange(d.shape[1]) & 1)
    at_least = abs(d @ signs.T) >= abs(d.sum(axis=1, keepdims=True)) - 1e-9
    found: Bools = at_least.mean(axis=1) < LEVEL
    return found


def reject_by_multi_bootstrap(values: Floats, groups: Ints) -> Bools:
    """The Multi-Bootstrap (Sellam et al. 2022) of runs that are not paired: resamples queries, and runs of each group.

    The means of resampled queries are normal here, with the covariance of the runs.
    """
    rng, size = np.random.default_rng(list(values.shape)), groups.shape[1] // 2
    covariance, means = np.cov(values) / values.shape[1], values.mean(axis=1)
    found = np.zeros(len(groups), bool)
    for place, own in enumerate(groups):
        drawn = rng.multivariate_normal(means[own], covariance[np.ix_(own, own)], _RESAMPLES, method="cholesky")
        counts = rng.multinomial(size, np.full(size, 1 / size), (2, _RESAMPLES)) / size
        d = (drawn[:, :size] * counts[0]).sum(axis=1) - (drawn[:, size:] * counts[1]).sum(axis=1)
        found[place] = 2 * min((d <= 0).mean(), (d >= 0).mean()) < LEVEL
    return found


def compute_mixed_error(values: Floats, groups: Ints) -> Floats:
    """Compute the standard error of the difference of two groups in a mixed model, by REML.

    Runs, queries, and queries of a system are random. With groups of one size, mean squares give the estimates: of runs
    within groups, of queries x systems, and of the rest.
    """
    size, queries = groups.shape[1] // 2, values.shape[1]
    covariance, means = np.cov(values), values.mean(axis=1)
    halves = np.split(groups, 2, axis=1)
    among = [covariance[half[:, :, None], half[:, None, :]] for half in halves]
    run = queries * np.mean([means[half].var(axis=1, ddof=1) for half in halves], axis=0)
    within = sum(own.trace(axis1=1, axis2=2) - own.sum(axis=(1, 2)) / size for own in among)
    rest, query = within / (2 * (size - 1)), compute_squares(values, groups).ms_query / 2
    error: Floats = np.sqrt(2 * np.maximum(run + query - rest, np.maximum(run, query)) / (size * queries))
    return error


def reject_by_mixed_model(values: Floats, groups: Ints) -> Bools:
    """Wald's normal test of the difference in the mixed model."""
    first, second = np.split(values.mean(axis=1)[groups], 2, axis=1)
    difference = abs(first.mean(axis=1) - second.mean(axis=1))
    found: Bools = difference > stats.norm.isf(LEVEL / 2) * compute_mixed_error(values, groups)
    return found


GroupTest = Callable[[Floats, Ints], Bools]
TESTS: dict[str, tuple[GroupTest, int]] = {
    "paired t-test over queries, of means over seeds (the usual test)": (by_squares(estimate_over_queries), _DRAWS),
    "Wilcoxon over queries, of means over seeds": (reject_by_wilcoxon, 500),
    "two-way, new queries and seeds (this project)": (by_squares(estimate_here), _DRAWS),
    "two-way, classical": (by_squares(estimate_classical), _DRAWS),
    "mixed model, Wald": (reject_by_mixed_model, _DRAWS),
    "Multi-Bootstrap": (reject_by_multi_bootstrap, 1_000),
    "Welch's t-test over seeds, on these queries": (reject_by_welch, _DRAWS),
    "sign flips over seeds, on these queries": (reject_by_sign_flips, 2_000),
}
"""Tests of two groups of runs, with the number of draws: which are called different at .05."""


def compare_groups(runs: Runs, size: int, test: GroupTest, draws: int = _DRAWS) -> Share:
    """Return how often a test calls two groups of runs of one system different."""
    groups = draw_groups(runs.seeds, size, draws)
    rejected = np.array([test(own, groups) for own in runs.values.values()])
    if draws == _DRAWS and 4 * size <= runs.seeds:
        return make_share(rejected, groups, runs.seeds)
    return Share(float(rejected.mean()), np.nan)


_OURS = by_squares(estimate_over_queries), by_squares(estimate_here)


def tabulate_false_positives() -> Rows:
    """Return what tests at .05 make of equal rankers, by study."""
    rows = [["study", "systems", "queries", "one seed against one", "five against five", "two-way, five against five"]]
    for runs in list_compared():
        shares = [compare_single(runs), *(compare_groups(runs, 5, each, 500) for each in _OURS)]
        mark = " (runs collapsed)" if runs.study == _COLLAPSING else ""
        rows.append([runs.study + mark, str(len(runs.values)), f"{runs.queries:,}", *map(str, shares)])
    return rows


def tabulate_queries() -> Rows:
    """Return how often the usual test calls two runs different, by number of queries."""
    rows = [["queries", "studies", "called different"]]
    stable = [runs for runs in list_compared() if runs.study != _COLLAPSING]
    for queries in (200, 369, 500, 1_000, 1_500):
        own = [runs for runs in stable if runs.queries >= queries]
        shares = [compare_parts(runs, queries).value for runs in own for _ in runs.values]
        rows.append([f"{queries:,}", str(len(own)), format_share(float(np.mean(shares)))])
    return rows


def tabulate_replication() -> Rows:
    """Return how often a significant difference from BERT is found again with other seeds."""
    rows = [["seeds", "significant", "same sign with other seeds", "significant again"]]
    for size in (1, 3, 5):
        counts = np.zeros(4)
        for runs in list_compared():
            if runs.study != _COLLAPSING:
                groups = draw_groups(runs.seeds, size, 500)
                for system, values in runs.values.items():
                    if system != "BERT":
                        counts += count_replications(values - runs.values["BERT"], groups)
        drawn, found, sign, again = counts
        rows.append([str(size), *(format_share(part) for part in (found / drawn, sign / found, again / found))])
    return rows


def count_replications(d: Floats, groups: Ints) -> Floats:
    """Count the draws, significant first halves, and those where the second half has the sign, and is significant."""
    size, queries = groups.shape[1] // 2, d.shape[1]
    halves = [d[part].mean(axis=1) for part in (groups[:, :size], groups[:, size:])]
    means = [half.mean(axis=1) for half in halves]
    critical = stats.t.isf(LEVEL / 2, queries - 1)
    found = [
        abs(mean) > critical * half.std(axis=1, ddof=1) / queries**0.5 for mean, half in zip(means, halves, strict=True)
    ]
    same = means[0] * means[1] > 0
    return np.array([len(groups), found[0].sum(), (found[0] & same).sum(), (found[0] & same & found[1]).sum()])


def tabulate_distances() -> Rows:
    """Return how far the means of two runs of a system are apart, by study."""
    rows = [["study", "sd of a seed's mean", "median distance of two seeds", "largest"]]
    for runs in list_studies():
        means = [own.mean(axis=1) for own in runs.values.values()]
        apart = np.concatenate([list_pairs(abs(np.subtract.outer(own, own))) for own in means])
        spread = np.mean([own.var(ddof=1) for own in means]) ** 0.5
        rows.append([runs.study, *(format_share(float(x), 4) for x in (spread, np.median(apart), apart.max()))])
    return rows


def tabulate_many() -> Rows:
    """Return how often the usual test calls two of many runs different, by number of queries."""
    rows = [["study", "seeds", *(f"{queries:,} queries" for queries in _QUERIES), "all"]]
    for runs in list_many():
        shares = [str(compare_parts(runs, queries)) if queries <= runs.queries else "-" for queries in _QUERIES]
        rows.append([runs.study, str(runs.seeds), *shares, f"{compare_single(runs)} of {runs.queries:,}"])
    return rows


def tabulate_means() -> Rows:
    """Return the distribution of a seed's mean."""
    levels = (0, 0.05, 0.5, 0.95, 1)
    rows = [
        ["study", "mean", "sd", "skewness", "kurtosis", "Shapiro-Wilk p", "lowest", "5 %", "median", "95 %", "highest"]
    ]
    for runs in list_many():
        for own in runs.values.values():
            means = own.mean(axis=1)
            found = means.mean(), means.std(ddof=1), *np.quantile(means, levels)
            mean, sd, *quantiles = (format_share(float(value), 4) for value in found)
            shape = [f"{moment(means):+.2f}" for moment in (stats.skew, stats.kurtosis)]
            rows.append([runs.study, mean, sd, *shape, format_share(stats.shapiro(means).pvalue), *quantiles])
    return rows


def tabulate_tests() -> Rows:
    """Return how often tests at .05 call two groups of runs different that differ by their seeds."""
    rows = [["study", "test", *(f"{size} seeds" for size in _SIZES)]]
    for runs in list_many():
        for name, (test, draws) in TESTS.items():
            rows.append([runs.study, name, *(str(compare_groups(runs, size, test, draws)) for size in _SIZES)])
    return rows


TABLES: dict[str, Callable[[], Rows]] = {
    "false-positives": tabulate_false_positives,
    "queries": tabulate_queries,
    "replication": tabulate_replication,
    "distances": tabulate_distances,
    "many": tabulate_many,
    "means": tabulate_means,
    "tests": tabulate_tests,
}


def main() -> None:
    """Print all tables."""
    for name, tabulate in TABLES.items():
        header, *rows = tabulate()
        print(f"\n{name}")
        print_header(*header)
        for row in rows:
            print_row(*row)


if __name__ == "__main__":
    main()
