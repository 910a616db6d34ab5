"""The command that plans a study, from a finished one and without a pilot; its figure."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.archive import load_scores
from analysis.comparisons.pilot import TASKS
from analysis.data.measured_cost import average_run_seconds
from analysis.figures.power_curve import plot_power
from analysis.readers.study_reader import read_records
from analysis.sample_size import main
from analysis.stats.power import DifferenceVariance, find_cheapest_size, required_queries
from analysis.stats.variance_components import estimate_variance_components
from tests.analysis.builders import PLAN, Made, plan_of, scores, study_runs, write_records

SEEDS, LEVEL = (1, 2, 3, 4), 0.05 / 5
"""Five comparisons are declared."""


def write_study(folder: Path) -> list[Made]:
    """Write a study with the seconds of its tests: 6 s for 60 queries; half of LS is shared, and all of WSLS."""
    runs = study_runs(SEEDS, grid=False)
    write_records(folder, plan_of(runs, seeds=list(SEEDS)), runs)
    shared = {"LS": 320, "WSLS": 640}
    for run in runs:
        place = folder / "runs" / run.id
        record, test = (json.loads((place / name).read_text()) for name in ("record.json", "test.json"))
        test["summary"]["test/seconds"] = 600.0 if run.variant in ("BM25", "untrained") else 6.0
        reused, kept = shared.get(run.variant, 0), 0 if run.variant in ("BM25", "untrained") else 640
        record["summary"] |= {
            "instances_reused": reused,
            "instances_trained": max(kept - reused, 0),
            "seconds": (kept - reused) / 4,
        }
        (place / "record.json").write_text(json.dumps(record))
        (place / "test.json").write_text(json.dumps(test))
    return runs


def compute_metric(run: Made, name: str) -> "pd.Series[float]":
    """The metric of each query from the place of its relevant document; scores have no ties."""
    table = run.scores["test"]
    place = (
        table.groupby("query_id")["score"]
        .rank(ascending=False)[table["relevant"] == 1]
        .set_axis(table.loc[table["relevant"] == 1, "query_id"])
    )
    return {"R10@1": (place == 1) * 1.0, "MRR": 1 / place, "nDCG@10": 1 / np.log2(1 + place), "position": place}[name]


def read_table(out: str, title: str) -> dict[str, list[str]]:
    """The cells of the rows below a title, by the first cell."""
    lines = out.partition(title)[2].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(" ──")) + 1
    rows = [line.split() for line in lines[start : next(n for n in range(start, len(lines)) if not lines[n].strip())]]
    return {row[0]: row[1:] for row in rows}


def test_a_study_says_what_the_next_one_needs_by_metric_and_by_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The oracle computes metrics, gains and components from the scores that were put in."""
    runs = write_study(tmp_path)
    assert main([str(tmp_path), "--effect", ".3", ".1", "--seeds", "5", "20"]) == 0
    out = capsys.readouterr().out + "\n"
    assert out.startswith("R10@1 of 60 queries, 4 seeds\n")
    assert "5 comparisons at 0.05\n" in out
    names = ("BERT", "LS", "T-LS", "WSLS", "T-WSLS")
    values = {
        (metric, name): np.stack([compute_metric(run, metric) for run in runs if run.variant == name])
        for metric in ("R10@1", "MRR", "nDCG@10", "position")
        for name in (*names, "untrained")
    }
    rows = read_table(out, "for the same share of the gain of BERT over untrained as 0.1 in R10@1")
    gains, needed = {}, {}
    for metric in rows:
        gains[metric] = abs(values[metric, "BERT"].mean() - values[metric, "untrained"].mean())
        components = estimate_variance_components([values[metric, name] for name in names])
        same = 0.1 * gains[metric] / gains["R10@1"]
        variance = components.to_difference_variance()
        needed[metric] = [required_queries(variance, same, seeds, LEVEL) for seeds in (5, 20)]
        counts = [f"{count:,}" if count else "never" for count in needed[metric]]
        relative = f"{needed[metric][1] / needed['R10@1'][1]:.2f}"
        assert rows[metric] == [f"{gains[metric]:.4f}", f"{same:.4f}", *counts, relative]
    assert [*rows] == ["R10@1", "MRR", "nDCG@10", "position"]
    size = find_cheapest_size(
        estimate_variance_components([values["R10@1", name] for name in names]).to_difference_variance(),
        0.1, LEVEL, 160.0, 0.1,
    )  # fmt: skip
    assert "cheapest seeds and queries for 5 systems, with 160 s to train a run and 0.1 s to score a query" in out
    row = read_table(out, "cheapest seeds and queries")["0.1"]
    assert row == [f"{size.seeds:,}", f"{size.queries:,}", f"{5 * size.seconds / 3600:,.2f}"]


