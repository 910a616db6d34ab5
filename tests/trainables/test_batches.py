"""Batch t is a pure function of (seed, t)."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trainables.batches import batch

shapes = st.tuples(st.integers(1, 30), st.integers(2, 10), st.integers(1, 9), st.integers(1, 8)).filter(
    lambda shape: shape[2] < shape[1]
)


@given(shapes, st.integers(0, 2**31), st.integers(0, 50))
def test_a_batch_holds_relevant_documents_each_with_its_own_negatives(shape, seed, step):
    queries, candidates, negatives, groups = shape
    rows = batch(seed, step, queries, candidates, groups * (1 + negatives), negatives).reshape(groups, -1)
    assert (rows[:, 0] % candidates == 0).all()
    assert (rows // candidates == rows[:, :1] // candidates).all()
    assert all(len(set(row)) == 1 + negatives for row in rows)
    assert rows.max() < queries * candidates


@given(shapes, st.integers(0, 2**31), st.integers(0, 20))
def test_order_of_asking_does_not_matter(shape, seed, step):
    queries, candidates, negatives, groups = shape
    arguments = (queries, candidates, groups * (1 + negatives), negatives)
    first = batch(seed, step, *arguments)
    batch(seed, step + 7, *arguments)
    np.testing.assert_array_equal(batch(seed, step, *arguments), first)


@given(st.integers(0, 2**31), st.integers(1, 12), st.integers(1, 7))
def test_every_epoch_shows_each_query_once(seed, queries, groups):
    shown = np.concatenate([batch(seed, step, queries, 5, groups * 2, 1)[::2] // 5 for step in range(queries)])
    for epoch in range(len(shown) // queries):
        assert sorted(shown[epoch * queries : (epoch + 1) * queries]) == list(range(queries))


def test_negatives_are_drawn_evenly():
    rows = np.concatenate([batch(3, step, 50, 10, 20, 1).reshape(-1, 2)[:, 1] % 10 for step in range(900)])
    counts = np.bincount(rows, minlength=10)
    assert counts[0] == 0
    assert abs(counts[1:] - 1000).max() < 150  # 5 standard deviations of a binomial are 149
