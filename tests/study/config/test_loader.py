"""Studies by name and from files, with overrides; mistakes in a file, and several at once."""

import pickle
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import get_args

import pytest
from pydantic import ValidationError
from wandb import Settings

from search_spaces.ranker_search import STUDY_TYPE
from study.config.loader import load_study
from study.config.sources import STUDIES_FOLDER, list_shipped
from study.config.spaces import count_proposals
from tests.study.test_mistakes import read_mistakes, split
from trainables.utils.errors import UserError

HEAVY = ("torch", "ray", "wandb", "optuna", "pandas", "scipy", "numpy", "transformers")
SMALL = 'name = "small"\n[training]\ninstances = 64\nbatch_size = 32\nnegatives = 1\n'


@pytest.fixture(autouse=True)
def _no_tracking_mode(monkeypatch):
    monkeypatch.delenv("WANDB_MODE", raising=False)


def message(path: str | None, *overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        load_study(path, overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", [*list_shipped()])
def test_shipped_studies_load_by_name_and_as_a_file(name):
    assert load_study(name) == load_study(str(STUDIES_FOLDER / f"{name}.toml"))
    assert load_study(name).name == name


def test_no_path_is_the_quick_study():
    assert load_study(None) == load_study("quick")


def test_shipped_studies_say_what_they_are():
    assert {"quick", "wsls-docstrings"} <= list_shipped().keys()
    assert all(line and not line.startswith("#") for line in list_shipped().values())


def test_the_paper_study_covers_its_grid():
    study = load_study("wsls-docstrings")
    assert study.search.sampler == "grid"
    assert count_proposals(study) == {"LS": 4, "T-LS": 4, "WSLS": 4, "T-WSLS": 4}


def test_defaults_of_a_small_study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(SMALL)
    study = load_study("small.toml")
    assert (study.seeds, study.variants) == ((1, 2, 3, 4, 5), STUDY_TYPE.default_variants)
    assert (study.folder, study.cache_folder) == (tmp_path / "results/small", tmp_path / "results/.cache")
    assert study.project == "small"


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("training.learning_rate=1e-5", "training.learning_rate", 1e-5),
        ("training.weight_decay=0", "training.weight_decay", 0.0),
        ("training.decay=constant", "training.decay", "constant"),
        ('training.decay="constant"', "training.decay", "constant"),
        ("training.negatives = 3", "training.negatives", 3),
        ("seeds=[7, 8]", "seeds", (7, 8)),
        ("task.train_queries=none", "task.train_queries", None),
        ('tracking.project="none"', "tracking.project", "none"),
        ("search={epsilon=[0.1, 0.5]}", "search.epsilon", (0.1, 0.5)),
        ("model.name=bert-base-uncased", "model.name", "bert-base-uncased"),
        ("tracking.project=a\ntask.b=2", "tracking.project", "a\ntask.b=2"),
    ],
)
def test_override_keeps_its_type(override, key, value):
    found: object = load_study(None, [override])
    for name in key.split("."):
        found = getattr(found, name)
    assert (found, type(found)) == (value, type(value))


