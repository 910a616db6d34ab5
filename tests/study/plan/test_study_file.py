"""The copy of a study in its folder runs the same study, and neither it nor the names for people show a folder."""

import re
import tomllib

import pytest

from study.config.loader import load_layered_study, load_study
from study.config.sources import STUDIES_FOLDER, list_shipped
from study.plan.analysis_plan import build_plan
from study.plan.study_file import format_study_file, get_model_label, make_portable, write_study_file
from study.suites.suite_loader import load_suite
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.specs.sentence_encoder import EncoderTaskSettings
from trainables.utils.errors import UserError


@pytest.mark.parametrize("name", [*list_shipped(), *list_shipped(suites=True)])
def test_the_copy_of_a_shipped_study_has_the_same_plan(name, monkeypatch):
    for variable in re.findall(r"\$\{(\w+)\}", (STUDIES_FOLDER / f"{name}.toml").read_text("utf-8")):
        monkeypatch.setenv(variable, f"data/{variable}")
    is_single = name in list_shipped()
    studies = [load_study(name)] if is_single else [each.study for each in load_suite(name).studies]
    for study in studies:
        copy = load_layered_study([("copy", tomllib.loads(format_study_file(study)))], is_draft=True)
        assert build_plan(copy, "sha256:0") == build_plan(study, "sha256:0")
        assert (copy.task, copy.resources, copy.trial) == (study.task, study.resources, study.trial)


OVERRIDES = [
    "training.epochs=0.5",
    "training.evaluation_steps=3",
    'task={name = "dialogues", path = "~/data/it\'s \\"mine\\" é\\u007f", candidates = 5}',
    "task.sampler.preset=wsls-paper",
    "analysis.metric=R5@1",
    "confirm.seeds=3",
    "resources={gpu = 0.5, address = 'ray://10.1.2.3:10001'}",
    "tracking={entity = 'somebody', mode = 'online'}",
    "output={folder = '~/secret', remote = '/mnt/secret'}",
    "cache.max_size=none",
]


def test_the_copy_has_what_results_depend_on_and_names_no_place(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "somebody"))
    model = tmp_path / "somebody" / "models" / "bert"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    study = load_study("quick", [*OVERRIDES, f"model.name={model}"])
    text = format_study_file(study)
    (tmp_path / "copy.toml").write_text(text, encoding="utf-8")
    copy = load_study(str(tmp_path / "copy.toml"))
    assert build_plan(copy, "sha256:0") == build_plan(study, "sha256:0")
    assert copy.resources == study.resources.model_copy(update={"address": None})
    assert 'name = "~/models/bert"' in text
    assert [word for word in (str(tmp_path), "somebody", "secret", "10.1.2.3") if word in text] == []


def test_a_place_on_one_machine_is_an_environment_variable_of_the_copy(tmp_path, monkeypatch):
    runs = f'["{tmp_path}/a.run", "runs/b.run"]'
    study = load_study("quick", ["analysis.metric=nDCG@10", "task.name=beir", f"task.candidates_run={runs}"])
    text = format_study_file(study)
    assert 'candidates_run = ["${STUDY_TASK_CANDIDATES_RUN_1}", "runs/b.run"]' in text
    assert "environment variables: STUDY_TASK_CANDIDATES_RUN_1.\n" in text
    assert str(tmp_path) not in text
    (tmp_path / "copy.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match="expected the environment variable STUDY_TASK_CANDIDATES_RUN_1 to be set"):
        load_study(str(tmp_path / "copy.toml"))
    monkeypatch.setenv("STUDY_TASK_CANDIDATES_RUN_1", f"{tmp_path}/a.run")
    copy = load_study(str(tmp_path / "copy.toml"))
    assert (copy.task, build_plan(copy, "sha256:0")) == (study.task, build_plan(study, "sha256:0"))


def test_model_and_data_are_named_by_last_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org" / "bert").mkdir(parents=True)
    names = {"org/bert": "bert", "./org/bert/": "bert", "org/other": "org/other", "~": "~", ".": tmp_path.name}
    assert {name: get_model_label(name) for name in names} == names
    task = RankerTaskSettings(name="beir", path="/data/scifact/", candidates_run=("~/runs/bm25.run",), teacher="t.run")
    assert task.describe_source() == "beir: scifact, bm25.run, t.run"
    assert RankerTaskSettings(name="irds:msmarco-passage").describe_source() == "irds:msmarco-passage"
    sentences = EncoderTaskSettings(path="~/wiki.txt", evaluation_path="../SentEval")
    assert sentences.describe_source() == "sentences: wiki.txt, SentEval"
    assert make_portable(f"{tmp_path}/x y") == "./x y"


@pytest.mark.parametrize("mine", [b'name = "mine"\n', b"# caf\xe9\n", b""])
def test_a_study_file_of_the_user_stays_in_the_folder_of_results(tmp_path, mine, capsys):
    path = tmp_path / "study.toml"
    path.write_bytes(mine)
    write_study_file(load_study("quick"), tmp_path)
    assert capsys.readouterr().out == f"{path} is not from a study that was run, and stays as it is\n"
    assert path.read_bytes() == mine


def test_an_earlier_copy_is_replaced(tmp_path, capsys):
    path = tmp_path / "study.toml"
    for seeds in ("[1]", "[2]"):
        study = load_study("quick", [f"seeds={seeds}"])
        write_study_file(study, tmp_path)
        assert path.read_text("utf-8") == format_study_file(study)
        assert "\n# To run it again, in the folder in which it was started:\n" in path.read_text("utf-8")
        path.write_bytes(path.read_bytes() + b"# caf\xe9\n")  # somebody edited it with another encoding
    assert capsys.readouterr().out == ""
