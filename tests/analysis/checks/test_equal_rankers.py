"""Two seeds of one system are tested as two systems would be, and reports say what comes of it."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.checks.equal_rankers import call_different, examine_equal_rankers
from analysis.compare import compare
from analysis.rendering.conclusion import list_warnings
from tests.analysis.builders import analyse, study_runs


def draw(seed, seeds, queries, deviation):
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=queries)
    return 0.5 + shared + rng.normal(0, deviation, (seeds, 1)) + rng.normal(0, 0.2, (seeds, queries))


def test_any_two_runs_have_the_decision_of_the_paired_t_test():
    values = draw(1, 7, 60, 0.05)
    different = call_different(values)
    for i, first in enumerate(values):
        for j, second in enumerate(values):
            if i != j:
                assert different[i, j] == (stats.ttest_rel(first, second).pvalue < 0.05)
    assert 0 < different.sum() < different.size - 7


def test_a_copy_is_never_different_from_its_original():
    values = draw(2, 4, 500, 0.0)
    assert not call_different(np.concatenate([values, values]))[np.arange(8), (np.arange(8) + 4) % 8].any()


def test_rate_distance_and_curve_are_over_all_pairs_of_all_systems():
    systems = {"A": draw(3, 5, 400, 0.02), "B": draw(4, 4, 400, 0.02)}
    found = examine_equal_rankers(systems)
    pairs = [(own[i], own[j]) for own in systems.values() for i in range(len(own)) for j in range(i)]
    assert found.pairs == len(pairs) == 16
    assert found.rate == np.mean([stats.ttest_rel(*pair).pvalue < 0.05 for pair in pairs])
    assert found.distance == pytest.approx(np.median([abs(one.mean() - other.mean()) for one, other in pairs]))
    assert found.rate == pytest.approx((10 * found.rates["A"] + 6 * found.rates["B"]) / 16)
    assert [*found.curve] == [50, 100, 200, 400]
    assert found.curve[400] == found.rate


def test_without_effects_of_seeds_the_rate_is_the_level_and_with_them_it_grows_with_the_queries():
    alike = examine_equal_rankers({str(n): draw(n, 10, 1000, 0.0) for n in range(20)})
    assert alike.rate == pytest.approx(0.05, abs=0.02)
    assert [*alike.curve.values()] == pytest.approx([0.05] * len(alike.curve), abs=0.02)
    moved = examine_equal_rankers({str(n): draw(n, 10, 1000, 0.02) for n in range(20)})
    rates = [*moved.curve.values()]
    assert rates == sorted(rates)
    assert rates[-1] > 0.5


@pytest.mark.parametrize(
    "values",
    [{}, {"A": draw(5, 3, 100, 0.1)}, {"A": draw(5, 1, 100, 0.1)}, {"A": np.tile(draw(5, 1, 100, 0), (5, 1))},
     {"A": draw(5, 5, 1, 0.1)}],
    ids=["none", "three seeds", "one seed", "copies", "one query"],
)  # fmt: skip
def test_nothing_is_said_without_four_seeds_that_vary_over_several_queries(values):
    assert examine_equal_rankers(values) is None


@pytest.mark.parametrize("seeds", [1, 3, 4, 5])
def test_a_comparison_of_scores_says_its_own_rate_from_four_seeds(seeds):
    values = {name: draw(number, seeds, 300, 0.05) for number, name in enumerate(("A", "B"))}
    text = str(compare(build_frame(values), ["A"]))
    found = examine_equal_rankers(values)
    assert ("two seeds of one system" in " ".join(text.split())) == (seeds >= 4) == (found is not None)
    if found:
        assert found.describe() in " ".join(text.split())
        assert f"{100 * found.rate:.0f} % of {seeds * (seeds - 1)} pairs" in " ".join(text.split())


def build_frame(values):
    rows = [(n, s, q, v) for n, own in values.items() for s, row in enumerate(own) for q, v in enumerate(row)]
    return pd.DataFrame(rows, columns=["system", "seed", "query", "value"])


@pytest.mark.parametrize("seeds", [(1, 2, 3), (1, 2, 3, 4)])
def test_a_report_says_the_rate_of_its_trained_systems_from_four_seeds(tmp_path, seeds):
    runs = study_runs(seeds=seeds, grid=False)
    analysis = analyse(tmp_path, runs, seeds=list(seeds))
    said = [line for line in list_warnings(analysis) if "two seeds of one system" in line]
    assert len(said) == (len(seeds) >= 4)
    if said:
        trained = {name: c.evaluate_queries(analysis.results.plan, "test") for name, c in analysis.chosen.items() if c}
        expected = {name: own for name, own in trained.items() if name not in ("BM25", "untrained")}
        assert said == [examine_equal_rankers(expected).describe()]
        assert analysis.equal_rankers.rates.keys() == expected.keys()
