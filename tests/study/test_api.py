"""The Python interface: the same objects as the commands have, no second implementation."""

import json
from pathlib import Path

import pytest

from study import api
from study.config.loader import load_study
from tests.study.command import call
from tests.study.scored import write_scores
from trainables.utils.errors import UserError


@pytest.mark.parametrize(
    ("settings", "overrides"),
    [
        ({}, []),
        ({"seeds": [3, 4], "training.learning_rate": 1e-4}, ["seeds=[3, 4]", "training.learning_rate=1e-4"]),
        ({"search.hours": None, "task.path": Path("a folder")}, ["search.hours=none", "task.path=a folder"]),
        (
            {"task.sampler": {"name": "random", "weak_label": "bm25"}},
            ["task.sampler={name='random', weak_label='bm25'}"],
        ),
        ({"output.folder": 'with "quotes" and\\'}, ["output.folder='with \"quotes\" and\\'"]),
        (
            {"search.n_configurations": {"T-LS": 3}, "variants": ("BERT", "T-LS")},
            ["search.n_configurations.T-LS=3", 'variants=["BERT","T-LS"]'],
        ),
    ],
)
def test_settings_are_overrides(settings, overrides):
    expected = load_study("quick", overrides)
    assert api.load("quick", settings) == expected
    assert api.load("quick", overrides) == expected


def test_a_plan_is_that_of_the_command(tmp_path):
    settings = {"output.folder": str(tmp_path / "study"), "cache.folder": str(tmp_path / "cache"), "seeds": [1, 2]}
    scores = write_scores(tmp_path / "scores.csv")
    preview = api.plan(api.load("quick", settings), records=scores)
    overrides = [f"output.folder={tmp_path / 'study'}", f"cache.folder={tmp_path / 'cache'}", "seeds=[1, 2]"]
    options = "--dry-run", "--records", str(scores)
    assert call("study.run", tmp_path, "quick", *overrides, *options).stdout == f"{preview}\n"
    assert json.loads(call("study.run", tmp_path, "quick", *overrides, *options, "--json").stdout) == preview


def test_a_folder_without_a_study_is_a_users_mistake(tmp_path):
    with pytest.raises(UserError, match="nothing"):
        api.report(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("option", "told"), [("--bogus", "options: unrecognized arguments: --bogus"), ("--depth=x", "invalid int value")]
)
def test_a_wrong_option_of_reranking_is_a_users_mistake(option, told, tmp_path, capsys):
    files = [tmp_path / name for name in ("a.run", "queries.tsv", "documents.tsv", "new.run")]
    with pytest.raises(UserError, match=told):
        api.rerank(tmp_path, *files, [option])
    assert capsys.readouterr().err == ""


def test_reranking_returns_the_absolute_path_of_the_run(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("study.rerank.rerank_run", asked.append)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert api.rerank("model", "a.run", "queries.tsv", "documents.tsv", "~/new.run") == tmp_path / "new.run"
    assert [options.out for options in asked] == [str(tmp_path / "new.run")]
