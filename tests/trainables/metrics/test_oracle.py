"""Laws of R_n@k: the ir-measures oracle without ties, the mean over all orders with them."""

import math
from itertools import permutations

import ir_measures
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from trainables.metrics import expected_calibration_error, parse_recall_name, recall_at

tied_scores = st.integers(2, 5).flatmap(lambda n: arrays(np.int64, n, elements=st.integers(0, 2)))


@pytest.mark.parametrize(("k", "relevant"), [(1, 1), (3, 1), (10, 1), (2, 4)])
def test_constant_scorer_finds_its_share(k: int, relevant: int) -> None:
    labels = np.zeros((3, 10))
    labels[:, :relevant] = 1
    np.testing.assert_allclose(recall_at(k, np.zeros((3, 10)), labels), np.full(3, k / 10), rtol=1e-15)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_without_ties_equals_ir_measures(k: int) -> None:
    rng = np.random.default_rng(3)
    scores, labels = rng.normal(size=(20, 10)), rng.random((20, 10)) < 0.2
    labels[:, 0] = True
    qrels = [ir_measures.Qrel(str(q), str(d), int(labels[q, d])) for q in range(20) for d in range(10)]
    run = [ir_measures.ScoredDoc(str(q), str(d), float(scores[q, d])) for q in range(20) for d in range(10)]
    oracle = {int(m.query_id): m.value for m in ir_measures.iter_calc([ir_measures.R @ k], qrels, run)}
    np.testing.assert_allclose(recall_at(k, scores, labels), [oracle[q] for q in range(20)])
    single = np.eye(1, 10).repeat(20, axis=0)
    qrels = [ir_measures.Qrel(str(q), "0", 1) for q in range(20)]
    success = {int(m.query_id): m.value for m in ir_measures.iter_calc([ir_measures.Success @ k], qrels, run)}
    np.testing.assert_allclose(recall_at(k, scores, single), [success[q] for q in range(20)])


@given(scores=tied_scores, k=st.integers(1, 6), data=st.data())
@settings(max_examples=60, deadline=None)
def test_ties_are_the_mean_over_all_orders(scores: np.ndarray, k: int, data: st.DataObject) -> None:
    labels = data.draw(arrays(np.int64, len(scores), elements=st.integers(0, 1)).filter(lambda x: x.any()))
    found = []
    for order in permutations(range(len(scores))):
        first = sorted(order, key=lambda i: -scores[i])[:k]  # stable: `order` breaks the ties
        found.append(labels[first].sum() / labels.sum())
    assert recall_at(k, scores[None], labels[None])[0] == pytest.approx(np.mean(found), abs=1e-12)


@given(scores=tied_scores, k=st.integers(1, 4), data=st.data())
@settings(max_examples=60, deadline=None)
def test_order_of_candidates_does_not_matter(scores: np.ndarray, k: int, data: st.DataObject) -> None:
    labels = np.eye(1, len(scores))[0]
    order = np.array(data.draw(st.permutations(range(len(scores)))))
    assert recall_at(k, scores[None], labels[None]) == recall_at(k, scores[order][None], labels[order][None])


def test_an_infinite_score_is_ranked_and_a_minus_infinite_one_is_not() -> None:
    assert recall_at(1, [[np.inf, 0.0], [np.inf, np.inf], [-np.inf, -np.inf]], [[1, 0]] * 3).tolist() == [1.0, 0.5, 0.0]


@pytest.mark.parametrize(
    ("k", "scores", "relevant", "message"),
    [
        (1, [[np.nan, 1.0]], [[1, 0]], "NaN"),
        (0, [[1.0, 2.0]], [[1, 0]], "at least 1"),
        (1, [[1.0, 2.0]], [[0, 0]], "no relevant"),
        (1, [[1.0, 2.0]], [[2, 0]], "only 0 and 1"),
        (1, [1.0, 2.0], [1, 0], "queries, candidates"),
        (1, [[1.0, 2.0]], [[1, 0, 0]], "queries, candidates"),
    ],
)
def test_bad_input_is_refused(k: int, scores: list[float], relevant: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recall_at(k, scores, relevant)


def test_names() -> None:
    assert parse_recall_name("R10@1") == (10, 1)
    for name in ("R10@11", "MAP", "R10@0", "R10", "r10@1"):
        with pytest.raises(ValueError, match="not a metric"):
            parse_recall_name(name)


def calibration_by_hand(scores: list[float], relevant: list[int], bins: int) -> float:
    """The oracle: plain loops over the bins."""
    total = 0.0
    for number in range(bins):
        low, high = number / bins, (number + 1) / bins
        inside = []
        for score, label in zip(scores, relevant, strict=True):
            probability = 1 / (1 + math.exp(-score))
            if low <= probability < high or (number == bins - 1 and probability >= low):
                inside.append((probability, label))
        if inside:
            gap = sum(p for p, _ in inside) / len(inside) - sum(label for _, label in inside) / len(inside)
            total += len(inside) / len(scores) * abs(gap)
    return total


@given(st.lists(st.tuples(st.floats(-30, 30), st.integers(0, 1)), min_size=1, max_size=40), st.integers(1, 20))
def test_calibration_error_is_that_of_plain_loops(pairs: list[tuple[float, int]], bins: int) -> None:
    scores, relevant = [score for score, _ in pairs], [label for _, label in pairs]
    edges = [1 / (1 + math.exp(-score)) * bins for score in scores]
    assume(all(abs(edge - round(edge)) > 1e-9 or score == 0 for edge, score in zip(edges, scores, strict=True)))
    found = expected_calibration_error(scores, relevant, bins)
    assert found == pytest.approx(calibration_by_hand(scores, relevant, bins), abs=1e-9)


def test_a_perfectly_calibrated_model_has_no_calibration_error_and_a_sure_and_wrong_one_has_all() -> None:
    assert expected_calibration_error([0.0, 0.0], [0, 1]) == 0
    assert expected_calibration_error([1000.0, -1000.0], [1, 0]) == 0
    assert expected_calibration_error([1000.0, -1000.0], [0, 1]) == 1


@pytest.mark.parametrize(("scores", "relevant"), [([], []), ([math.nan], [1]), ([0.0, 1.0], [1])])
def test_what_has_no_calibration_is_refused(scores: list[float], relevant: list[int]) -> None:
    with pytest.raises(ValueError, match="as many scores as labels"):
        expected_calibration_error(scores, relevant)
