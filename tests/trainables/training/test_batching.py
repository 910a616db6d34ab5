"""Batch t is a pure function of (seed, t)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainables.small import batch
from trainables.specs.ranker import RankerTrainingSettings
from trainables.training.batching import BatchSampler, sample_instances

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


@given(shapes, st.integers(0, 2**31), st.integers(0, 20))
def test_order_of_asking_does_not_matter(shape, seed, step):
    queries, candidates, negatives, groups = shape
    arguments = (np.ones(queries, int), candidates, groups * (1 + negatives), negatives)
    first = batch(seed, step, *arguments)
    batch(seed, step + 7, *arguments)
    np.testing.assert_array_equal(batch(seed, step, *arguments), first)


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
def test_a_relevant_document_is_refused_as_a_negative(seed, relevant, negatives):
    chosen, counts = np.arange(len(relevant)), np.array(relevant)
    if negatives > 6 - max(relevant):
        with pytest.raises(
            ValueError, match=f"{negatives} negatives a query, but a query has only {6 - max(relevant)}"
        ):
            sample_instances(seed, 0, chosen, counts, 6, negatives)
        return
    rows = sample_instances(seed, 0, chosen, counts, 6, negatives).reshape(-1, 1 + negatives)
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


def sampler(batching: str, batches: int, seed: int = 1, queries: int = 70) -> tuple[BatchSampler, np.ndarray]:
    """Of batches of 8 pairs, 2 queries each, and the lengths of all pairs, which vary most between queries."""
    settings = RankerTrainingSettings.model_validate(
        {"instances": batches * 8, "batch_size": 8, "negatives": 3, "batching": batching}
    )
    draw = np.random.default_rng(0)
    lengths = np.repeat(draw.integers(10, 400, queries), 5) + draw.integers(0, 5, queries * 5)
    return BatchSampler(seed, settings, np.ones(queries, int), lengths), lengths


def test_uniform_batches_ignore_the_lengths():
    drawn, _ = sampler("random", 60)
    np.testing.assert_array_equal(drawn.sample_rows(55), batch(1, 55, np.ones(70, int), 5, 8, 3))


def test_bucketed_batches_hold_the_uniform_ones_instances_in_every_window():
    drawn, _ = sampler("bucketed", 120)
    for window in (range(50), range(50, 100), range(100, 120)):
        expected = np.concatenate([batch(1, step, np.ones(70, int), 5, 8, 3) for step in window])
        found = np.concatenate([drawn.sample_rows(step) for step in window])
        assert sorted(found.tolist()) == sorted(expected.tolist())
        groups = found.reshape(-1, 4)
        assert (groups // 5 == groups[:, :1] // 5).all()
        assert (groups[:, 0] % 5 == 0).all()


def test_bucketed_batches_are_of_similar_length_and_in_a_drawn_order():
    (bucketed, lengths), (uniform, _) = sampler("bucketed", 50), sampler("random", 50)
    spread = {}
    for name, drawn in (("bucketed", bucketed), ("random", uniform)):
        spread[name] = np.mean([np.ptp(lengths[drawn.sample_rows(step)]) for step in range(50)])
    assert spread["bucketed"] < spread["random"] / 5
    means = [lengths[bucketed.sample_rows(step)].mean() for step in range(50)]
    assert not np.array_equal(means, np.sort(means))


def test_a_bucketed_batch_is_a_function_of_seed_and_step():
    one, other = sampler("bucketed", 120)[0], sampler("bucketed", 120)[0]
    first = one.sample_rows(3)
    for step in (110, 60, 3):
        np.testing.assert_array_equal(one.sample_rows(step), other.sample_rows(step))
    np.testing.assert_array_equal(one.sample_rows(3), first)
    assert not np.array_equal(sampler("bucketed", 120, seed=2)[0].sample_rows(3), first)
