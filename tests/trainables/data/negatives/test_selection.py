import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from trainables.data.negatives.negative_sampler import PoolError
from trainables.data.negatives.selection import find_nearest, sample_negatives, scale_global_max, scale_min_max

orders = st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0]), min_size=5, max_size=60).map(np.array)


def positions(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@given(orders, st.integers(1, 70))
def test_nearest_are_the_first_of_a_stable_sort(order: np.ndarray, n: int) -> None:
    best = sorted((i for i in range(len(order)) if order[i] > 0), key=lambda i: -order[i])[:n]
    assert find_nearest(order, n).tolist() == best


@given(orders, st.data())
def test_sampled_are_the_nearest_that_are_not_excluded(order: np.ndarray, data: st.DataObject) -> None:
    excluded = positions(*data.draw(st.sets(st.integers(0, len(order) - 1), max_size=3)))
    n = data.draw(st.integers(1, len(order) - len(excluded)))
    negatives = sample_negatives("q", order, excluded, n)
    kept = [i for i in range(len(order)) if order[i] > 0 and i not in excluded]
    assert negatives.positions[: negatives.n_found].tolist() == sorted(kept, key=lambda i: -order[i])[:n]
    assert len(set(negatives.positions.tolist())) == n
    assert not np.isin(negatives.positions, excluded).any()
    assert (order[negatives.positions[negatives.n_found :]] <= 0).all()


def test_draws_are_named_by_the_query_and_uniform() -> None:
    nothing = np.zeros(50)
    first = sample_negatives("q", nothing, positions(), 5).positions.tolist()
    assert sample_negatives("q", nothing, positions(), 5).positions.tolist() == first
    assert sample_negatives("other", nothing, positions(), 5).positions.tolist() != first
    counts = np.bincount(
        np.concatenate([sample_negatives(f"q{i}", np.zeros(10), positions(3), 3).positions for i in range(3000)]),
        minlength=10,
    )
    assert counts[3] == 0
    assert abs(np.delete(counts, 3) - 1000).max() < 130  # 5 standard deviations of a binomial


eighths = st.one_of(st.just(math.nan), st.integers(-80, 80).map(lambda value: value / 8))


@given(arrays(np.float64, array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=5), elements=eighths))
@example(np.array([[-1.0, -3.0]]))  # one above its largest is nothing
def test_global_max_divides_by_one_more_than_the_largest_of_the_set(scores: np.ndarray) -> None:
    """Negative scores count as 0, absent ones stay absent, and a set without a positive score has labels of 0."""
    largest = max([0.0, *(score for score in scores.ravel() if not math.isnan(score))])
    expected = [score if math.isnan(score) else max(score, 0.0) / (largest + 1) for score in scores.ravel()]
    np.testing.assert_array_equal(scale_global_max(scores), np.array(expected).reshape(scores.shape))


@given(st.lists(st.integers(-40, 40), max_size=12))
def test_weak_labels_are_the_place_of_a_score_in_its_range(values: list[int]) -> None:
    low, high = min(values, default=0), max(values, default=0)
    expected = [0.01 + 0.98 * ((v - low) / (high - low) if high > low else 0.0) for v in values]
    np.testing.assert_allclose(scale_min_max(np.array(values, dtype=float)), expected)


@given(orders, st.data())
def test_as_the_authors_the_nearest_of_all_are_taken_and_the_relevant_ones_among_them_drawn_again(
    order: np.ndarray, data: st.DataObject
) -> None:
    excluded = positions(*data.draw(st.sets(st.integers(0, len(order) - 1), max_size=3)))
    left = len(order) - len(excluded)
    n = data.draw(st.integers(1, left))
    found = sample_negatives("q", order, excluded, n, replace=True)
    best = sorted((i for i in range(len(order)) if order[i] > 0), key=lambda i: -order[i])[:n]
    assert found.positions[: found.n_found].tolist() == [i for i in best if i not in excluded]
    assert len(set(found.positions.tolist()) - set(excluded.tolist())) == n
    for replace in (False, True):
        with pytest.raises(PoolError, match=f"{left} documents are left for {left + 1} negatives"):
            sample_negatives("q", order, excluded, left + 1, replace)


def test_nothing_is_near_in_an_empty_pool() -> None:
    assert find_nearest(np.empty(0), 3).tolist() == []
