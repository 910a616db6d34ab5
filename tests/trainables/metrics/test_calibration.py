"""Laws of Brier score, likelihood, reliability and rank correlation: plain loops and scipy are the oracles."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from trainables.metrics import (
    brier_score,
    expected_calibration_error,
    negative_log_likelihood,
    reliability_curve,
    spearman,
)

pairs = st.lists(st.tuples(st.floats(-30, 30), st.integers(0, 1)), min_size=1, max_size=40)


def sigmoid(score: float) -> float:
    return 1 / (1 + math.exp(-score))


@given(pairs)
def test_brier_and_likelihood_are_those_of_plain_loops(found: list[tuple[float, int]]) -> None:
    scores, relevant = [score for score, _ in found], [label for _, label in found]
    squares = [(sigmoid(score) - label) ** 2 for score, label in found]
    logs = [-math.log(sigmoid(score if label else -score)) for score, label in found]
    assert brier_score(scores, relevant) == pytest.approx(math.fsum(squares) / len(found), abs=1e-12)
    assert negative_log_likelihood(scores, relevant) == pytest.approx(math.fsum(logs) / len(found), abs=1e-12)


def test_sure_scores_do_not_overflow() -> None:
    assert negative_log_likelihood([1e4, -1e4], [0, 1]) == 1e4
    assert negative_log_likelihood([np.inf, -np.inf], [1, 0]) == 0
    assert negative_log_likelihood([np.inf], [0]) == np.inf
    assert brier_score([1e4, -1e4], [0, 1]) == 1
    assert expected_calibration_error([0.0, 0.0], [0, 1]) == 0
    assert expected_calibration_error([1e4, -1e4], [1, 0]) == 0
    assert expected_calibration_error([1e4, -1e4], [0, 1]) == 1


@given(pairs, st.integers(1, 20))
def test_the_curve_is_that_of_plain_loops_and_the_calibration_error_its_gap(
    found: list[tuple[float, int]], bins: int
) -> None:
    scores, relevant = np.array(found).T
    curve = reliability_curve(scores, relevant, bins)
    assert curve.candidates.sum() == len(found)
    probabilities = 0.5 * (1 + np.tanh(scores / 2))  # not the oracle's sigmoid: its last digit may cross an edge
    for number in range(bins):
        inside = [
            (p, label)
            for p, label in zip(probabilities, relevant, strict=True)
            if min(int(p * bins), bins - 1) == number
        ]
        assert curve.candidates[number] == len(inside)
        if inside:
            assert curve.probability[number] == pytest.approx(sum(p for p, _ in inside) / len(inside), abs=1e-12)
            assert curve.relevant[number] == pytest.approx(sum(label for _, label in inside) / len(inside), abs=1e-12)
        else:
            assert np.isnan(curve.probability[number])
            assert np.isnan(curve.relevant[number])
    gaps = np.nansum(np.abs(curve.probability - curve.relevant) * curve.candidates) / len(found)
    assert expected_calibration_error(scores, relevant, bins) == pytest.approx(gaps, abs=1e-12)


@pytest.mark.parametrize(
    "function", [brier_score, expected_calibration_error, negative_log_likelihood, reliability_curve]
)
@pytest.mark.parametrize(
    ("scores", "relevant", "message"),
    [
        ([], [], "as many scores as labels"),
        ([math.nan], [1], "as many scores as labels"),
        ([0.0, 1.0], [1], "as many scores as labels"),
        ([0.0, 1.0], [1, 2], "only 0 and 1"),
    ],
)
def test_what_has_no_probability_is_an_error(
    function: object, scores: list[float], relevant: list[int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        function(scores, relevant)


@given(st.lists(st.tuples(st.integers(-4, 4), st.integers(0, 3)), min_size=2, max_size=30))
def test_spearman_is_scipys(found: list[tuple[int, int]]) -> None:
    scores, grades = np.array(found, dtype=float).T
    if len(set(grades)) == 1:
        with pytest.raises(ValueError, match="all grades are equal"):
            spearman(scores, grades)
    elif len(set(scores)) == 1:
        assert spearman(scores, grades) == 0
    else:
        assert spearman(scores, grades) == pytest.approx(spearmanr(scores, grades).statistic, abs=1e-12)
        assert spearman(np.exp(scores), grades**3) == spearman(scores, grades)
        assert spearman(-scores, grades) == pytest.approx(-spearman(scores, grades), abs=1e-15)


@pytest.mark.parametrize(("scores", "grades"), [([1.0], [2.0]), ([1.0, np.nan], [1, 2]), ([1.0, 2.0], [1, 2, 3])])
def test_what_has_no_correlation_is_an_error(scores: list[float], grades: list[float]) -> None:
    with pytest.raises(ValueError, match="two pairs or more"):
        spearman(scores, grades)
