"""The preview of --dry-run is what the study then runs, as far as that is known, and costs nothing."""

import json
import math
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from study.config.loader import load_study
from study.config.schema import Study
from study.config.study_class import get_study_class
from study.execution.slots import get_local_concurrency
from study.plan.analysis_plan import register_plan
from study.plan.cost_estimate import START_AND_REPORT, Cost, estimate_cost_from_rates, estimate_cost_from_records
from study.plan.run_counts import count_runs
from study.workflows.dry_run import Preview, _estimate_hours, build_preview
from study.workflows.study_throughput import measure_study_throughput
from tests.study.command import SMALL, light
from tests.study.driving import STUDY, drive, scheduler
from tests.study.small import study as tiny_study


def planned(tmp_path: Path, **changes: Any) -> tuple[Study, dict[str, Any]]:
    made = get_study_class().model_validate(
        {
            **STUDY.model_dump(by_alias=True),
            "output": {"folder": str(tmp_path)},
            "cache": {"folder": str(tmp_path)},
            **changes,
        }
    )
    return made, build_preview(made)


@pytest.mark.parametrize("confirm", [(), (11, 12, 13)])
def test_the_rows_are_the_runs_of_the_study(tmp_path, confirm):
    made, found = planned(tmp_path, confirm={"seeds": confirm})
    started = drive(scheduler(tmp_path / "runs", made))
    for row in found["systems"]:
        name = "BM25" if row["system"] == "BM25 order" else row["system"]
        runs = [e for e in started if e.labels["variant"] == name and e.trial.action == "train"]
        least = row["runs"] - (
            len(confirm) if row["system"] in made.search.n_configurations else 0
        )  # the default may have won
        assert least <= len(runs) <= row["runs"]
        assert (
            len({e.labels["configuration_id"] for e in runs if e.labels["role"] != "confirm"}) == row["configurations"]
        )
    assert found["runs"] == sum(row["runs"] for row in found["systems"])
    assert found["instances"]["unshared"]["high"] >= sum(
        e.trial.specification.training.instances
        for e in started
        if e.trial.specification.training and e.trial.action == "train"
    )


@pytest.mark.parametrize(("seeds", "confirm", "said"), [
    ([1], [], "1 seed on test says nothing about other seeds; take at least 3"),
    ([1, 2], [], "2 seeds on test decide next to nothing; take at least 3"),
    ([1, 2, 3], [11, 12], "2 seeds on test decide next to nothing; take at least 3"),
    ([1, 2, 3], [], None),
    ([1, 2], [11, 12, 13], None),
])  # fmt: skip
def test_fewer_than_three_test_seeds_get_a_warning(tmp_path, seeds, confirm, said):
    _, found = planned(tmp_path, seeds=seeds, confirm={"seeds": confirm})
    warnings = [line for line in str(found).splitlines() if line.startswith("warning")]
    assert warnings == ([f"warning: {said}"] if said else [])


def test_the_cost_is_in_minutes_with_the_start_and_the_report_and_says_what_it_is_of(tmp_path):
    made, found = planned(tmp_path)
    cost = Cost(fixed=6.0, instance=0.01, test=3.0, once=90.0, source="a measurement on this machine")
    hours = _estimate_hours(made, cost, count_runs(made), n_measured=2)
    parts = hours["minutes_of_parts"]
    assert list(parts) == ["frozen layers", "starts and evaluations of runs", "training", "test"]
    assert parts["frozen layers"] == 90 / 60 / 2
    assert parts["starts and evaluations of runs"] == pytest.approx(found["runs"] * 6 / 60 / 2, abs=0.01)
    total = START_AND_REPORT / 60 + sum(parts.values())
    assert 60 * hours["hours"]["high"] == pytest.approx(total, abs=0.1)
    line = next(line for line in str(Preview(found | {"cost": hours})).splitlines() if line.startswith("cost: "))
    assert f"{60 * hours['hours']['high']:.1f} minutes with 2 at once (" in line
    assert "; minutes: start and report 0.5, frozen layers 0.8, starts and evaluations of runs " in line
    long = _estimate_hours(made, cost._replace(fixed=10_000.0), count_runs(made), n_measured=1)
    assert " hours with 1 at once (" in str(Preview(found | {"cost": long}))


