"""Batch t is a pure function of (seed, t)."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from tests.trainables.small import batch, rectangle
from trainables.data.query_groups import QueryGroups
from trainables.specs.ranker import RankerTrainingSettings
from trainables.training.batching import BatchSampler, sample_epoch_pairs, sample_instances

shapes = st.tuples(st.integers(1, 30), st.integers(2, 10), st.integers(1, 9), st.integers(1, 8)).filter(
    lambda shape: shape[2] < shape[1]
)


@given(shapes, st.integers(0, 2**31), st.integers(0, 50))
def test_a_batch_holds_relevant_documents_each_with_its_own_negatives(shape, seed, step):
    queries, candidates, negatives, groups = shape
    rows = batch(seed, step, np.ones(queries, int), candidates, groups * (1 + negatives), negatives).reshape(groups, -1)
    assert (rows[:, 0] % candidates == 0).all()
    assert (rows // candidates == rows[:, :1] // candidates).all()
    assert all(len(set(row)) == 1 + negatives for row in rows)
    assert rows.max() < queries * candidates


@given(st.integers(0, 2**31), st.integers(1, 12), st.integers(1, 7))
def test_every_epoch_shows_each_query_once(seed, queries, groups):
    shown = np.concatenate(
        [batch(seed, step, np.ones(queries, int), 5, groups * 2, 1)[::2] // 5 for step in range(queries)]
    )
    for epoch in range(len(shown) // queries):
        assert sorted(shown[epoch * queries : (epoch + 1) * queries]) == list(range(queries))


@given(st.integers(0, 2**31), st.lists(st.integers(1, 3), min_size=1, max_size=20), st.integers(1, 6))
def test_with_several_relevant_documents_one_is_drawn_and_none_is_a_negative(seed, relevant, groups):
    rows = batch(seed, 0, np.array(relevant), 6, groups * 4, 3).reshape(groups, 4)
    counts = np.array(relevant)[rows[:, 0] // 6]
    assert (rows[:, 0] % 6 < counts).all()
    assert (rows[:, 1:] % 6 >= counts[:, None]).all()
    assert all(len(set(row)) == 4 for row in rows)


@given(st.integers(0, 2**31), st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(1, 5))
def test_a_relevant_document_is_never_a_negative(seed, relevant, negatives):
    chosen, counts = np.arange(len(relevant)), np.array(relevant)
    if negatives > 6 - max(relevant):
        with pytest.raises(
            ValueError, match=f"{negatives} negatives a query, but a query has only {6 - max(relevant)}"
        ):
            sample_instances(seed, 0, chosen, rectangle(counts, 6), negatives)
        return
    rows = sample_instances(seed, 0, chosen, rectangle(counts, 6), negatives).reshape(-1, 1 + negatives)
    assert (rows[:, 1:] % 6 >= counts[:, None]).all()


def test_every_relevant_document_is_drawn_evenly():
    rows = np.concatenate([batch(3, step, np.full(10, 3), 6, 20, 1)[::2] for step in range(600)])
    counts = np.bincount(rows % 6, minlength=3)
    assert len(counts) == 3
    assert abs(counts - 2000).max() < 180  # 5 standard deviations of a binomial are 183


def test_negatives_are_drawn_evenly():
    rows = np.concatenate(
        [batch(3, step, np.ones(50, int), 10, 20, 1).reshape(-1, 2)[:, 1] % 10 for step in range(900)]
    )
    counts = np.bincount(rows, minlength=10)
    assert counts[0] == 0
    assert abs(counts[1:] - 1000).max() < 150  # 5 standard deviations of a binomial are 149


def pair_sampler(seed: int, queries: int, batch_size: int, negatives: int, **settings: object) -> BatchSampler:
    """Returns a sampler of single pairs, from one relevant candidate and 9 others of each query."""
    training = RankerTrainingSettings.model_validate(
        {"instances": batch_size * 60, "batch_size": batch_size, "negatives": negatives, "unit": "pair"} | settings
    )
    return BatchSampler(seed, training, rectangle(np.ones(queries), 10))


@given(st.integers(0, 2**31), st.integers(1, 12), st.integers(2, 17), st.integers(1, 9))
def test_every_epoch_shows_each_pair_once(seed, queries, batch_size, negatives):
    drawn = pair_sampler(seed, queries, batch_size, negatives)
    size = queries * (1 + negatives)
    shown = np.concatenate([drawn.sample_rows(step) for step in range(3 * size // batch_size + 1)])
    for epoch in range(3):
        rows = shown[epoch * size : (epoch + 1) * size]
        assert len(set(rows)) == size
        assert (np.bincount(rows // 10, minlength=queries) == 1 + negatives).all()
        assert (rows % 10 == 0).sum() == queries
        np.testing.assert_array_equal(rows, sample_epoch_pairs(seed, epoch, rectangle(np.ones(queries), 10), negatives))


@given(
    st.integers(0, 2**31), st.lists(st.integers(1, 4), min_size=1, max_size=9), st.integers(2, 17), st.integers(1, 3)
)
def test_every_epoch_of_pairs_has_all_relevant_documents_and_the_negatives_of_each_query(
    seed, relevant, batch_size, negatives
):
    rows = QueryGroups.from_relevant(np.concatenate([np.repeat([1, 0], [count, 3]) for count in relevant]))
    settings = RankerTrainingSettings(batch_size=batch_size, negatives=negatives, unit="pair")
    drawn, counts = BatchSampler(seed, settings, rows), np.array(relevant)
    size = counts.sum() + len(counts) * negatives
    shown = np.concatenate([drawn.sample_rows(step) for step in range(2 * size // batch_size + 1)])
    for epoch in (shown[:size], shown[size : 2 * size]):
        assert len(set(epoch.tolist())) == size
        is_relevant = rows.places[epoch] < counts[rows.queries[epoch]]
        np.testing.assert_array_equal(np.bincount(rows.queries[epoch[is_relevant]], minlength=len(counts)), counts)
        assert (np.bincount(rows.queries[epoch[~is_relevant]], minlength=len(counts)) == negatives).all()


@given(st.integers(0, 2**31), st.integers(0, 30))
def test_pairs_of_several_relevant_documents_are_drawn_evenly_and_once_a_batch(seed, step):
    rows = QueryGroups.from_relevant(np.tile([1, 1, 1, 0, 0, 0, 0], 20))
    settings = RankerTrainingSettings(batch_size=32, negatives=2, unit="pair", sampling="uniform")
    batches = [BatchSampler(seed, settings, rows).sample_rows(step + i) for i in range(20)]
    assert all(len(set(drawn.tolist())) == 32 for drawn in batches)
    n_relevant = (rows.places[np.concatenate(batches)] < 3).sum()
    assert abs(n_relevant - 0.6 * 640) < 80  # more than 6 standard deviations of a binomial


@pytest.mark.parametrize("settings", [{}, {"sampling": "uniform"}])
def test_a_batch_of_pairs_is_a_function_of_seed_and_step(settings):
    one, other = (pair_sampler(5, 7, 32, 9, **settings) for _ in range(2))
    expected = [one.sample_rows(step) for step in range(6)]
    for step in (5, 0, 3, 1, 4, 2):
        np.testing.assert_array_equal(other.sample_rows(step), expected[step])
    assert not np.array_equal(pair_sampler(6, 7, 32, 9, **settings).sample_rows(0), expected[0])


def test_batches_of_pairs_are_those_of_the_authors_of_wsls():
    """32 of all pairs: 3.2 +- 1.7 relevant ones, 4 % of batches without one, and nearly as many queries as pairs."""
    drawn, queries = pair_sampler(1, 20_000, 32, 9, instances=50_016), 20_000
    batches = np.stack([drawn.sample_rows(step) for step in range(1_563)])
    positives = (batches % 10 == 0).sum(axis=1)
    assert positives.mean() == pytest.approx(3.2, abs=0.2)
    assert positives.std() == pytest.approx(1.7, abs=0.15)
    assert (positives == 0).mean() == pytest.approx(0.9**32, abs=0.02)
    expected = queries * (1 - (1 - batches.size / (10 * queries)) ** 10)
    assert len(np.unique(batches // 10)) == pytest.approx(expected, rel=0.01)
    assert np.mean([len(set(rows // 10)) for rows in batches]) > 31.9


@pytest.mark.parametrize(
    "queries", [82_181, *(pytest.param(count, marks=pytest.mark.long) for count in (119_410, 502_939))]
)
def test_pairs_of_tasks_of_the_real_size_come_from_as_many_queries_as_with_the_authors(queries):
    """50,000 instances see 38,000 to 48,000 queries: those with a pair in a sample without replacement.

    The numbers of queries are those of MANtIS, QQP and TREC-DL.
    """
    drawn = pair_sampler(1, queries, 32, 9, instances=50_016)
    found = len(np.unique(np.concatenate([drawn.sample_rows(step) for step in range(1_563)]) // 10))
    expected = queries * (1 - hypergeom(10 * queries, 10, 50_016).pmf(0))
    assert found == pytest.approx(expected, rel=0.005)
    assert 38_000 <= found <= 48_000


def test_a_batch_of_pairs_makes_no_python_object_for_each_query():
    drawn, queries = pair_sampler(1, 500_000, 32, 9, sampling="uniform"), 500_000
    tracemalloc.start()
    drawn.sample_rows(0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * queries  # a few arrays of 8 bytes a query
