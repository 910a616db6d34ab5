"""Tests of groups of runs are what they are called, and their shares have the errors of a jackknife."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.regression.mixed_linear_model import MixedLM, VCSpec

from analysis.stats.paired_tests import estimate_over_both, estimate_over_queries
from analysis.stats.permutation_tests import sign_flip, wilcoxon
from benchmarks.statistics import replication
from benchmarks.statistics.simulation import Squares, estimate_here
from benchmarks.statistics.simulation import estimate_over_queries as estimate_queries_of_arrays

SEEDS, QUERIES, SIZE = 14, 80, 4
RNG = np.random.default_rng(7)
VALUES = RNG.normal(size=QUERIES) + RNG.normal(0, 0.1, (SEEDS, 1)) + RNG.normal(0, 0.5, (SEEDS, QUERIES))
GROUPS = replication.draw_groups(SEEDS, SIZE, 60)
FIRST, SECOND = np.split(GROUPS, 2, axis=1)
D = np.array([VALUES[one] - VALUES[other] for one, other in zip(FIRST, SECOND, strict=True)])


def test_groups_are_disjoint_and_every_seed_is_drawn():
    assert all(len({*group}) == 2 * SIZE for group in GROUPS.tolist())
    assert {*GROUPS.ravel().tolist()} == {*range(SEEDS)}


def test_mean_squares_of_groups_are_those_of_their_differences():
    found, expected = replication.compute_squares(VALUES, GROUPS), Squares.from_differences(D)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize(
    ("estimator", "product"),
    [(estimate_queries_of_arrays, estimate_over_queries), (estimate_here, estimate_over_both)],
)
def test_the_tests_by_mean_squares_are_those_of_the_product(estimator, product):
    rejected = replication.by_squares(estimator)(VALUES, GROUPS)
    assert rejected.tolist() == [product(d).test().p < 0.05 for d in D]
    assert 0 < rejected.sum() < len(GROUPS)


def test_tests_over_seeds_and_wilcoxon_are_those_of_the_libraries():
    means = D.mean(axis=2)
    flips = [sign_flip(own) < 0.05 for own in means]
    assert replication.reject_by_sign_flips(VALUES, GROUPS).tolist() == flips
    welch = [stats.ttest_ind(VALUES[a].mean(1), VALUES[b].mean(1), equal_var=False).pvalue < 0.05
             for a, b in zip(FIRST, SECOND, strict=True)]  # fmt: skip
    assert replication.reject_by_welch(VALUES, GROUPS).tolist() == welch
    ranks = [wilcoxon(d.mean(axis=0)) < 0.05 for d in D]
    assert replication.reject_by_wilcoxon(VALUES, GROUPS).tolist() == ranks


def test_the_multi_bootstrap_is_close_to_one_that_resamples_queries_themselves():
    def resample(first, second, rng):
        queries = rng.integers(QUERIES, size=(1_000, QUERIES))
        rows = rng.integers(SIZE, size=(2, 1_000, SIZE))
        parts = [
            own[rows[side][:, :, None], queries[:, None, :]].mean(axis=(1, 2))
            for side, own in ((0, first), (1, second))
        ]
        d = parts[0] - parts[1]
        return 2 * min((d <= 0).mean(), (d >= 0).mean()) < 0.05

    exact = [
        resample(VALUES[a], VALUES[b], np.random.default_rng(n))
        for n, (a, b) in enumerate(zip(FIRST, SECOND, strict=True))
    ]
    found = replication.reject_by_multi_bootstrap(VALUES, GROUPS)
    assert np.mean(found != np.array(exact)) < 0.05
    assert 0 < found.mean() < 0.5


def test_the_mixed_model_has_the_standard_error_of_reml():
    rng, size, queries = np.random.default_rng(3), 3, 30
    values = rng.normal(size=queries) + rng.normal(0, 0.5, (2 * size, 1)) + rng.normal(0, 0.5, (2 * size, queries))
    values += np.repeat(rng.normal(0, 0.7, (2, queries)), size, axis=0)
    system, run, query = (axis.ravel() for axis in np.meshgrid([0, 1], range(size), range(queries), indexing="ij"))
    factors = {"run": 2 * run + system, "query": query, "query of a system": 2 * query + system}
    matrices = [[np.equal.outer(own, np.unique(own)).astype(float)] for own in factors.values()]
    columns = [[[str(level) for level in np.unique(own)]] for own in factors.values()]
    design = np.column_stack([np.ones(len(system)), system])
    fit = MixedLM(values.ravel(), design, np.ones(len(system)), exog_vc=VCSpec([*factors], columns, matrices)).fit()
    error = replication.compute_mixed_error(values, np.arange(2 * size)[None])
    assert float(error[0]) == pytest.approx(float(fit.bse[1]), rel=0.01)


def test_the_error_of_a_share_of_pairs_is_that_of_leaving_out_each_seed():
    pairs = np.stack(np.triu_indices(6, 1), axis=1)
    decisions = RNG.random((2, 15)) < 0.4
    share = replication.make_share(decisions, pairs, 6)
    without = [decisions[:, [seed not in pair for pair in pairs.tolist()]].mean() for seed in range(6)]
    assert share.value == decisions.mean()
    assert share.error == pytest.approx((5 / 6 * np.sum((without - np.mean(without)) ** 2)) ** 0.5)


def test_a_large_difference_replicates_and_a_single_query_does_not():
    groups = replication.draw_groups(10, 2, 50)
    everywhere = RNG.normal(0.5, 0.1, (10, 40))
    assert replication.count_replications(everywhere, groups).tolist() == [50, 50, 50, 50]
    turned = everywhere * np.where(np.arange(10) < 5, 1, -1)[:, None]
    drawn, found, sign, again = replication.count_replications(turned, groups)
    assert drawn == 50
    assert again <= sign < found