def test_before_anything_is_known_nothing_is_made_up(tmp_path):
    _, found = planned(tmp_path)
    assert (found["data"], found["queries"], found["cost"], found["detectable"]) == (None, None, None, None)
    assert found["records"] == {"finished": 0, "failed": 0}


@given(st.floats(0, 100), st.floats(0.001, 10), st.lists(st.integers(1, 50), min_size=2, max_size=9))
def test_the_cost_of_recorded_runs_is_the_line_through_them(fixed, each, counts):
    assume(len(set(counts)) > 1)
    cost = estimate_cost_from_records([(count, fixed + each * count) for count in counts], [2.0, 4.0])
    if cost.fixed:
        assert (cost.fixed, cost.instance) == pytest.approx((fixed, each), rel=1e-3, abs=1e-3)
    assert cost.test == 3.0
    assert cost.estimate_hours(1, 0, 50) * 3600 == pytest.approx(
        fixed + 50 * each, rel=0.5 if not cost.fixed else 1e-3, abs=0.1
    )


def test_runs_of_one_length_cost_in_proportion_and_no_run_costs_nothing_known():
    runs = [(64, 6.0), (64, 2.0)]
    assert estimate_cost_from_records(runs, [3.0]) == Cost(0.0, 4.0 / 64, 3.0, 0.0, "2 recorded runs")
    source = "2 recorded runs, before any test score was timed"
    assert estimate_cost_from_records(runs, []) == Cost(0.0, 4.0 / 64, 0.0, 0.0, source)
    unequal = estimate_cost_from_records([(64, 6.0), (32, 4.0)], [])
    assert (unequal.test, unequal.source) == (pytest.approx(2.0), source)
    assert estimate_cost_from_records([(0, 5.0)], [1.0]) is None


def test_as_json_it_is_the_same_and_loads_nothing_heavy(tmp_path):
    settings = (*SMALL, f"output.folder={tmp_path / 'study'}", f"cache.folder={tmp_path / 'cache'}")
    result = light(tmp_path, "quick", *settings, "--dry-run", "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == build_preview(load_study("quick", settings))


def test_the_declared_comparisons_are_those_of_the_plan(tmp_path):
    made, found = planned(tmp_path, analysis={"comparisons": [["T-LS", "LS"]]})
    document = register_plan(made, "sha256:0", tmp_path).document
    assert found["families"] == document["families"]
    lines = str(found).splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("comparisons"))
    assert lines[first : first + 3] == [
        "comparisons, variants: LS, T-LS, WSLS and T-WSLS with BERT; T-WSLS with T-LS; T-LS with LS (bonferroni for 6)",
        "comparisons, switch: T-WSLS with WSLS (bonferroni for 1)",
        "comparisons, sanity: BERT with BM25; BERT with cosine (bonferroni for 2)",
    ]


@pytest.mark.long
def test_a_calibration_trains_on_every_place_and_says_what_the_study_takes(world, fresh, tmp_path, monkeypatch):
    made = tiny_study(world, tmp_path / "study", fresh())
    monkeypatch.setattr("trainables.rankers.ranker_data.prepare_data", lambda *_: world.prepared)
    said: list[str] = []
    measured = measure_study_throughput(made, said.append, seconds=0.3)
    (line,) = said
    assert line.endswith(f"frozen layers, 0 s of training, evaluation; {len(measured)} at once")
    assert len(measured) == get_local_concurrency(made)
    assert all(math.isfinite(rate) and rate > 0 for each in measured for rate in each if rate is not None)
    assert all(each.frozen is not None for each in measured)
    queries = {split: world.prepared.read_metadata()["splits"][split]["queries"] for split in ("train", "dev", "test")}
    cost = estimate_cost_from_rates(made, measured, queries, "this machine")
    loading, training, evaluation = (
        fmean(getattr(each, name) for each in measured) for name in ("loading", "training", "evaluation")
    )
    evaluated = queries["dev"] * made.task.candidates * made.training.evaluations / evaluation
    assert cost.estimate_hours(2, 0, 100) * 3600 == pytest.approx(
        cost.once + 2 * (loading + evaluated) + 100 / training
    )
    assert not (tmp_path / "study").exists()
