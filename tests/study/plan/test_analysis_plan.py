"""Declarations stay: a plan is written once, and every change is a new version."""

import json
from pathlib import Path
from typing import Any

import pytest

from records.plan import Plan
from records.plan_file import read_plan
from study.config.loader import Study, load_study
from study.config.sources import list_shipped
from study.config.study_class import get_study_class
from study.plan.analysis_plan import build_plan, check_changes, register_plan
from study.plan.diff import list_changed_settings
from study.plan.study_file import write_study_file
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.utils.errors import UserError
from trainables.utils.files import read_json
from trainables.utils.hashing import hash_json

MODEL = "sha256:0"
ALL = [["LS", "BERT"], ["T-LS", "BERT"], ["WSLS", "BERT"], ["T-WSLS", "BERT"], ["T-WSLS", "T-LS"]]


def study(**changes: Any) -> Study:
    return get_study_class().model_validate(
        {"name": "small", "training": {"instances": 64, "batch_size": 32, "negatives": 1}, **changes}
    )


def comparisons(plan: dict[str, Any]) -> list[list[str]]:
    return [pair for family in plan["families"] for pair in family["comparisons"]]


def test_results_without_their_plan_are_not_declared_again(tmp_path):
    """The plan that was declared before the results is lost."""
    register_plan(study(), MODEL, tmp_path / "results")
    (tmp_path / "results/runs/a").mkdir(parents=True)
    (tmp_path / "results/runs/a/record.json").write_text("{}")
    (tmp_path / "results/plan.json").unlink()
    with pytest.raises(UserError, match=r"plan\.json: missing, although .* contains results of a study"):
        register_plan(study(), MODEL, tmp_path / "results")


def test_all_comparisons_are_declared():
    plan = build_plan(study(), MODEL)
    assert {family["name"]: family["comparisons"] for family in plan["families"]} == {
        "variants": ALL,
        "switch": [["T-LS", "LS"], ["T-WSLS", "WSLS"]],
        "sanity": [["BERT", "BM25"], ["BERT", "cosine"]],
    }
    assert (plan["version"], plan["seeds"], plan["metric"], plan["alpha"]) == (1, [1, 2, 3, 4, 5], "R10@1", 0.05)
    assert "exploratory" not in plan


def test_no_comparison_names_a_system_that_is_not_run():
    plan = build_plan(study(variants=["BERT", "T-WSLS"]), MODEL)
    assert comparisons(plan) == [["T-WSLS", "BERT"], ["BERT", "BM25"], ["BERT", "cosine"]]
    assert comparisons(build_plan(study(variants=["BERT"]), MODEL)) == [["BERT", "BM25"], ["BERT", "cosine"]]


def test_the_hash_is_that_of_the_plan_and_the_plan_is_json(tmp_path):
    plan, plan_hash, _ = register_plan(study(), MODEL, tmp_path / "results")
    assert plan_hash == hash_json(plan)
    assert read_json(tmp_path / "results/plan.json") == {"plan": plan, "hash": plan_hash}
    assert json.loads(json.dumps(plan)) == plan


def test_names_of_model_and_data_are_next_to_the_plan_and_in_neither_plan_nor_hash(tmp_path):
    setup = {"model": "org/bert", "data": "docstrings", "date": "2026-07-31", "commit": None}
    plan, plan_hash, _ = register_plan(study(), MODEL, tmp_path, setup=setup)
    assert plan_hash == register_plan(study(), MODEL, tmp_path / "without").hash
    assert read_json(tmp_path / "plan.json") == {"plan": plan, "hash": plan_hash, "setup": setup}
    later = setup | {"date": "2026-08-01"}
    assert register_plan(study(), MODEL, tmp_path, setup=later).document == plan
    assert read_json(tmp_path / "plan.json")["setup"] == setup
    register_plan(study(seeds=[1, 2]), MODEL, tmp_path, setup=later)
    assert read_json(tmp_path / "plan.json")["setup"] == later


