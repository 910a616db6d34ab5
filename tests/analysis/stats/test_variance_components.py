"""Parts of the variance: the analysis of variance of a difference and by statsmodels, and what was put in."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from analysis.sample_size import main
from analysis.stats.power import DifferenceVariance
from analysis.stats.variance_components import (
    VarianceComponents,
    describe_deviations,
    estimate_variance_components,
)

SIZES = VarianceComponents(0.0004, 0.0025, 0.0144)


def scores(
    shape: tuple[int, int, int], sizes: VarianceComponents = SIZES, correlation: float = 0.0, seed: int = 1
) -> list[np.ndarray]:
    """(seeds, queries) scores of each system. The effects of a seed on two systems have this correlation."""
    systems, seeds, queries = shape
    rng = np.random.default_rng(seed)
    own, query, rest = np.sqrt(sizes[:3])
    common = rng.normal(0, own * np.sqrt(correlation / (1 - correlation)), (seeds, 1)) + rng.normal(0, 0.2, queries)
    parts = ((own, (seeds, 1)), (query, queries), (rest, (seeds, queries)))
    return [0.5 + common + sum(rng.normal(0, *part) for part in parts) for _ in range(systems)]


def frame_of(values: list[np.ndarray], disjoint: bool = False) -> pd.DataFrame:
    """The scores as a table; the seeds of each system have names of their own if they are disjoint."""
    system, seed, query = np.indices((len(values), *values[0].shape)).reshape(3, -1)
    names = {"system": [f"s{n}" for n in system], "seed": seed + 1 + 100 * disjoint * system, "query": query}
    return pd.DataFrame(names | {"value": np.stack(values).ravel()})


def test_mean_squares_are_statsmodels() -> None:
    values = scores((3, 4, 6), VarianceComponents(0.3, 0.1, 0.05), 0.5)
    ms = anova_lm(ols("value ~ (C(system) + C(seed) + C(query)) ** 2", frame_of(values)).fit())["mean_sq"]
    found = estimate_variance_components(values)
    assert found.rest == pytest.approx(ms["Residual"])
    assert found.seed_by_system == pytest.approx((ms["C(system):C(seed)"] - ms["Residual"]) / 6)
    assert found.query_by_system == pytest.approx((ms["C(system):C(query)"] - ms["Residual"]) / 4)
    assert found.seed_df == 6


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_the_components_of_the_input_come_out_with_any_shared_effects(correlation: float) -> None:
    """The components are far from zero, where negative estimates set to 0 would make the mean too large."""
    found = [estimate_variance_components(scores((4, 6, 200), SIZES, correlation, seed)) for seed in range(200)]
    assert np.mean([each[:3] for each in found if each], axis=0) == pytest.approx(np.array(SIZES[:3]), rel=0.05)


@pytest.mark.parametrize("own", [SIZES.seed_by_system, 1e-5])
def test_plans_use_a_seed_component_that_is_as_often_too_small_as_too_large(own: float) -> None:
    """The unbiased one is too small more often, with few degrees of freedom."""
    sizes = SIZES._replace(seed_by_system=own)
    found = [
        each for seed in range(1000) if (each := estimate_variance_components(scores((2, 3, 100), sizes, seed=seed)))
    ]
    assert np.mean([each.seed_median < own for each in found if each.seed_median is not None]) == pytest.approx(
        0.5, abs=0.05
    )
    assert np.mean([each.seed_by_system < own for each in found]) > 0.54
    for each in found[:20]:
        assert each.to_difference_variance() == (2 * (each.seed_median or 0.0), 2 * each.query_by_system, 2 * each.rest)


def test_what_all_systems_share_is_no_component() -> None:
    values, rng = scores((3, 4, 20)), np.random.default_rng(5)
    shared = rng.normal(0, 3, (4, 1)) + rng.normal(0, 3, 20) + rng.normal(0, 3, (4, 20))
    moved = estimate_variance_components([own + shared for own in values])
    assert moved == pytest.approx(estimate_variance_components(values), rel=1e-6)


def test_systems_that_differ_by_the_same_everywhere_do_not_vary() -> None:
    first = scores((1, 4, 30))[0]
    found = estimate_variance_components([first, first + 0.1, first - 0.3])
    assert found.to_difference_variance() == DifferenceVariance(0.0, 0.0, 0.0)


@pytest.mark.parametrize("shape", [(1, 3, 9), (2, 1, 9), (2, 3, 1)])
def test_of_too_little_nothing_is_said(shape: tuple[int, int, int]) -> None:
    assert estimate_variance_components([np.zeros(shape[1:])] * shape[0]) is None


def test_deviations_of_one_system_are_half_of_a_difference() -> None:
    assert SIZES.to_difference_variance() == (0.0008, 0.005, 0.0288)
    told = "standard deviations of one system, beyond what all systems share: seeds 0.0200, queries 0.0500, rest 0.1200"
    assert describe_deviations(SIZES) == told
    for df, count in ((1, "1 degree of freedom"), (8, "8 degrees of freedom")):
        line = f"{told}; the variation between seeds is estimated with {count}, to plan with 0.0300, which is as often"
        assert describe_deviations(SIZES._replace(seed_df=df, seed_median=0.0009)) == f"{line} too small as too large"


def test_the_command_with_published_deviations(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--seed-sd", ".006", "--query-sd", ".05", "--rest-sd", ".12", "--effect", ".005", ".02"]
    assert main([*given, "--seeds", "5", "20"]) == 0
    out = capsys.readouterr().out
    assert "seeds 0.0060, queries 0.0500, rest 0.1200\n" in out  # no degrees of freedom: they are not estimated
    rows = [line.split() for line in out.splitlines() if line.strip().startswith("0.0")]
    assert [row[0] for row in rows] == ["0.005", "0.02"]
    assert rows[0][1] == "never"  # five seeds of .006 hide half a percent, however many queries there are
    assert int(rows[1][2].replace(",", "")) < int(rows[1][1].replace(",", ""))


def run_pilot(
    frame: pd.DataFrame, folder: Path, capsys: pytest.CaptureFixture[str], *options: str
) -> tuple[int, str, str]:
    """The exit status of the command, and what it printed."""
    frame.to_csv(folder / "pilot.csv", index=False)
    status = main([str(folder / "pilot.csv"), *options])
    return status, *capsys.readouterr()


def test_the_command_takes_seeds_of_one_name_as_shared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = scores((3, 4, 50), correlation=0.9)
    found = estimate_variance_components(values)
    status, out, _ = run_pilot(frame_of(values), tmp_path, capsys, "--comparisons", "4")
    assert status == 0
    assert out.splitlines()[0] == describe_deviations(found)
    assert "estimated with 6 degrees of freedom, to plan with" in out.splitlines()[0]


def test_the_command_says_which_systems_it_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = scores((3, 4, 20))
    whole = frame_of(values[:2])
    reference = pd.DataFrame({"system": "BM25", "seed": None, "query": range(20), "value": 0.5})
    lacking = frame_of(values).query("system == 's2' and seed != 4")
    status, out, _ = run_pilot(pd.concat([whole, lacking, reference]), tmp_path, capsys)
    assert status == 0
    first, deviations = out.splitlines()[:2]
    assert first == "not used, for lack of scores or seeds: s2, BM25"
    assert deviations == describe_deviations(estimate_variance_components(values[:2]) or SIZES)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("query >= 0", "variances; not used, for lack of scores or seeds: s0, s1; expected at least two systems"),
        ("query == 1", "too little data to estimate the variances; expected at least two systems"),
        ("system == 's0' or query == 1", "variances; not used, for lack of scores or seeds: s1; expected"),
    ],
)
def test_a_pilot_that_says_too_little_is_an_error(
    rows: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, told = run_pilot(
        frame_of(scores((2, 4, 20)), disjoint=rows == "query >= 0").query(rows), tmp_path, capsys
    )
    assert status == 2
    assert message in told
    assert told.count("\n") == 1


def test_a_pilot_of_equal_differences_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = scores((1, 3, 20))[0]
    status, _, told = run_pilot(frame_of([first, first + 0.1]), tmp_path, capsys)
    assert status == 2
    assert "systems that differ by the same on every query of every seed; expected scores that vary" in told
