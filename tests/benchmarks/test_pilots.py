"""The simulation of pilots: its truth, and answers that come near it with the right model only."""

import numpy as np
import pytest

from benchmarks.statistics.pilots import Cell, format_row, simulate_answers, simulate_pilot


def test_the_truth_is_what_published_deviations_need() -> None:
    """The figures of `analysis.sample_size --seed-sd .006 --query-sd .05 --rest-sd .12` at ten seeds."""
    assert Cell(5, 3, 200, 0.0).truth == (195, 2156)
    assert Cell(5, 3, 200, 0.9).truth[1] < 2156


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_the_median_answer_is_near_the_truth(correlation: float) -> None:
    cell = Cell(5, 5, 400, correlation)
    assert np.median(simulate_answers(cell, 60)[:, 0]) == pytest.approx(cell.truth[0], rel=0.15)


def test_taking_shared_seeds_as_unrelated_asks_for_too_many_queries() -> None:
    answers = simulate_answers(Cell(5, 5, 400, 0.9, unpaired=True), 60)[:, 1]
    assert np.median(answers) > 1.5 * Cell(5, 5, 400, 0.9).truth[1]


def test_seeds_of_a_pilot_correlate_as_the_cell_says() -> None:
    """Over queries, everything but the seeds has a deviation of .0007, a tenth of theirs."""
    rng = np.random.default_rng(1)
    pilot = simulate_pilot(Cell(2, 200, 40_000, 0.9), rng)
    first, second = (scores.mean(axis=1) for scores in pilot.scores.values())
    assert np.corrcoef(first, second)[0, 1] == pytest.approx(0.9, abs=0.04)
    assert first.std() == pytest.approx(0.006, rel=0.15)


def test_a_row_counts_never_as_more_than_any_number() -> None:
    answers = np.array([[180.0, 1000.0], [195.0, np.inf], [210.0, np.inf]])
    row = format_row(Cell(5, 3, 200, 0.0), answers)
    assert row.endswith("| 195 | 195 (1.00) | 180 to 195 | 0.00 | 2,156 | never | 1,000 to never | 0.67 |")
