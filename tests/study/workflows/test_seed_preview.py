"""Table of --dry-run about numbers of seeds: the trainings that they take, their cost, and what they show."""

from pathlib import Path
from typing import Any

import pytest

from records.plan import Plan
from study.plan.analysis_plan import build_plan, register_plan
from study.plan.cost_estimate import Cost
from study.workflows.dry_run import build_preview
from study.workflows.seed_preview import build_seed_rows, find_detectable_effects, format_seed_table
from tests.study.command import call
from tests.study.driving import RESOLVED
from tests.study.scored import QUERIES, conduct, scheduler, study
from trainables.utils.errors import UserError

SMALL: dict[str, Any] = {
    "seeds": (1, 2),
    "variants": ("BERT", "LS", "T-LS"),
    "search": {"n_configurations": {"LS": 3, "T-LS": 4}},
}


def rows(folder: Path, cost: Cost | None = None, **changes: Any) -> list[dict[str, Any]]:
    return build_seed_rows(study(**SMALL, output={"folder": str(folder)}, **changes), cost)


def effects(folder: Path, records: Path | None = None, **changes: Any) -> dict[str, Any] | None:
    made = study(**SMALL, output={"folder": str(folder)}, **changes)
    plan = Plan.model_validate(build_plan(made, ""))
    return find_detectable_effects(made, plan, {"test": 500}, None if records is None else str(records))


def run_search(folder: Path, **changes: Any) -> None:
    made = study(**SMALL, output={"folder": str(folder)}, **changes)
    register_plan(made, RESOLVED.model_digest, folder)
    conduct(scheduler(made, folder))


def test_the_trainings_are_those_of_the_confirmation_or_fewer(tmp_path):
    made = study(**SMALL, confirm={"seeds": (11, 12, 13)})
    started = conduct(scheduler(made, tmp_path))
    fresh = [r for r in started if r.trial.action == "train" and r.labels["seed"] in made.confirm.seeds]
    row = next(row for row in rows(tmp_path / "other") if row["seeds"] == 3)
    won_by_default = row["trainings"] - len(fresh)
    assert won_by_default in (0, 3, 6)


def test_hours_are_those_of_the_trainings_and_their_tests(tmp_path):
    found = rows(tmp_path, Cost(fixed=60, instance=1.0, test=30, once=1000, source=""))
    assert [row["seeds"] for row in found] == [2, 3, 5, 10, 20]
    for row in found:
        trainings, tests = 5 * row["seeds"], 3 * row["seeds"]
        assert row["trial_hours"] == pytest.approx((trainings * (60 + 64) + tests * 30) / 3600, abs=1e-3)


def test_the_study_s_own_number_is_there_and_marked(tmp_path):
    for confirm, own in ({"seeds": (11, 12, 13, 14)}, 4), ({}, 2):
        found = rows(tmp_path, Cost(0, 1.0, 0, 0, ""), confirm=confirm)
        lines = format_seed_table(own, found, None, 1.0, "query")
        assert [row["seeds"] for row in found] == sorted({own, 3, 5, 10, 20})
        assert lines[0].count("*") == 2
        assert f" {own}*" in lines[0]


def test_before_anything_is_known_a_line_says_the_trainings_and_one_what_is_missing(tmp_path):
    unknown = "differences found with 80 % power: unknown; --records SOURCE takes the scores of an earlier study"
    found = rows(tmp_path, confirm={"seeds": (11, 12, 13)})
    assert format_seed_table(3, found, None, 1.0, "query") == [
        "fresh seeds: 3 take 15, 5 take 25, 10 take 50, 20 take 100 trainings at most",
        unknown,
    ]
    assert effects(tmp_path) is None
    fixed = {
        "search": {"n_configurations": {}, "sampler": "grid", "epsilon": [0.2], "schedule_settings": {"switch": [0.5]}}
    }
    made = study(**{**SMALL, **fixed}, output={"folder": str(tmp_path)})
    assert build_seed_rows(made, Cost(0, 1.0, 0, 0, "")) == []
    assert format_seed_table(2, [], None, 1.0, "query") == [unknown]