def test_variants_without_trials_keep_their_default(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(SMALL + "[search.n_configurations]\nLS = 4\n")
    assert count_proposals(load_study(str(file))) == {"LS": 4, "WSLS": 2, "T-LS": 3, "T-WSLS": 3}


def test_an_override_changes_nothing_else_however_often_it_is_given():
    study = load_study(None, ["search.n_configurations.LS=3"] * 2)
    assert study.search.n_configurations == load_study().search.n_configurations | {"LS": 3}
    assert study.model_copy(update={"search": load_study().search}) == load_study()


@pytest.mark.parametrize(
    ("override", "found"),
    [
        (".".join("a" * 3000) + "=1", "a: 2999 levels of keys and lists"),
        ("training={" + ".".join("a" * 3000) + "=1}", "training: 3000 levels of keys and lists"),
        ("a" * 500 + "=1", f"{'a' * 77}...: 1"),
    ],
    ids=["deep", "deep within", "long"],
)
def test_a_key_without_end_is_told_shortly(override, found):
    assert message(None, override).startswith(f"command line: {found}; expected ")


@pytest.mark.parametrize(
    ("text", "found", "expected"),
    [
        ("seeds = [1]\n", "name: missing", "a value"),
        ('name = "a"\nseeds = [1,\n', "not TOML: ", "key = value"),
        ('name = "a"\nname = "b"\n', "not TOML: Cannot overwrite a value (at line 2", "key = value"),
        ('name = "a"\n[traning]\nthreads = 1\n', "traning: {'threads': 1}", "did you mean training?"),
        (SMALL + "[model]\nname = 3\n", "model.name: 3", "a valid string"),
        (SMALL.replace("64", "65"), "training.instances: 65", "64 works"),
        ('name = "a"\n', "training.batch_size: 32", "a multiple of 1 + training.negatives = 10"),
        ('name = "a"\n' + ".".join("b" * 3000) + " = 1\n", "b: 2999 levels", "at most 8"),
        ('name = "a"\n[' + ".".join("b" * 3000) + "]\n", "b: 2999 levels", "at most 8"),
    ],
)
def test_mistake_in_a_file(tmp_path, text, found, expected):
    file = tmp_path / "study.toml"
    file.write_text(text)
    line = message(str(file))
    assert line.startswith(f"{file}: {found}")
    assert expected in line.partition("; expected ")[2]


def test_unreadable_files(tmp_path):
    expected = "no such file; expected a study file or a name that --list shows"
    assert expected in message(str(tmp_path / "none.toml"))
    assert message("quik").endswith("did you mean quick?")
    assert "cannot be read (Is a directory)" in message(str(tmp_path))
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    assert "not UTF-8" in message(str(tmp_path / "latin.toml"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("20GB", 20 * 10**9), ("500 MB", 500 * 10**6), ("1.5 GiB", 3 * 2**29), ("7b", 7), ("0B", 0), ("none", None)],
)
def test_a_budget_is_a_size(text, expected):
    assert load_study(None, [f"cache.max_size={text}"]).cache.max_bytes == expected


def test_states_lie_in_the_cache_or_where_the_study_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load_study(None, ["cache.folder=shared"]).checkpoints_url == str(tmp_path / "shared" / "stages")
    assert load_study(None, ["cache.checkpoints=states"]).checkpoints_url == str(tmp_path / "states")
    assert load_study(None, ["cache.checkpoints=memory://bucket/stages"]).checkpoints_url == "memory://bucket/stages"


def test_only_the_beginning_of_a_folder_is_a_scheme(tmp_path, monkeypatch):
    place = tmp_path / "run-10:"
    place.mkdir()
    for folder in (tmp_path, place):
        monkeypatch.chdir(folder)
        load_study("quick", [f"output.folder={place}/results", "cache.folder=results/10:30:/cache"])


@pytest.mark.parametrize("key", ["cache.checkpoints", "output.remote"])
def test_a_file_system_without_its_package_is_named(key, monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    assert "Install s3fs" in message(None, f"{key}=s3://bucket/x")


def mistakes(path: str | None, *overrides: str) -> list[str]:
    """The start of each line, up to what was expected."""
    with pytest.raises(UserError) as caught:
        load_study(path, overrides)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    return [line.partition("; expected ")[0] for line in str(caught.value).split("\n")]


def test_batches_of_pairs_have_any_size():
    """With queries, a batch of 16 does not hold whole groups of 1 + 2."""
    settings = ("training.negatives=2", "training.instances=1152")
    pairs = (*settings, 'variants=["BERT", "LS"]', "training.unit=pair", "training.batch_size=16")
    assert load_study("quick", pairs).training.unit == "pair"
    assert mistakes(None, *settings, "training.batch_size=16") == ["command line: training.batch_size: 16"]


def test_evaluations_are_counted_or_spaced():
    """An override replaces the other one of the file."""
    training = load_study("quick", ["training.evaluation_steps=120"]).training
    assert (training.evaluations, training.list_evaluation_points()) == (1, [3840, 7680, 8192])
    assert load_study("quick", ["training.evaluations=2"]).training.list_evaluation_points() == [4096, 8192]
    both = ("training.evaluation_steps=30", "training.evaluations=2")
    assert mistakes(None, *both) == ["command line: training.evaluation_steps: 30"]
    best = ("training.checkpoint=MAP",)
    assert load_study("quick", [*best, "training.evaluation_steps=255"]).training.list_evaluation_points() == [
        8160,
        8192,
    ]
    assert mistakes(None, *best, "training.evaluation_steps=256") == ["command line: training.evaluation_steps: 256"]
    assert load_study("quick", [*best, "training.evaluation_steps=256", "training.epochs=9"]).training.epochs == 9


def test_a_trainable_that_was_forgotten_is_the_only_mistake(tmp_path):
    file = tmp_path / "study.toml"
    file.write_text('name = "mine"\n[task]\npath = "a.txt"\nevaluation_path = "pairs"\nsets = ["STS-B"]\n')
    with pytest.raises(UserError) as caught:
        load_study(str(file), ["training.temperature=0.1"])
    assert str(caught.value) == (
        f'{file}: trainable: none; expected trainable = "sentence-encoder", which has the keys task.evaluation_path, '
        "task.sets, training.temperature"
    )
    assert mistakes(str(file), "training.temprature=0.1")[-1] == "command line: training.temprature: 0.1"
    assert len(mistakes(str(file), "trainable=cross-encoder")) == 2


def test_every_mistake_is_told_where_it_stands(tmp_path):
    file = tmp_path / "study.toml"
    file.write_text(SMALL + 'evaluatoins = 3\ndecay = "cosine"\n')
    assert mistakes(str(file), "seeds=[]", "trial.hours=1") == [
        f"{file}: training.evaluatoins: 3",
        "command line: trial.hours: 1",
        "command line: seeds: []",
        f"{file}: training.decay: 'cosine'",
    ]
    assert mistakes(None, "foo", "a..b=1", "seeds=[]") == ["command line: 'foo'", "command line: 'a..b=1'"]
    assert mistakes(None, "model.name=./nowhere", "output.folder=/proc/x") == [
        "command line: model.name: './nowhere'",
        "command line: output.folder: '/proc/x'",
    ]


def test_parts_that_disagree_are_told_once_for_each_cause():
    assert mistakes(None, "search.epsilon=[0.2]", "confirm.seeds=[1]", "search.gpu_hours=1") == [
        "command line: search.gpu_hours: 1.0",
        "command line: confirm.seeds: [1]",
        "command line: search.n_configurations.LS: 2",
    ]
    assert mistakes(None, 'curriculum.variants=["none"]', "search.n_configurations.none-CL=2", "confirm.seeds=[1]") == [
        "command line: curriculum.variants: ['none']"
    ]
    assert mistakes(None, "training.evaluations=65", "trial.hours=1") == ["command line: trial.hours: 1"]


def test_ten_mistakes_are_named_and_the_others_counted():
    for count, last in ((10, "command line: k9: 1"), (11, "and 1 more mistake"), (13, "and 3 more mistakes")):
        told = mistakes(None, *(f"k{number}=1" for number in range(count)))
        assert told[:10] == [f"command line: k{number}: 1" for number in range(10)]
        assert told[-1] == last
        assert len(told) == min(count, 11)


def test_mistakes_together_are_told_as_they_are_alone():
    """One mistake may hide another, but together they end in no other way."""
    draw, known = Random(17), [given for given in read_mistakes("study") if len(split(given)) == 1]
    for _ in range(60):
        chosen = [word for given in draw.sample(known, 3) for word in split(given)]
        assert all(line.startswith("command line: ") for line in mistakes(None, *chosen) if " more mistake" not in line)


def test_model_in_a_local_folder(tmp_path, monkeypatch):
    (tmp_path / "weights/bert").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert "weights/bert has no config.json" in message(None, "model.name=weights/bert")
    Path("weights/bert/config.json").write_text("{}")
    for name in ("weights/bert", "./weights/bert", str(tmp_path / "weights/bert")):
        assert load_study(None, [f"model.name={name}"]).model.name == name


def test_environment_overrides_the_tracking_mode(monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert load_study(None, ["tracking.mode=online"]).tracking.mode == "disabled"
    monkeypatch.setenv("WANDB_MODE", "on")
    expected = "expected one of offline, online, disabled, dryrun, run, shared"
    assert message(None) == f"environment variable WANDB_MODE: 'on'; {expected}"


def test_every_mode_of_the_wandb_client_is_known(monkeypatch):
    named = get_args(Settings.model_fields["mode"].annotation)
    assert {"online", "offline", "disabled"} < set(named)
    found = {}
    for mode in named:
        monkeypatch.setenv("WANDB_MODE", mode)
        found[mode] = load_study(None).tracking.mode
    same = {"online": "online", "offline": "offline", "disabled": "disabled"}
    assert found == {**same, "dryrun": "offline", "run": "online", "shared": "online"}


def test_a_study_is_frozen_and_checks_itself():
    study = load_study()
    with pytest.raises(ValidationError, match="frozen"):
        study.name = "other"
    with pytest.raises(ValidationError, match="distinct configurations"):
        type(study)(**{**dict(study), "search": type(study.search)(n_configurations={"LS": 5})})


def test_loading_a_study_is_light():
    code = "import sys, study.config.loader as c, study.config.sources as s; c.load_study(); s.list_shipped(); "
    code += f"print([m for m in {HEAVY} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_variables_of_the_environment_are_those_of_the_file_too(tmp_path, monkeypatch):
    file = tmp_path / "mine.toml"
    file.write_text(SMALL + '[task]\npath = "${PLACE}/a"\nlibraries = ["${LIBRARY}"]\n', encoding="utf-8")
    monkeypatch.setenv("PLACE", str(tmp_path))
    monkeypatch.delenv("LIBRARY", raising=False)
    assert message(str(file)) == (
        f"{file}: task.libraries: '${{LIBRARY}}'; expected the environment variable LIBRARY to be set"
    )
    monkeypatch.setenv("LIBRARY", "numpy")
    study = load_study(str(file))
    assert (study.task.path, study.task.libraries) == (f"{tmp_path}/a", ("numpy",))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('"search.seeds" = [7]\n', "search.seeds"),
        ('"training.learning_rate" = 1e-4\n', "training.learning_rate"),
        ('"output.remote" = "x"\n', "output.remote"),
        ('[training]\n"x.learning_rate" = 7.0\n', "training.x.learning_rate"),
        ('[search.n_configurations]\n"a.LS" = 9\n', "search.n_configurations.a.LS"),
    ],
)
def test_a_dotted_name_in_quotes_is_no_key(tmp_path, text, key):
    file = tmp_path / "study.toml"
    file.write_text(f'name = "small"\n{text}')
    assert f"{file}: {key}: " in message(str(file))
    assert "in quotes; expected a key without a dot in it" in message(str(file))
