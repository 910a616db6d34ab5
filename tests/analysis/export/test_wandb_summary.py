"""Flat results of a study: the report's own numbers under their names, and nothing where there is none."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.export.wandb_summary import build_wandb_summary, make_comparison_key, make_system_key
from analysis.readers.study_reader import read_records
from analysis.tables.main import ReportData, build_report_data
from tests.analysis.builders import analyse, get_comparison, study_runs, write_records
from tests.analysis.searching import searched

WHAT = ("difference", "low", "high", "p", "p_corrected", "verdict")


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    return analyse(tmp_path_factory.mktemp("study"), study_runs(grid=False))


def test_a_comparison_has_the_reports_numbers(analysis: ReportData) -> None:
    found = build_wandb_summary(analysis)
    for c in analysis.comparisons:
        assert c.interval is not None
        assert c.target is not None
        test = c.targets[c.target]
        expected = [c.difference, *c.interval, test.p, c.adjusted["bonferroni"], c.verdict]
        assert [found[make_comparison_key(c.system, c.baseline, what)] for what in WHAT] == expected
    assert found["comparison/T-WSLS vs BERT/verdict"] == "better"
    assert found["comparison/T-WSLS vs BERT/p"] < found["comparison/T-WSLS vs BERT/p_corrected"]


def test_pooled_seeds_are_in_the_numbers_of_a_comparison(analysis: ReportData, tmp_path: Path) -> None:
    pooled = analyse(tmp_path, study_runs(grid=False), seed_variance="pooled")
    found, before = build_wandb_summary(pooled), build_wandb_summary(analysis)
    for c in [c for c in pooled.comparisons if c.family == "variants"]:
        test = c.targets["both"]
        key = make_comparison_key(c.system, c.baseline, "p")
        assert (found[key], found[key[:-1] + "low"]) == (test.p, c.interval[0])
        assert found[key] != before[key]


def test_the_corrected_p_is_by_the_familys_own_correction(analysis: ReportData) -> None:
    plan = analysis.results.plan
    changed = plan.model_copy(
        update={"families": (plan.families[0].model_copy(update={"correction": "bh"}), plan.families[1])}
    )
    found = build_wandb_summary(replace(analysis, results=replace(analysis.results, plan=changed)))
    own = get_comparison(analysis, "LS", "BERT")
    assert found["comparison/LS vs BERT/p_corrected"] == own.adjusted["bh"] != own.adjusted["bonferroni"]


def test_a_pair_of_two_families_is_that_of_the_first(analysis: ReportData) -> None:
    first = analysis.comparisons[0]
    again = replace(first, family="sanity", difference=9.0)
    found = build_wandb_summary(replace(analysis, comparisons=[*analysis.comparisons, again]))
    assert found[make_comparison_key(first.system, first.baseline, "difference")] == first.difference


def test_a_system_has_the_means_of_its_row(analysis: ReportData) -> None:
    found = build_wandb_summary(analysis)
    for row in analysis.table.rows:
        assert found[make_system_key(row.system, "dev")] == row.dev[0]
        assert found[make_system_key(row.system, "test")] == row.test[0]


def test_a_failed_seed_costs_its_system_every_number_and_is_counted(tmp_path: Path) -> None:
    runs = study_runs(grid=False)
    next(run for run in runs if run.variant == "LS" and run.seed == 2).state = "failed"
    found = build_wandb_summary(analyse(tmp_path, runs))
    assert (found["failed_runs"], found["incomplete_configurations"]) == (1, 1)
    assert {name: found[make_system_key(name, "failed_runs")] for name in ("LS", "BERT")} == {"LS": 1, "BERT": 0}
    assert not {name for name in found if name.startswith(("comparison/LS vs", "system/LS/")) and "failed" not in name}
    assert "comparison/T-LS vs BERT/p_corrected" in found


def test_what_the_race_dropped_is_not_incomplete(tmp_path: Path) -> None:
    made = searched(dropped=(3, 5), failed=(7,), proposals=9)
    write_records(tmp_path, made.plan, made.runs, made.search)
    assert build_wandb_summary(build_report_data(read_records(tmp_path)))["incomplete_configurations"] == 1


def test_untested_systems_have_no_test_mean(tmp_path: Path) -> None:
    runs = [replace(run, tested=False) for run in study_runs(grid=False)]
    for run in runs:
        run.scores = {"dev": run.scores["dev"]}
    found = build_wandb_summary(analyse(tmp_path, runs))
    assert not [name for name in found if name.endswith("/test") or name.startswith("comparison/")]


def test_cost_is_what_the_runs_tell_and_budgets_stand_where_there_are_some(tmp_path: Path) -> None:
    runs = study_runs(grid=False)
    analysis = analyse(tmp_path, runs, budgets={"hours": 2.0, "gpu_hours": None})
    found = build_wandb_summary(analysis)
    assert found["cost/hours"] == pytest.approx(1.5 * len(runs) / 3600)
    assert found["cost/instances"] == 640 * len(runs)
    assert found["cost/gpu_hours"] == 0
    assert found["budget/hours"] == 2.0
    assert "budget/gpu_hours" not in found


def test_hours_of_a_gpu_are_its_share_of_the_runs_that_had_one(analysis: ReportData) -> None:
    results = analysis.results
    on_gpu = {run.id for run in results.runs if run.config["variant"] == "T-LS"}

    def moved(config: dict[str, Any]) -> dict[str, Any]:
        return config | {"specification": {**config["specification"], "environment": {"device": "cuda:NVIDIA H200"}}}

    runs = [replace(run, config=moved(run.config)) if run.id in on_gpu else run for run in results.runs]
    found = build_wandb_summary(replace(analysis, results=replace(results, runs=runs)), gpus_per_trial=0.25)
    assert found["cost/gpu_hours"] == pytest.approx(0.25 * 1.5 * len(on_gpu) / 3600)


def test_all_values_are_json_and_finite(tmp_path: Path) -> None:
    found = build_wandb_summary(analyse(tmp_path, study_runs(seeds=(1,), grid=False), seeds=[1]))
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert {type(value) for value in found.values()} <= {float, int, str, bool}
    first = found["comparison/T-WSLS vs BERT/difference"]
    assert isinstance(first, float)


def test_a_value_that_is_not_finite_is_absent(analysis: ReportData) -> None:
    endless = replace(analysis.comparisons[0], interval=(float("-inf"), float("inf")))
    found = build_wandb_summary(replace(analysis, comparisons=[endless, *analysis.comparisons[1:]]))
    name = make_comparison_key(endless.system, endless.baseline, "low")
    assert name not in found
    assert make_comparison_key(endless.system, endless.baseline, "p") in found
