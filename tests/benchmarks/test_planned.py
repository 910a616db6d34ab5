"""The differences that `--dry-run --records` prints are found with the power that it says, on drawn studies."""

import numpy as np
import pytest

from analysis.archive import load_scores
from analysis.comparisons.planning import compute_detectable_effects, estimate_from_scores
from analysis.data.score_table import build_score_table
from analysis.stats.power import DifferenceVariance
from benchmarks.statistics.planned import (
    PAIRS,
    draw_studies,
    estimate_without_bias,
    make_plan,
    measure_power,
)

SEEDS, QUERIES = 5, 500


def test_drawn_differences_have_the_variances_and_the_mean_that_they_should() -> None:
    rng = np.random.default_rng(3)
    d = rng.normal(size=(8, 1)) + rng.exponential(size=400) + rng.normal(size=(8, 400))
    expected = DifferenceVariance(0.3, 0.2, 1.5)
    drawn = draw_studies(d, expected, SEEDS, QUERIES, 300, rng)
    found = np.mean([estimate_without_bias(one) for one in drawn], axis=0)
    assert found == pytest.approx(expected, rel=0.1)
    assert drawn.mean() == pytest.approx(0, abs=4 * (0.3 / SEEDS / 300) ** 0.5)


@pytest.mark.parametrize("pair", PAIRS)
def test_a_printed_difference_is_found_in_four_of_five_studies(pair: tuple[str, str]) -> None:
    plan, table = make_plan(), build_score_table(load_scores("smoothing-ubuntu-bm25"))
    pilot = estimate_from_scores(plan, table)
    (effect,) = compute_detectable_effects(plan, pilot.variances, QUERIES, [SEEDS])[PAIRS.index(pair)].effects
    d, variance = table.values[pair[0]] - table.values[pair[1]], pilot.variances[pair]
    assert effect is not None
    for of_the_seeds in (variance, estimate_without_bias(d)):
        assert measure_power(d, of_the_seeds, effect, SEEDS, QUERIES, 1000) == pytest.approx(0.8, abs=0.05)
    assert measure_power(d, variance, 0.8 * effect, SEEDS, QUERIES, 1000) < 0.75
