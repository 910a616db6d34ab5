"""Runs of a suite, in all; nothing heavy is loaded for it."""

import json
from pathlib import Path

import pytest

from study.run import main
from study.suites.preview import build_suite_preview
from study.suites.suite_loader import load_suite
from study.workflows.dry_run import build_preview
from tests.study.command import call, light
from tests.study.scored import write_scores
from tests.study.suites.test_suite_loader import SUITE, written
from trainables.utils.errors import UserError


def test_totals_are_the_sums_over_the_studies(tmp_path):
    text = SUITE.replace("training.epochs = 2", "training.instances = 256")
    suite = load_suite(written(tmp_path, text), [f"output.folder={tmp_path / 'r'}", f"cache.folder={tmp_path / 'c'}"])
    preview = build_suite_preview(suite)
    own = [build_preview(each.study) for each in suite.studies]
    assert preview["runs"] == sum(each["runs"] for each in own)
    for bound in ("low", "high"):
        assert preview["instances"][bound] == sum(each["instances"]["shared"][bound] for each in own)
    assert preview["trial_hours"] is None
    assert "total" in str(preview)


def test_the_command_loads_nothing_heavy(tmp_path):
    source = written(tmp_path)
    printed = light(tmp_path, source, "--dry-run")
    assert printed.returncode == 0, printed.stderr
    assert "suite small: 4 studies" in printed.stdout
    as_json = call("study.run", tmp_path, source, "--dry-run", "--json", "--study", "*long")
    assert [*json.loads(as_json.stdout)["studies"]] == ["bm25-long", "random-long"]
    one = call("study.run", tmp_path, source, "--dry-run", "--study", "bm25-long")
    assert one.stdout.startswith("study small-bm25-long")


@pytest.mark.parametrize(
    ("option", "chosen", "wrong", "line"),
    [
        ("--dry-run", "random-*", "model.name=empty", "small-random-short: model.name: "),
        ("--prepare", "*random-long", 'task.libraries=["nowhere"]', "small-random-long: task.libraries: "),
        ("--address=local", "*random-long", 'task.libraries=["nowhere"]', "small-random-long: task.libraries: "),
    ],
)
def test_a_mistake_in_the_data_or_the_model_of_a_study_names_the_study(
    tmp_path, monkeypatch, capsys, option, chosen, wrong, line
):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    assert main([written(tmp_path), "--study", chosen, wrong, option]) == 2
    (printed,) = capsys.readouterr().err.splitlines()
    assert printed.startswith(f"study.run: {line}")


def test_what_is_for_one_study_is_an_error(tmp_path):
    source = written(tmp_path)
    for arguments in (["quick", "--study", "x", "--dry-run"], [source, "--export-sweep"], [source, "--sweep"]):
        refused = call("study.run", tmp_path, *arguments)
        assert refused.returncode == 2
        assert len(refused.stderr.splitlines()) == 1


def test_each_comparison_has_a_line_with_what_each_study_finds(tmp_path):
    """By one file for all studies, or by the folder of a suite, with one for the key of each study."""
    suite = load_suite(written(tmp_path), ['variants=["BERT", "LS", "T-LS"]', f"output.folder={tmp_path / 'r'}"])
    records = write_scores(tmp_path / "scores.csv")
    preview = build_suite_preview(suite, records=str(records))
    own = [build_preview(each.study, records=str(records))["detectable"] for each in suite.studies]
    effects = [one["comparisons"][-1]["effects"][0] for one in own]
    assert own[0]["seeds"][0] == 2
    named = ", ".join(f"{effect:.4f} ({each.key})" for effect, each in zip(effects, suite.studies, strict=True))
    assert f"\n  T-LS over LS: {named}\n" in str(preview)
    folder = tmp_path / "suite" / suite.studies[1].key
    folder.mkdir(parents=True)
    with pytest.raises(UserError, match=f"{suite.studies[0].key}|{folder.parent.name}"):
        build_suite_preview(suite, records=str(folder.parent))
    assert "power" not in str(build_suite_preview(suite))
