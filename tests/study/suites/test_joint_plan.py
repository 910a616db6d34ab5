"""The plan of a suite: what it has, its versions, and the folders that it refuses."""

import json
from pathlib import Path

import pytest

from records.plan_file import read_suite_plan
from records.suite_plan import SuitePlan
from study.suites.joint_plan import build_suite_plan, check_suite_folder, register_suite_plan
from study.suites.suite_loader import Suite, load_suite
from tests.study.suites.test_suite_loader import SUITE, written
from trainables.utils.errors import UserError


def loaded(folder: Path, *overrides: str, text: str = SUITE, selected: tuple[str, ...] = ()) -> Suite:
    suite = load_suite(written(folder, text), [f"output.folder={folder / 'results'}", *overrides], selected)
    for each in suite.studies:
        each.study.folder.mkdir(parents=True, exist_ok=True)
    return suite


def put_test_score(suite: Suite, key: str) -> None:
    place = suite.folder / key / "runs" / "a"
    place.mkdir(parents=True)
    (place / "test.json").write_text(json.dumps({"id": "a", "state": "finished", "summary": {}}))


def test_each_study_has_the_comparisons_of_its_own_plan(tmp_path):
    plan = build_suite_plan(loaded(tmp_path))
    pairs = [[name, "BERT"] for name in ("LS", "T-LS", "WSLS", "T-WSLS", "KL")]
    assert [study["comparisons"] for study in plan["studies"]] == [[*pairs, ["T-WSLS", "T-LS"]]] * 4


def test_the_same_suite_keeps_its_plan_and_another_is_the_next_version(tmp_path):
    first = register_suite_plan(loaded(tmp_path))
    assert register_suite_plan(loaded(tmp_path)) == first
    changed, changed_hash = register_suite_plan(loaded(tmp_path, 'variants=["BERT", "LS"]'))
    assert (changed["version"], changed["replaces"]) == (2, first[1])
    assert changed_hash != first[1]
    for place in (tmp_path / "results", *(tmp_path / "results" / study["key"] for study in changed["studies"])):
        assert read_suite_plan(place / "suite.json").document == changed


def test_the_plan_has_all_studies_with_any_selection(tmp_path):
    first = loaded(tmp_path, selected=("*long",))
    plan = register_suite_plan(first)
    assert [study["key"] for study in plan[0]["studies"]] == ["bm25-short", "bm25-long", "random-short", "random-long"]
    put_test_score(first, "bm25-long")
    assert register_suite_plan(loaded(tmp_path, selected=("*short",))) == plan
    assert not any(study["is_late"] for study in plan[0]["studies"])


def test_a_study_that_joins_after_test_scores_is_late_and_one_that_leaves_stays(tmp_path):
    first = loaded(tmp_path)
    register_suite_plan(first)
    put_test_score(first, "bm25-long")
    for _ in range(2):
        plan, _ = register_suite_plan(loaded(tmp_path, text=SUITE.replace("task.short", "task.brief")))
        assert {study["key"]: study["is_late"] for study in plan["studies"]} == {
            "bm25-brief": True, "bm25-long": False, "random-brief": True, "random-long": False,
            "bm25-short": False, "random-short": False,
        }  # fmt: skip
        assert plan["axes"]["task"] == ["brief", "long", "short"]
        SuitePlan.model_validate(plan).list_rows()
    with pytest.raises(UserError, match="results of a suite with the axes sampler, task"):
        check_suite_folder(loaded(tmp_path, text=SUITE.replace("axes.task", "axes.length")))


def test_the_plan_of_another_machine_is_found_in_the_studies_folders(tmp_path):
    plan = register_suite_plan(loaded(tmp_path))
    (tmp_path / "results" / "suite.json").unlink()
    changed, _ = register_suite_plan(loaded(tmp_path, 'variants=["BERT", "LS"]'))
    assert (changed["version"], changed["replaces"]) == (2, plan[1])


def test_the_folder_of_something_else_is_an_error(tmp_path):
    suite = loaded(tmp_path)
    check_suite_folder(suite)
    register_suite_plan(suite)
    check_suite_folder(suite)
    with pytest.raises(UserError, match="results of the suite 'small'"):
        check_suite_folder(loaded(tmp_path, "name=other"))
    (suite.folder / "plan.json").write_text("{}")
    with pytest.raises(UserError, match="results of a study"):
        check_suite_folder(suite)


def test_a_damaged_plan_is_told(tmp_path):
    suite = loaded(tmp_path)
    register_suite_plan(suite)
    path = suite.folder / "suite.json"
    content = json.loads(path.read_text())
    content["plan"]["alpha"] = 0.5
    for folder in (suite.folder, *(each.study.folder for each in suite.studies)):
        (folder / "suite.json").write_text(json.dumps({"plan": content["plan"], "hash": content["hash"]}))
    with pytest.raises(UserError, match="its hash is not that of the plan"):
        register_suite_plan(suite)


def test_a_damaged_plan_is_written_again_from_a_copy_as_long_as_there_is_one(tmp_path, capsys):
    suite = loaded(tmp_path)
    first = register_suite_plan(suite)
    places = [suite.folder, *(each.study.folder for each in suite.studies)]
    for damaged in (places[:1], places[1:2], places[:-1]):
        for place in damaged:
            (place / "suite.json").write_text("[" * 100_000)
        check_suite_folder(suite)
        assert register_suite_plan(suite) == first
        assert capsys.readouterr().out.count("suite.json: not JSON; it is written again from a copy\n") == len(damaged)
        assert {read_suite_plan(place / "suite.json").hash for place in places} == {first[1]}
    for place in places:
        (place / "suite.json").write_text("{}")
    with pytest.raises(UserError, match=r"results/suite\.json: not a plan"):
        check_suite_folder(suite)