def test_the_same_settings_are_the_same_plan_and_touch_nothing(tmp_path):
    first = register_plan(study(), MODEL, tmp_path)
    before = (tmp_path / "plan.json").stat()
    assert register_plan(study(), MODEL, tmp_path) == first
    after = (tmp_path / "plan.json").stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)


@pytest.mark.parametrize(
    "change",
    [
        {"tracking": {"mode": "disabled"}},
        {"resources": {"concurrent": 1}},
        {"trial": {"minutes": 5, "memory": "4GB"}},
        {"output": {"folder": "elsewhere"}},
        {"cache": {"folder": "elsewhere", "checkpoints": "s3://bucket", "max_size": None, "checkpoint_interval": 0}},
        {"model": {"name": "some/path"}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_where_a_study_runs_is_not_part_of_its_plan(tmp_path, change):
    assert register_plan(study(), MODEL, tmp_path) == register_plan(study(**change), MODEL, tmp_path)


CHANGES: dict[str, dict[str, Any]] = {
    "seeds": {"seeds": [1, 2]},
    "metric": {"analysis": {"metric": "R10@2"}},
    "alpha": {"analysis": {"alpha": 0.01}},
    "margin": {"analysis": {"margin": 0.005}},
    "queries": {"task": {"test_queries": 7}},
    "training": {"training": {"instances": 128, "batch_size": 32, "negatives": 1}},
    "search": {"search": {"n_configurations": {"LS": 1}}},
    "confirmation": {"confirm": {"seeds": [11, 12]}},
    "groups": {"confirm": {"seeds": [11, 12, 13, 14], "group_size": 2}},
    "race": {"search": {"pruning": "race"}},
    "budget": {"search": {"hours": 2.0}},
}


@pytest.mark.parametrize("name", CHANGES)
def test_changed_settings_are_the_next_version(tmp_path, name):
    first, first_hash, none = register_plan(study(), MODEL, tmp_path)
    assert none == []
    second, second_hash, changes = register_plan(study(**CHANGES[name]), MODEL, tmp_path)
    assert (second["version"], second["replaces"]) == (2, first_hash)
    assert second_hash == hash_json(second) != first_hash
    assert comparisons(second) == comparisons(first)
    assert register_plan(study(**CHANGES[name]), MODEL, tmp_path) == (second, second_hash, [])
    assert changes
    back = register_plan(study(), MODEL, tmp_path).document
    assert (back["version"], back["replaces"]) == (3, second_hash)
    assert back["settings"] == first["settings"]


def test_pooled_seeds_are_part_of_the_plan():
    own, pooled = (build_plan(study(analysis={"seeds": how}), MODEL) for how in ("own", "pooled"))
    assert own == build_plan(study(), MODEL)
    assert (pooled["seed_variance"], pooled["settings"]["analysis"]["seeds"]) == ("pooled", "pooled")
    assert [Plan.model_validate(plan).seed_variance for plan in (own, pooled)] == ["own", "pooled"]


NAMED = [["T-WSLS", "WSLS"], ["WSLS", "LS"]]


def test_named_comparisons_follow_the_given_ones_in_their_family():
    variants, switch, sanity = build_plan(study(analysis={"comparisons": NAMED}), MODEL)["families"]
    assert (variants["name"], variants["comparisons"]) == ("variants", ALL + NAMED)
    assert switch["comparisons"] == [["T-LS", "LS"]]
    assert sanity == build_plan(study(), MODEL)["families"][-1]


def test_a_comparison_that_changes_its_family_after_a_test_score_is_exploratory(tmp_path):
    register_plan(study(), MODEL, tmp_path)
    write_test_scores(tmp_path)
    moved = register_plan(study(analysis={"comparisons": NAMED[:1]}), MODEL, tmp_path).document
    assert moved["exploratory"] == NAMED[:1]


def test_comparisons_on_dev_are_a_family_of_their_own():
    settings = {"comparisons": NAMED, "correction": "holm"}
    before = build_plan(study(analysis=settings), MODEL)
    plan = build_plan(study(analysis=settings | {"dev_comparisons": True}), MODEL)
    own = {"name": "variants on dev", "correction": "holm", "comparisons": ALL + NAMED, "split": "dev"}
    assert plan["families"] == [*before["families"], own]
    assert Plan.model_validate(plan).headline.name == "variants"
    alone = {"variants": ["BERT"], "analysis": {"dev_comparisons": True}}
    assert [family["name"] for family in build_plan(study(**alone), MODEL)["families"]] == ["sanity"]


def test_named_comparisons_of_encoders_are_in_both_families_and_on_dev_by_the_metric_of_the_study():
    settings = ['variants=["SimCSE", "GS-InfoNCE", "T-GS-InfoNCE"]', "analysis.dev_comparisons=true"]
    settings.append('analysis.comparisons=[["T-GS-InfoNCE", "GS-InfoNCE"]]')
    families = build_plan(load_study("gs-infonce", settings), MODEL)["families"]
    assert [family["comparisons"][-1] for family in families[:2]] == [["T-GS-InfoNCE", "GS-InfoNCE"]] * 2
    assert families[-1]["comparisons"] == families[0]["comparisons"]
    assert "metrics" not in families[-1]


def test_after_test_scores_comparisons_are_added_as_exploratory_and_none_is_taken_away(tmp_path):
    register_plan(study(analysis={"comparisons": NAMED[:1]}), MODEL, tmp_path)
    write_test_scores(tmp_path)
    plan = register_plan(study(analysis={"comparisons": NAMED}), MODEL, tmp_path).document
    assert (plan["version"], plan["exploratory"], comparisons(plan)[:-3]) == (2, NAMED[1:], ALL + NAMED)
    changes: tuple[dict[str, Any], ...] = (
        {"comparisons": NAMED[:1]},
        {"comparisons": [NAMED[0][::-1], NAMED[1]]},
        {},
        {"comparisons": NAMED, "correction": "holm"},
        {"comparisons": [*NAMED, ["T-WSLS", "LS"]], "alpha": 0.01},
    )
    for change in changes:
        with pytest.raises(UserError, match=r"test scores from before these settings changed: analysis\."):
            register_plan(study(analysis=change), MODEL, tmp_path)
    assert read_plan(tmp_path / "plan.json").document == plan


def write_test_scores(folder: Path) -> Path:
    path = folder / "runs" / "abc" / "test.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    return path


def test_what_is_added_before_any_test_score_is_declared_like_the_rest(tmp_path):
    register_plan(study(variants=["BERT", "LS"]), MODEL, tmp_path)
    (tmp_path / "runs" / "abc").mkdir(parents=True)
    (tmp_path / "runs" / "abc" / "record.json").write_text("{}")  # a run, but none on the test set
    second = register_plan(study(variants=["BERT", "LS", "T-LS"]), MODEL, tmp_path).document
    assert (second["version"], comparisons(second)[:2]) == (2, [["LS", "BERT"], ["T-LS", "BERT"]])
    assert "exploratory" not in second


def test_what_is_added_after_a_test_score_is_exploratory_for_ever(tmp_path):
    register_plan(study(variants=["BERT", "LS"]), MODEL, tmp_path)
    register_plan(study(variants=["BERT", "LS", "T-LS"]), MODEL, tmp_path)
    scores = write_test_scores(tmp_path)
    third = register_plan(study(), MODEL, tmp_path).document
    assert third["exploratory"] == [["WSLS", "BERT"], ["T-WSLS", "BERT"], ["T-WSLS", "T-LS"], ["T-WSLS", "WSLS"]]
    scores.unlink()
    fourth = register_plan(study(seeds=[1, 2]), MODEL, tmp_path).document
    assert fourth["exploratory"] == third["exploratory"]
    assert (fourth["version"], register_plan(study(seeds=[1, 2]), MODEL, tmp_path).document) == (4, fourth)


def test_label_noise_is_part_of_the_plan(tmp_path):
    assert build_plan(study(), MODEL)["label_noise"] is None
    register_plan(study(), MODEL, tmp_path)
    noisy = register_plan(study(task={"label_noise": 0.2}), MODEL, tmp_path)
    assert (
        Plan.model_validate(noisy.document).label_noise == study(task={"label_noise": 0.2}).task.describe_label_noise()
    )
    assert noisy.changes == ["task.label_noise 0.0 -> 0.2"]
    write_test_scores(tmp_path)
    with pytest.raises(UserError, match=r"test scores from before these settings changed: .*task\.label_noise"):
        register_plan(study(task={"label_noise": 0.4}), MODEL, tmp_path)


def test_another_studys_folder_is_an_error(tmp_path):
    register_plan(study(), MODEL, tmp_path)
    before = (tmp_path / "plan.json").read_bytes()
    with pytest.raises(UserError, match="results of the study 'small'; expected those of 'other'"):
        register_plan(study(name="other"), MODEL, tmp_path)
    assert (tmp_path / "plan.json").read_bytes() == before


def test_a_folder_with_other_things_is_an_error(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(UserError, match="a folder with other files; expected an empty folder"):
        register_plan(study(), MODEL, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"plan": {}}', "\udcff"])
def test_a_plan_json_of_something_else_is_an_error(tmp_path, content):
    (tmp_path / "plan.json").write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(UserError, match="expected"):
        register_plan(study(), MODEL, tmp_path)


@pytest.mark.parametrize("name", [*list_shipped()])
def test_the_analysis_understands_the_plan_of_every_shipped_study(name):
    plan = build_plan(load_study(name), MODEL)
    assert Plan.model_validate(plan).metric == plan["metric"]


def test_once_test_scores_exist_only_variants_may_be_added(tmp_path):
    register_plan(study(variants=["BERT", "LS"]), MODEL, tmp_path)
    write_test_scores(tmp_path)
    for change in (
        {"analysis": {"alpha": 0.2}},
        {"analysis": {"seeds": "pooled"}},
        {"seeds": [1, 2]},
        {"search": {"round_size": 7}},
    ):
        with pytest.raises(UserError, match="test scores from before these settings changed: "):
            register_plan(study(variants=["BERT", "LS"], **change), MODEL, tmp_path)
    plan = register_plan(study(variants=["BERT", "LS", "WSLS"]), MODEL, tmp_path).document
    assert plan["exploratory"] == [["WSLS", "BERT"]]


DATA = {"fingerprint": "a", "splits": {split: {"queries": 2} for split in ("dev", "test")}}


def test_a_start_that_would_fail_is_found_without_a_start(tmp_path):
    """An automatic precision and word vectors are resolved only by a start, which finds whether they changed."""
    place = {"output": {"folder": str(tmp_path)}, "variants": ["BERT", "LS"]}
    check_changes(study(**place), MODEL, DATA)
    resolved = study(**place, training={"instances": 64, "batch_size": 32, "negatives": 1, "precision": "fp32"})
    before = register_plan(resolved, MODEL, tmp_path, DATA).document
    check_changes(study(**place, seeds=[1, 2]), MODEL, DATA | {"fingerprint": "b"})
    write_test_scores(tmp_path)
    for model in (MODEL, None):
        check_changes(study(**place), model, DATA)
    check_changes(study(**place | {"variants": ["BERT", "LS", "WSLS"]}), MODEL, DATA)
    with pytest.raises(UserError, match=r"test scores from before these settings changed: seeds \[1, 2, 3, 4, 5\] -> "):
        check_changes(study(**place, seeds=[1, 2]), MODEL, DATA)
    with pytest.raises(UserError, match="test scores from before these settings changed: model"):
        check_changes(study(**place), "sha256:1", DATA)
    with pytest.raises(UserError, match=r"test scores from other data \(a, now b\); expected another output\.folder"):
        check_changes(study(**place), MODEL, DATA | {"fingerprint": "b"})
    with pytest.raises(UserError, match="results of the study 'small'; expected those of 'other'"):
        check_changes(study(**place, name="other"), MODEL, DATA)
    assert read_plan(tmp_path / "plan.json").document == before


def test_the_metric_stands_from_the_first_record_on(tmp_path):
    register_plan(study(), MODEL, tmp_path)
    (tmp_path / "runs" / "abc").mkdir(parents=True)
    (tmp_path / "runs" / "abc" / "record.json").write_text("{}")
    with pytest.raises(UserError, match=r"runs from before these settings changed: analysis\.metric"):
        register_plan(study(analysis={"metric": "R10@2"}), MODEL, tmp_path)
    register_plan(study(seeds=[1, 2]), MODEL, tmp_path)


def test_what_a_failed_start_left_does_not_lock_the_folder(tmp_path):
    (tmp_path / "error.log").write_text("no disk")
    (tmp_path / ".plan.json.0123").write_text("{")
    (tmp_path / ".cache").mkdir()
    register_plan(study(cache={"folder": str(tmp_path / ".cache")}), MODEL, tmp_path)


def test_a_study_without_results_that_lost_its_plan_declares_it_again(tmp_path):
    expected = register_plan(study(), MODEL, tmp_path).hash
    (tmp_path / "plan.json").unlink()
    for name in ("clock.json", "search.json", "data.json", "suite.json", ".clock.json.0123abcd-7-01234567"):
        (tmp_path / name).touch()
    write_study_file(study(), tmp_path)
    (tmp_path / "runs" / ("a" * 16)).mkdir(parents=True)
    assert register_plan(study(), MODEL, tmp_path).hash == expected
    (tmp_path / "plan.json").unlink()
    (tmp_path / "runs" / ("a" * 16) / "record.json.damaged").touch()
    with pytest.raises(UserError, match=r"missing, although .* contains results of a study; expected .* restore it"):
        register_plan(study(), MODEL, tmp_path)


@pytest.mark.parametrize("name", ["study.toml", "runs/events.1"])
def test_files_with_names_of_a_study_are_other_files_if_they_are_none_of_it(tmp_path, name):
    (tmp_path / "runs").mkdir()
    (tmp_path / name).write_text("mine")
    with pytest.raises(UserError, match="a folder with other files"):
        register_plan(study(), MODEL, tmp_path)


TRAINING = {"instances": 64, "batch_size": 32, "negatives": 1}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, []),
        ({"search": {"epsilon": [0.2, 0.3]}}, ["search.epsilon [0.1, 0.2, 0.3, 0.4] -> [0.2, 0.3]"]),
        ({"training": TRAINING | {"instances": 128}}, ["training.instances 64 -> 128"]),
        ({"task": RankerTaskSettings(dev_queries=7).model_dump()}, ["task.dev_queries none -> 7"]),
        ({"analysis": {"correction": "holm"}}, ['analysis.correction "bonferroni" -> "holm"']),
        ({"output": {"folder": "elsewhere"}}, []),
        ({"search": {"round_size": 3}}, ["search.round_size 2 -> 3"]),
        ({"seeds": [1], "variants": ["BERT"]}, ["seeds [1, 2, 3, 4, 5] -> [1]", "variants"]),
    ],
)
def test_what_changed_is_told_with_old_and_new_value(changed, expected):
    found = list_changed_settings(build_plan(study(), MODEL), build_plan(study(**changed), MODEL))
    assert len(found) == len(expected)
    assert all(line.startswith(wanted) for line, wanted in zip(found, expected, strict=True))


def test_a_long_value_is_cut():
    (line,) = list_changed_settings(build_plan(study(), MODEL), build_plan(study(seeds=list(range(100))), MODEL))
    assert len(line) < 120
    assert line.endswith("...")


def test_new_data_are_a_change():
    splits = {split: {"queries": 3} for split in ("dev", "test")}
    old, new = (build_plan(study(), MODEL, {"fingerprint": name, "splits": splits}) for name in "ab")
    assert list_changed_settings(old, new) == ['data.fingerprint "a" -> "b"']
