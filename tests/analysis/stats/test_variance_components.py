"""The parts of the variance: an analysis of variance by statsmodels, and what was put in."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from analysis.sample_size import main
from analysis.stats.variance_components import VarianceComponents, estimate_variance_components

DEVIATIONS = ["--seed-sd", "0", "--query-sd", "0", "--rest-sd", "1"]


def scores(systems: int, seeds: int, queries: int, sizes: VarianceComponents, seed: int = 1) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    query, cross, own, rest = np.sqrt(sizes)
    shared, parts = rng.normal(0, query, queries), ((cross, queries), (own, (seeds, 1)), (rest, (seeds, queries)))
    return [0.5 + shared + sum(rng.normal(0, *part) for part in parts) for _ in range(systems)]


def test_mean_squares_are_statsmodels() -> None:
    systems, seeds, queries = 3, 4, 6
    values = scores(systems, seeds, queries, VarianceComponents(0.2, 0.1, 0.3, 0.05))
    rows = [(n, s, q, values[n][s, q]) for n in range(systems) for s in range(seeds) for q in range(queries)]
    frame = pd.DataFrame(rows, columns=["n", "s", "q", "y"])
    ms = anova_lm(ols("y ~ C(n) + C(q) + C(n):C(q) + C(n):C(s)", frame).fit())["mean_sq"]
    found = estimate_variance_components(values)
    assert found is not None
    assert found.rest == pytest.approx(ms["Residual"])
    assert found.seed == pytest.approx(max(0.0, (ms["C(n):C(s)"] - ms["Residual"]) / queries))
    assert found.query_by_system == pytest.approx(max(0.0, (ms["C(n):C(q)"] - ms["Residual"]) / seeds))
    assert found.query == pytest.approx(max(0.0, (ms["C(q)"] - ms["C(n):C(q)"]) / (systems * seeds)))


def test_what_was_put_in_comes_out() -> None:
    sizes = VarianceComponents(0.04, 0.0025, 0.0004, 0.0144)
    found = np.mean([estimate_variance_components(scores(6, 8, 300, sizes, seed)) for seed in range(40)], axis=0)
    assert found == pytest.approx(np.array(sizes), rel=0.12)
    assert sizes.to_difference_variance() == (0.0008, 0.005, 0.0288)


@pytest.mark.parametrize("shape", [(1, 3, 9), (2, 1, 9), (2, 3, 1)])
def test_of_too_little_nothing_is_said(shape: tuple[int, int, int]) -> None:
    assert estimate_variance_components([np.zeros(shape[1:])] * shape[0]) is None


def test_the_command_with_published_deviations(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--seed-sd", ".006", "--query-sd", ".05", "--rest-sd", ".12", "--effect", ".005", ".02"]
    assert main([*given, "--seeds", "5", "20"]) == 0
    out = capsys.readouterr().out
    assert "queries 0.0000, query x system 0.0500, seeds 0.0060, rest 0.1200" in out
    rows = [line.split() for line in out.splitlines() if line.strip().startswith("0.0")]
    assert [row[0] for row in rows] == ["0.005", "0.02"]
    assert rows[0][1] == "never"  # five seeds of .006 hide half a percent, however many queries there are
    assert int(rows[1][2].replace(",", "")) < int(rows[1][1].replace(",", ""))


def test_the_command_with_a_pilot(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    values = scores(3, 4, 50, VarianceComponents(0.04, 0.0025, 0.0004, 0.0144))
    rows = [(f"s{n}", s, q, values[n][s, q]) for n in range(3) for s in range(4) for q in range(50)]
    path = f"{tmp_path}/pilot.csv"
    pd.DataFrame(rows, columns=["system", "seed", "query", "value"]).to_csv(path, index=False)
    assert main([path, "--comparisons", "4"]) == 0
    found = estimate_variance_components(values)
    assert found is not None
    assert f"seeds {found.seed**0.5:.4f}, rest {found.rest**0.5:.4f}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no pilot and no deviations; expected PILOT.csv, or all three of --seed-sd"),
        (["--seed-sd", ".1"], "no pilot and --seed-sd; expected"),
        (["none.csv"], "no such file"),
        (["none.csv", "--seed-sd", ".1"], "a pilot and --seed-sd; expected PILOT.csv, or all three"),
        ([*DEVIATIONS, "--seed-sd", "-1"], "--seed-sd, --query-sd, --rest-sd: -1.0, 0.0, 1.0; expected numbers from 0"),
        ([*DEVIATIONS, "--seed-sd", "nan"], "--rest-sd: nan, 0.0, 1.0; expected"),
        ([*DEVIATIONS, "--seed-sd", "1e200"], "--rest-sd: 1e+200, 0.0, 1.0; expected"),
        ([*DEVIATIONS, "--rest-sd", "0"], "--rest-sd: 0.0, 0.0, 0.0; expected"),
        ([*DEVIATIONS, "--seeds", "5", "1"], "--seeds: 5, 1; expected whole numbers of at least 2"),
        ([*DEVIATIONS, "--effect", "nan"], "--effect: nan; expected numbers above 0"),
        ([*DEVIATIONS, "--comparisons", "0"], "--comparisons: 0; expected a whole number above 0"),
        ([*DEVIATIONS, "--alpha", "5"], "--alpha: 5.0; expected a number from 1e-9 to below 1"),
    ],
)
def test_a_mistake_gets_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