@pytest.mark.parametrize("confirm", [{}, {"seeds": (11, 12, 13)}])
def test_earlier_scores_say_what_each_comparison_finds(tmp_path, confirm):
    """Those of dev if nothing is tested; in the study's own folder, in another one, and in a file of scores."""
    run_search(tmp_path / "a", confirm=confirm)
    own, other = effects(tmp_path / "a"), effects(tmp_path / "b", tmp_path / "a")
    assert own is not None
    assert other is not None
    assert own["comparisons"] == other["comparisons"]
    assert (own["queries"], own["seeds"]) == (500, [2, 3, 5, 10, 20])
    seeds = len(confirm.get("seeds", SMALL["seeds"]))
    assert other["source"] == f"{tmp_path / 'a'}: test scores of {seeds} seeds and {QUERIES} queries"
    pairs = [(row["family"], row["system"], row["baseline"]) for row in own["comparisons"]]
    assert pairs == [("variants", "LS", "BERT"), ("variants", "T-LS", "BERT"), ("switch", "T-LS", "LS")]
    for row in own["comparisons"]:
        assert row["effects"] == sorted(row["effects"], reverse=True)
    lines = format_seed_table(2, [], own, 1.0, "query")
    assert lines[-1] == (
        "differences: found with 80 % power, corrected, with 500 queries on test; variances from this study: "
        f"test scores of {seeds} seeds and {QUERIES} queries"
    )
    assert [line.split("  ")[0] for line in lines[1:-1]] == ["LS over BERT", "T-LS over BERT", "T-LS over LS"]


def test_before_the_test_the_scores_of_the_search_say_it(tmp_path):
    run_search(tmp_path)
    for scores in tmp_path.glob("runs/*/test.*"):
        scores.unlink()
    found = effects(tmp_path)
    assert found is not None
    assert "dev scores of 2 seeds" in found["source"]


def test_what_no_score_says_is_unknown_and_what_no_gain_reaches_is_not_a_number():
    found = {"seeds": [3, 5], "queries": 9, "source": "x: scores"}
    named = {"family": "variants", "system": "LS", "baseline": "BERT"}
    found["comparisons"] = [named | {"effects": [None, None]}, named | {"effects": [1.5, 0.25]}]
    _, unknown, known, note = format_seed_table(5, [], found, 1.0, "pair")
    assert unknown.split()[-2:] == ["unknown", "unknown"]
    assert known.split()[-2:] == [">1", "0.2500"]
    assert "with 9 pairs on test" in note


def test_records_that_say_nothing_of_the_study_are_one_line(tmp_path):
    table = tmp_path / "scores.csv"
    table.write_text("system,seed,query,value\n" + "".join(f"A{n},1,q{n},0.5\n" for n in range(3)))
    with pytest.raises(
        UserError, match=r"scores\.csv: no such pair with scores of two seeds; expected one of LS and BERT"
    ):
        effects(tmp_path, table)
    with pytest.raises(UserError, match="no such folder; expected a study's folder"):
        effects(tmp_path, tmp_path / "nowhere")


def test_the_command_and_the_preview_take_the_records_of_another_study(tmp_path):
    run_search(tmp_path / "a")
    made = study(**SMALL, output={"folder": str(tmp_path / "b")}, cache={"folder": str(tmp_path / "c")})
    found = build_preview(made, records=str(tmp_path / "a"))
    assert found["detectable"]["queries"] == QUERIES  # as many as the records have, until the data is prepared
    assert "\nT-LS over LS " in str(found)
    printed = call("study.run", tmp_path, "quick", "--dry-run", "--records", str(tmp_path / "a"))
    assert printed.returncode == 0, printed.stderr
    assert "\nKL over BERT                  unknown" in printed.stdout
