"""Runs that look collapsed: which are found, how rarely none is, and the regression of the outlier test."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.formula.api import ols

from analysis.stats.outlying_runs import _LEVEL, estimate_noise, find_outlying_runs


def _study(rng: np.random.Generator, systems: int, seeds: int) -> dict[str, np.ndarray]:
    """Normal means of runs with effects of the seeds that all systems share."""
    shared, means = rng.normal(0, 0.02, seeds), rng.uniform(0.3, 0.7, systems)
    return {f"S{place}": mean + shared + rng.normal(0, 0.006, seeds) for place, mean in enumerate(means)}


def _find(means: dict[str, np.ndarray], **how: object) -> list[tuple[str, int]]:
    return [(run.system, run.seed) for run in find_outlying_runs(means, **how)]


@pytest.mark.parametrize(("seed", "loss"), [(1, 0.0), (2, 0.03), (3, 0.03), (4, 0.045), (5, 0.06), (6, 0.1)])
def test_a_single_loss_is_found_where_the_outlier_test_of_a_regression_finds_it(seed: int, loss: float) -> None:
    """The oracle: externally studentised residuals of statsmodels, Bonferroni over the runs."""
    means = {name: own - 0.0 for name, own in _study(np.random.default_rng(seed), 5, 3).items()}
    means["S1"][2] -= loss
    rows = [(name, row, value) for name, own in means.items() for row, value in enumerate(own)]
    fit = ols("y ~ C(n) + C(s)", pd.DataFrame(rows, columns=["n", "s", "y"])).fit()
    studentised = fit.get_influence().resid_studentized_external
    largest = int(np.abs(studentised).argmax())
    p = 2 * stats.t.sf(abs(studentised[largest]), fit.df_resid - 1) * len(rows)
    assert (rows[largest][:2] == ("S1", 2) and p < _LEVEL) == (_find(means) == [("S1", 2)])


@pytest.mark.parametrize("rows", [[("S1", 2)], [("S1", 0), ("S1", 2)], [("S0", 1), ("S3", 4)], [("S2", 0), ("S4", 0)]])
def test_collapsed_runs_do_not_hide_each_other(rows: list[tuple[str, int]]) -> None:
    means = _study(np.random.default_rng(3), 5, 5)
    for system, row in rows:
        means[system][row] -= 0.3
    assert _find(means) == rows
    upwards = {name: 1 - own for name, own in means.items()}
    assert _find(upwards) == _find(upwards, less_is_better=True) == rows
    for less_is_better in (False, True):
        found = find_outlying_runs(upwards, less_is_better)
        assert [run.is_worse for run in found] == [less_is_better] * len(rows)


def test_if_most_runs_of_a_system_collapse_the_good_one_is_named() -> None:
    means = _study(np.random.default_rng(6), 5, 5)
    means["S3"][:4] -= 0.3
    assert [(run.system, run.seed, run.is_worse) for run in find_outlying_runs(means)] == [("S3", 4, False)]


def test_a_seed_that_is_bad_for_all_systems_is_no_collapse() -> None:
    """The tests are paired over seeds, so that it does them no harm."""
    means = _study(np.random.default_rng(4), 5, 5)
    for own in means.values():
        own[2] -= 0.3
    assert _find(means) == []


def test_the_run_and_the_others_are_described_in_the_given_numbers() -> None:
    means = {"BERT": np.array([0.731, 0.738, 0.735]), "LS": np.array([0.74, 0.412, 0.744])}
    (run,) = find_outlying_runs(means)
    assert run == ("LS", 1, 0.412, (0.74, 0.744), True, "")


def test_missing_runs_are_ignored() -> None:
    means = _study(np.random.default_rng(5), 4, 5)
    means["S1"][2] -= 0.3
    means["S0"][0] = np.nan
    means["lost"], means["one"] = np.full(5, np.nan), np.array([np.nan, np.nan, 0.5, np.nan, np.nan])
    assert _find(means) == [("S1", 2)]
    assert _find({"BM25": np.array([0.2])}) == _find({}) == []


@pytest.mark.parametrize(("systems", "seeds"), [(5, 2), (5, 3), (2, 3), (3, 10)])
def test_at_most_one_study_of_a_hundred_gets_a_false_alarm(systems: int, seeds: int) -> None:
    rng, studies = np.random.default_rng([systems, seeds]), 300
    alarms = sum(bool(_find(_study(rng, systems, seeds))) for _ in range(studies))
    assert alarms <= stats.binom.ppf(0.999, studies, 0.01)


def test_a_large_loss_is_found() -> None:
    rng, found = np.random.default_rng(7), 0
    for _ in range(100):
        means = _study(rng, 5, 5)
        means["S0"][1] -= 0.1
        found += ("S0", 1) in _find(means)
    assert found >= 95


def test_seeds_that_agree_by_chance_are_no_reason() -> None:
    """With 20 queries a mean is a multiple of .05, and one query more or less is no collapse."""
    values = {name: np.tile(np.arange(20) < 10, (3, 1)).astype(float) for name in "ABCDE"}
    for place, own in enumerate(values.values()):
        own[:, [place, 19 - place]] = own[:, [19 - place, place]]
        own[place % 3, [8, 12]] = own[place % 3, [12, 8]]  # the seeds differ, their means do not
    values["A"][1, 3] = 0
    values["B"][2, 18] = 1
    means = {name: own.mean(axis=1) for name, own in values.items()}
    noise = estimate_noise(values)
    assert 0 < noise < 0.05**2
    assert _find(means, noise=noise) == []
    values["A"][1, :] = 0
    assert _find({name: own.mean(axis=1) for name, own in values.items()}, noise=noise) == [("A", 1)]


def test_the_noise_is_the_variance_that_queries_leave() -> None:
    rng = np.random.default_rng(8)
    values = {name: rng.normal(0.5, 0.2, 400) + rng.normal(0, 0.1, (200, 400)) for name in "AB"}
    assert estimate_noise(values) == pytest.approx(0.1**2 / 400, rel=0.05)
    assert estimate_noise({"A": np.ones((1, 5)), "B": np.ones((5, 1)), "C": np.full((2, 2), np.nan)}) == 0