@pytest.mark.parametrize("retrieved", [False, True])
def test_other_metrics_are_those_that_the_candidates_allow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], retrieved: bool
) -> None:
    """Twenty candidates; of a first stage, which missed a relevant document."""
    runs = study_runs(SEEDS, grid=False)
    for number, run in enumerate(runs):
        run.scores = {split: scores(split, 60, run.quality, number, candidates=20) for split in run.scores}
        if retrieved:
            for frame in run.scores.values():
                frame["grade"] = frame["relevant"].astype(int)
                frame.loc[0, "score"] = -np.inf
    first_stage = {"first_stage": {"source": "a run", "depth": 20}} if retrieved else {}
    write_records(tmp_path, plan_of(runs, seeds=list(SEEDS), metric="MAP", **first_stage), runs)
    assert main([str(tmp_path), "--effect", ".1"]) == 0
    rows = read_table(capsys.readouterr().out + "\n", "queries needed by other metrics")
    assert [*rows] == ["MAP", "MRR", "nDCG@10", *([] if retrieved else ["position"])]


def test_seconds_of_a_run_are_those_of_all_its_instances(tmp_path: Path) -> None:
    """640 instances at a quarter of a second, however many of them a run shares; 6 s for 60 queries."""
    write_study(tmp_path)
    assert average_run_seconds(read_records(tmp_path), 60) == (160.0, 0.1)


def test_a_study_without_seconds_has_no_cheapest_size_unless_options_say_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """References are not trained, also where they are all that a system is compared with."""
    runs = study_runs(SEEDS, grid=False)
    for count, changes in (
        ("5 systems", {}),
        ("1 system", {"systems": ["BERT"], "families": [PLAN["families"][1]]}),
    ):
        folder = tmp_path / count
        write_records(folder, plan_of(runs, seeds=list(SEEDS), **changes), runs)
        assert main([str(folder), "--effect", ".1"]) == 0
        assert "cheapest" not in capsys.readouterr().out
        assert main([str(folder), "--effect", ".1", "--train-seconds", "60", "--query-seconds", "1"]) == 0
        assert f"for {count}, with 60 s to train a run and 1 s to score a query" in capsys.readouterr().out


def test_an_unfinished_study_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = study_runs((1,), grid=False)
    write_records(tmp_path, plan_of(runs, seeds=[1]), runs)
    assert main([str(tmp_path)]) == 2
    assert "too few test scores to estimate the variances; expected a finished study" in capsys.readouterr().err


def test_a_study_of_equal_systems_plans_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [run for run in study_runs(SEEDS, grid=False) if run.variant in ("BERT", "LS", "BM25", "untrained")]
    for run in runs:
        run.scores = next(own.scores for own in runs if own.variant == "BERT" and own.seed == (run.seed or 1))
    families = [{"name": "variants", "comparisons": [["LS", "BERT"]]}]
    write_records(tmp_path, plan_of(runs, seeds=list(SEEDS), families=families, systems=["BERT", "LS"]), runs)
    assert main([str(tmp_path)]) == 2
    assert "systems that differ by the same on every query of every seed; expected scores" in capsys.readouterr().err


@pytest.mark.parametrize("task", TASKS)
def test_a_known_task_stands_for_the_trained_systems_of_a_study_in_the_archive(
    task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--like", task]) == 0
    note, _, rest = capsys.readouterr().out.partition("\n")
    scores = load_scores(TASKS[task])
    assert note == f"R10@1 of {TASKS[task]}: {scores['query'].nunique():,} queries, 10 seeds"
    trained = scores[scores["system"].isin(["BERT", "LS", "T-LS", "WSLS", "T-WSLS"])]
    trained.to_csv(tmp_path / "pilot.csv", index=False)
    assert main([str(tmp_path / "pilot.csv")]) == 0
    assert capsys.readouterr().out == rest


def test_the_figure_has_a_line_of_power_for_each_number_of_seeds() -> None:
    variance = DifferenceVariance(0.006**2, 0.05**2, 0.17**2)
    (axis,) = plot_power(variance, [3, 10], 500, 0.0125, 0.05, "MAP").axes
    assert (axis.get_xlabel(), axis.get_title()) == ("true difference in MAP", "500 queries")
    few, many, dashed = axis.lines
    assert [few.get_label(), many.get_label()] == ["3 seeds", "10 seeds"]
    assert set(dashed.get_ydata()) == {0.8}
    for line, seeds in ((few, 3), (many, 10)):
        differences, power = line.get_data()
        assert power[0] == pytest.approx(0.0125)
        assert (np.diff(power) >= 0).all()
        crossing = float(np.interp(0.8, power, differences))
        if power[-1] > 0.8:
            assert required_queries(variance, crossing, seeds, 0.0125) == pytest.approx(500, rel=0.05)
    assert (many.get_ydata()[1:] > few.get_ydata()[1:]).all()


def test_the_command_writes_its_figure_and_replaces_no_other_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "power.svg"
    arguments = ["--like", "docstrings", "--figure", str(place)]
    assert main([*arguments, "--queries", "200"]) == 0
    first = place.read_bytes()
    assert main(arguments) == 0
    assert first != place.read_bytes()
    place.write_text("<svg></svg>")
    capsys.readouterr()
    assert main(arguments) == 2
    assert str(place) in capsys.readouterr().err
    assert place.read_text() == "<svg></svg>"
