"""Every mistake in a study is one line that names the place, the key, the value and what was expected."""

import pickle
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import get_args

import pytest
from pydantic import ValidationError
from wandb import Settings

from search_spaces.ranker import STUDY_TYPE
from study.config.loader import load_study
from study.config.sources import STUDIES_FOLDER, list_shipped_studies
from study.config.spaces import count_proposals
from trainables.utils.errors import UserError

HEAVY = ("torch", "ray", "wandb", "optuna", "pandas", "scipy", "numpy", "transformers")
SMALL = 'name = "small"\n[training]\ninstances = 64\nbatch_size = 32\nnegatives = 1\n'


@pytest.fixture(autouse=True)
def _no_tracking_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_MODE", raising=False)


def message(path: str | None, *overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        load_study(path, overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", [name for name, _ in list_shipped_studies()])
def test_shipped_studies_load_by_name_and_as_a_file(name: str) -> None:
    assert load_study(name) == load_study(str(STUDIES_FOLDER / f"{name}.toml"))
    assert load_study(name).name == name


def test_no_path_is_the_quick_study() -> None:
    assert load_study(None) == load_study("quick")


def test_shipped_studies_say_what_they_are() -> None:
    assert {"quick", "wsls-docstrings"} <= dict(list_shipped_studies()).keys()
    assert all(line and not line.startswith("#") for _, line in list_shipped_studies())


def test_the_paper_study_covers_its_grid() -> None:
    study = load_study("wsls-docstrings")
    assert study.search.sampler == "grid"
    assert count_proposals(study) == {"LS": 4, "T-LS": 4, "WSLS": 4, "T-WSLS": 4}


def test_defaults_of_a_small_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_override_keeps_its_type(override: str, key: str, value: object) -> None:
    found: object = load_study(None, [override])
    for name in key.split("."):
        found = getattr(found, name)
    assert (found, type(found)) == (value, type(value))


def test_variants_without_trials_keep_their_default(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(SMALL + "[search.n_configurations]\nLS = 4\n")
    assert count_proposals(load_study(str(file))) == {"LS": 4, "WSLS": 2, "T-LS": 3, "T-WSLS": 3}


def test_an_override_changes_nothing_else() -> None:
    study = load_study(None, ["search.n_configurations.LS=3"])
    assert study.search.n_configurations == load_study().search.n_configurations | {"LS": 3}
    assert study.model_copy(update={"search": load_study().search}) == load_study()


MISTAKES = [
    ("search.epsilon=[1.5]", "search.epsilon: [1.5]", "above 0 and at most 1"),
    ("search.epsilon=[0.0]", "search.epsilon: [0.0]", "above 0 and at most 1"),
    ("search.epsilon=1.5", "search.epsilon: 1.5", "a list of increasing numbers"),
    ("search.epsilon=0.1,0.2", "search.epsilon: '0.1,0.2'", "a list of increasing numbers"),
    ("search.epsilon=[0.2, 0.1]", "search.epsilon: [0.2, 0.1]", "increasing"),
    ("search.epsilon=[0.2, 0.2]", "search.epsilon: [0.2, 0.2]", "increasing"),
    ("search.epsilon=[]", "search.epsilon: []", "e.g. [0.1, 0.2]"),
    (
        "search.schedule_settings.switch=[-1]",
        "search.schedule_settings: {'switch': [-1]}",
        "for switch numbers greater",
    ),
    (
        "search.schedule_settings.switch=[1]",
        "search.schedule_settings: {'switch': [1]}",
        "switch numbers less than",
    ),
    (
        "search.n_configurations.LS=9",
        "search.n_configurations.LS: 9",
        "at most 4, the number of distinct configurations",
    ),
    ("search.n_configurations.T-LS=13", "search.n_configurations.T-LS: 13", "at most 12"),
    ("search.epsilon=[0.2]", "search.n_configurations.LS: 2", "at most 1"),
    ("search.n_configurations.LS=0", "search.n_configurations.LS: 0", "greater than or equal to 1"),
    (
        "search.n_configurations.BERT=1",
        "search.n_configurations.BERT: 1",
        "no value: the baseline has nothing to search",
    ),
    ("search.n_configurations.BM25=1", "search.n_configurations.BM25: 1", "there are search.n_configurations.BERT"),
    ("search.sampler=annealing", "search.sampler: 'annealing'", "one of tpe, gp, qmc, grid"),
    ("search.hours=0", "search.hours: 0", "greater than 0"),
    ("search.gpu_hours=2", "search.gpu_hours: 2", "none while resources.gpu = 0"),
    ("search.pruning=hyperband", "search.pruning: 'hyperband'", "'race'"),
    ('search.schedule=["linear", "linear"]', "search.schedule: ['linear', 'linear']", "distinct names out of"),
    ("search.schedule_settings.rate=[]", "search.schedule_settings.rate: []", "a list of increasing numbers"),
    (
        "search.schedule_settings.rates=[1]",
        "search.schedule_settings.rates: [1]",
        "search.schedule_settings.rate?",
    ),
    ("search.learning_rate=[1e-5]", "search.learning_rate: [1e-05]", "contains training.learning_rate = 0.0005"),
    ("confirm.seeds=[1, 11]", "confirm.seeds: [1, 11]", "fresh seeds; seeds also contains [1]"),
    ("trial.minutes=0", "trial.minutes: 0", "greater than 0"),
    ("trial.memory=much", "trial.memory: 'much'", 'e.g. "4GB"'),
    ("trial.memory=9999999999TB", "trial.memory: '9999999999TB'", 'e.g. "4GB"'),
    ("trial.minutes=1e300", "trial.minutes: 1e+300", "less than or equal to 1000000"),
    ("search.n_configurations=3", "search.n_configurations: 3", "a table"),
    ("search.sampler=random", "search.sampler: 'random'", "one of tpe"),
    ("search.round_size=0", "search.round_size: 0", "Results depend on it, and resources.concurrent is how many"),
    ("variants=[BERT]", "variants: '[BERT]'", "a list of distinct names out of BERT, LS, T-LS, WSLS, T-WSLS"),
    ('variants=["BERT", "SLS"]', "variants: ['BERT', 'SLS']", "out of BERT, LS, T-LS, WSLS, T-WSLS"),
    ('variants=["LS"]', "variants: ['LS']", "BERT as well, the baseline of LS"),
    ('variants=["BERT", "BERT"]', "variants: ['BERT', 'BERT']", "distinct"),
    ("seeds=[]", "seeds: []", "at least one"),
    ("seeds=[1, 1]", "seeds: [1, 1]", "distinct"),
    ("seeds=[-1]", "seeds: [-1]", "from 0"),
    ("seeds=1", "seeds: 1", "a list"),
    ("name=My Study", "name: 'My Study'", "lower-case letters, digits and hyphens"),
    ("name.sub=1", "name: {'sub': 1}", "lower-case letters"),
    ("training=3", "training: 3", "a table"),
    ('training.batch_size="32"', "training.batch_size: '32'", "a whole number"),
    ("training.batch_size=true", "training.batch_size: True", "a whole number"),
    ("training.batch_size=32.0", "training.batch_size: 32.0", "a whole number"),
    ("training.learning_rate=inf", "training.learning_rate: 'inf'", "a valid number"),
    ("training.learning_rate=-1", "training.learning_rate: -1", "greater than 0"),
    ("training.decay=cosine", "training.decay: 'cosine'", "'constant' or 'linear'"),
    ("training.batch_size=33", "training.batch_size: 33", "a multiple of 1 + training.negatives = 2; 34 works"),
    ("training.negatives=4", "training.batch_size: 32", "a multiple of 1 + training.negatives = 5; 30 works"),
    ("training.negatives=15", "training.negatives: 15", "at most task.candidates - 1 = 9"),
    ("training.instances=1000", "training.instances: 1000", "training.batch_size = 32; 992 works"),
    ("training.instances=0", "training.instances: 0", "32 works"),
    (f"training.instances={10**21}", f"training.instances: {10**21}", "less than or equal to 1000000000000"),
    (f"training.instances={16 * 10**21}", f"training.instances: {16 * 10**21}", "less than or equal to 1000000000000"),
    ("training.epochs=1e300", "training.epochs: 1e+300", "less than or equal to 1000000"),
    (f"training.threads={10**21}", f"training.threads: {10**21}", "less than or equal to 1000000000000"),
    (f"task.train_queries={10**21}", f"task.train_queries: {10**21}", "less than or equal to 1000000000000"),
    ("training.evaluations=257", "training.evaluations: 257", "256 batches"),
    ("model.num_layers=3", "model.frozen_layers: 3", "fewer than model.num_layers = 3"),
    ("model.name=./nowhere", "model.name: './nowhere'", "nowhere does not exist"),
    ("model.name=~/nowhere-at-all", "model.name: '~/nowhere-at-all'", "does not exist"),
    (
        "model.name=package:nowhere/model",
        "model.name: 'package:nowhere/model'",
        "is the environment with 'nowhere' active?",
    ),
    ("model.name=package:a.b/model", "model.name: 'package:a.b/model'", "package:MODULE/FOLDER"),
    ("model.name=package:study/nowhere", "model.name: 'package:study/nowhere'", "nowhere does not exist"),
    ("model.name=package:study/studies", "model.name: 'package:study/studies'", "studies has no config.json"),
    ("model.name=two words", "model.name: 'two words'", "a hub id (OWNER/NAME), a local folder"),
    ("analysis.metric=speed", "analysis.metric: 'speed'", "R<n>@<k>"),
    ("analysis.metric=ECE", "analysis.metric: 'ECE'", "R<n>@<k>, e.g. R10@1, with n = task.candidates, or MAP"),
    ("analysis.metric=NLL", "analysis.metric: 'NLL'", "nDCG@<k> or position"),
    ("analysis.metric=nDCG@0", "analysis.metric: 'nDCG@0'", "nDCG@<k>"),
    ("analysis.metric=R20@1", "analysis.metric: 'R20@1'", "R10@<k>"),
    ("analysis.metric=R10@10", "analysis.metric: 'R10@10'", "k below 10"),
    ("task.candidates=20", "analysis.metric: 'R10@1'", "R20@<k>"),
    ("task.libraries=numpy", "task.libraries: 'numpy'", "a list in brackets"),
    ("task.libraries=[3]", "task.libraries: 3", "a valid string"),
    ("analysis.alpha=1", "analysis.alpha: 1", "less than 1"),
    ("analysis.correction=fdr", "analysis.correction: 'fdr'", "'bonferroni', 'holm' or 'bh'"),
    ('analysis.comparisons=["LS"]', "analysis.comparisons: ['LS']", 'pairs of systems, e.g. [["T-WSLS", "WSLS"]]'),
    ('analysis.comparisons=[["LS"]]', "analysis.comparisons: [['LS']]", "pairs of systems"),
    (
        'analysis.comparisons=[["LS", "BM25"]]',
        "analysis.comparisons: ['LS', 'BM25']",
        "two different systems out of BERT, LS, T-LS, WSLS",
    ),
    (
        'analysis.comparisons=[["LS", "LS"]]',
        "analysis.comparisons: ['LS', 'LS']",
        "two different systems out of BERT, LS, T-LS, WSLS",
    ),
    (
        'analysis.comparisons=[["T-WSLS", "T-LS"]]',
        "analysis.comparisons: ['T-WSLS', 'T-LS']",
        "the plan has anyway: T-WSLS with T-LS",
    ),
    (
        'analysis.comparisons=[["BERT", "LS"]]',
        "analysis.comparisons: ['BERT', 'LS']",
        "no comparison that the plan has anyway: LS with BERT",
    ),
    (
        'analysis.comparisons=[["LS", "WSLS"], ["WSLS", "LS"]]',
        "analysis.comparisons: ['WSLS', 'LS']",
        "each comparison once",
    ),
    ("tracking.mode=on", "tracking.mode: 'on'", "'offline', 'online' or 'disabled'"),
    ("resources.concurrent=0", "resources.concurrent: 0", "greater than or equal to 1"),
    ("cache.folder=", "cache.folder: ''", "at least one character"),
    (f"cache.folder={__file__}/x", f"cache.folder: '{__file__}/x'", "is a file"),
    ("output.cache=x", "output.cache: 'x'", "did you mean cache?"),
    ("cache.max_size=20", "cache.max_size: 20", 'a size as text, e.g. "500MB", "20GB" or "1.5 GiB", or none'),
    ("cache.max_size=20 apples", "cache.max_size: '20 apples'", "a size as text"),
    ("cache.max_size=-1GB", "cache.max_size: '-1GB'", "a size as text"),
    ("cache.checkpoint_interval=-1", "cache.checkpoint_interval: -1", "greater than or equal to 0"),
    ("cache.checkpoint_interval=often", "cache.checkpoint_interval: 'often'", "a valid number"),
    (
        "cache.checkpoints=nowhere://x",
        "cache.checkpoints: 'nowhere://x'",
        "a file system that fsspec knows, e.g. s3://",
    ),
    ("cache.checkpoints=", "cache.checkpoints: ''", "at least one character"),
    (f"cache.checkpoints={__file__}/x", f"cache.checkpoints: '{__file__}/x'", "is a file"),
    (f"output.folder={__file__}/x", f"output.folder: '{__file__}/x'", "is a file"),
    ("output.folder=s3://b/x", "output.folder: the URL s3://...", "a folder on a disk; output.remote takes a URL"),
    ("cache.folder=s3://b/x", "cache.folder: the URL s3://...", "a folder on a disk; cache.checkpoints takes a URL"),
    ("output.folder=/proc/x", "output.folder: '/proc/x'", "a folder on a disk; /proc holds no files"),
    ("cache.folder=/sys", "cache.folder: '/sys'", "a folder on a disk; /sys holds no files"),
    ("cache.checkpoints=/proc/self/x", "cache.checkpoints: '/proc/self/x'", "a folder on a disk"),
    ("training.batchsize=64", "training.batchsize: 64", "did you mean training.batch_size?"),
    ("training.epsilon=0.2", "training.epsilon: 0.2", "did you mean search.epsilon?"),
    ("training.loss=lce", "training.loss: 'lce'", 'did you mean variants = ["LCE"]?'),
    ("loss=margin_mse", "loss: 'margin_mse'", 'did you mean variants = ["MarginMSE"]?'),
    ("epsilon=0.2", "epsilon: 0.2", "did you mean search.epsilon?"),
    ("search.n_configuration.LS=2", "search.n_configuration: {'LS': 2}", "did you mean search.n_configurations?"),
    ("search.n_configurations.BM25=2", "search.n_configurations.BM25: 2", "there are search.n_configurations.BERT, "),
    ("num_layers=2", "num_layers: 2", "did you mean model.num_layers?"),
    ("model.reinit_layers=2", "model.reinit_layers: 2", "did you mean model.frozen_layers?"),  # of sentence encoders
    ("trainings.batch_size=2", "trainings: {'batch_size': 2}", "did you mean training?"),
    ("training={lr=1}", "training.lr: 1", "there are training.instances"),
    ("training.epochs=0", "training.epochs: 0", "greater than 0"),
    ("training.epochs=nan", "training.epochs: 'nan'", "a valid number"),
    ("training.checkpoint=best", "training.checkpoint: 'best'", "STS/<set>, with n = task.candidates"),
    ("training.checkpoint=map", "training.checkpoint: 'map'", "last, or a metric: "),
    ("training.checkpoint=R10@11", "training.checkpoint: 'R10@11'", "last, or a metric: "),
    ("training.checkpoint=R8@1", "training.checkpoint: 'R8@1'", "last, or R10@<k> (n is task.candidates) with k bel"),
    ("training.checkpoint=R10@10", "training.checkpoint: 'R10@10'", "with k below 10"),
    ("training.checkpoint=none", "training.checkpoint: none", "a valid string"),
    ("foo", "'foo'", "KEY=VALUE"),
    ("=3", "'=3'", "KEY=VALUE"),
    ("a..b=3", "'a..b=3'", "KEY=VALUE"),
    (".".join("a" * 3000) + "=1", "a: 2999 levels of keys and lists", "at most 8"),
    ("training={" + ".".join("a" * 3000) + "=1}", "training: 3000 levels of keys and lists", "at most 8"),
    ("seeds=" + "[" * 10 + "]" * 10, "seeds: 9 levels of keys and lists", "at most 8"),
    ("a" * 500 + "=1", f"{'a' * 77}...: 1", "a known key"),
]


def test_too_many_negatives_name_the_key_that_sets_their_number_and_the_number_that_would_do() -> None:
    with pytest.raises(UserError, match=r"training\.negatives: 3; expected at most task\.train_negatives = 2"):
        load_study("quick", ["task.train_negatives=2", "training.negatives=3", "training.batch_size=32"])


@pytest.mark.parametrize(("override", "found", "expected"), MISTAKES, ids=[mistake[0][:60] for mistake in MISTAKES])
def test_mistake_on_the_command_line(override: str, found: str, expected: str) -> None:
    place, _, rest = message(None, override).partition("; expected ")
    assert place.startswith(f"command line: {found}")
    assert expected in rest


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
def test_mistake_in_a_file(tmp_path: Path, text: str, found: str, expected: str) -> None:
    file = tmp_path / "study.toml"
    file.write_text(text)
    line = message(str(file))
    assert line.startswith(f"{file}: {found}")
    assert expected in line.partition("; expected ")[2]


def test_unreadable_files(tmp_path: Path) -> None:
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
def test_a_budget_is_a_size(text: str, expected: int | None) -> None:
    assert load_study(None, [f"cache.max_size={text}"]).cache.max_bytes == expected


def test_states_lie_in_the_cache_or_where_the_study_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_study(None, ["cache.folder=shared"]).checkpoints_url == str(tmp_path / "shared" / "stages")
    assert load_study(None, ["cache.checkpoints=states"]).checkpoints_url == str(tmp_path / "states")
    assert load_study(None, ["cache.checkpoints=memory://bucket/stages"]).checkpoints_url == "memory://bucket/stages"


def test_only_the_beginning_of_a_folder_is_a_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "run-10:"
    place.mkdir()
    for folder in (tmp_path, place):
        monkeypatch.chdir(folder)
        load_study("quick", [f"output.folder={place}/results", "cache.folder=results/10:30:/cache"])


def test_a_file_system_whose_package_is_missing_is_told_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    assert "Install s3fs" in message(None, "cache.checkpoints=s3://bucket/stages")


def test_as_many_negatives_as_candidates_are_too_many() -> None:
    given = ("training.negatives=10", "training.batch_size=33", "training.instances=1023")
    assert "training.negatives: 10; expected at most task.candidates - 1 = 9" in message(None, *given)


def mistakes(path: str | None, *overrides: str) -> list[str]:
    """The start of each line, up to what was expected."""
    with pytest.raises(UserError) as caught:
        load_study(path, overrides)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    return [line.partition("; expected ")[0] for line in str(caught.value).split("\n")]


def test_batches_of_pairs_have_any_size() -> None:
    """With queries, a batch of 16 does not hold whole groups of 1 + 2."""
    settings = ("training.negatives=2", "training.instances=1152")
    assert load_study("quick", [*settings, "training.unit=pair", "training.batch_size=16"]).training.unit == "pair"
    assert mistakes(None, *settings, "training.batch_size=16") == ["command line: training.batch_size: 16"]


def test_evaluations_are_counted_or_spaced() -> None:
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


def test_a_trainable_that_was_forgotten_is_the_only_mistake(tmp_path: Path) -> None:
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


def test_every_mistake_is_told_where_it_stands(tmp_path: Path) -> None:
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


def test_parts_that_disagree_are_told_once_for_each_cause() -> None:
    assert mistakes(None, "search.epsilon=[0.2]", "confirm.seeds=[1]", "search.gpu_hours=1") == [
        "command line: search.gpu_hours: 1.0",
        "command line: confirm.seeds: [1]",
        "command line: search.n_configurations.LS: 2",
    ]
    assert mistakes(None, 'curriculum.variants=["none"]', "search.n_configurations.none-CL=2", "confirm.seeds=[1]") == [
        "command line: curriculum.variants: ['none']"
    ]
    assert mistakes(None, "training.evaluations=65", "trial.hours=1") == ["command line: trial.hours: 1"]


def test_ten_mistakes_are_named_and_the_others_counted() -> None:
    for count, last in ((10, "command line: k9: 1"), (11, "and 1 more mistake"), (13, "and 3 more mistakes")):
        told = mistakes(None, *(f"k{number}=1" for number in range(count)))
        assert told[:10] == [f"command line: k{number}: 1" for number in range(10)]
        assert told[-1] == last
        assert len(told) == min(count, 11)


def test_mistakes_together_are_told_as_they_are_alone() -> None:
    """One mistake may hide another, but together they end in no other way."""
    draw = Random(17)
    for _ in range(60):
        chosen = draw.sample([override for override, *_ in MISTAKES], 3)
        assert all(line.startswith("command line: ") for line in mistakes(None, *chosen) if " more mistake" not in line)


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (("seeds=[1]", "seeds=[2, 3]"), "seeds: given twice, as [1] and [2, 3]"),
        (("training={threads=1}", "training.threads=2"), "training.threads: given twice, as 1 and 2"),
        (("task.path=none", "task.path=a"), "task.path: given twice, as none and 'a'"),
    ],
)
def test_one_key_with_two_values_is_refused(overrides: tuple[str, str], told: str) -> None:
    assert mistakes(None, *overrides) == [f"command line: {told}"]
    assert load_study(None, [overrides[0], overrides[0]]) == load_study(None, [overrides[0]])


def test_model_in_a_local_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weights/bert").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert "weights/bert has no config.json" in message(None, "model.name=weights/bert")
    Path("weights/bert/config.json").write_text("{}")
    for name in ("weights/bert", "./weights/bert", str(tmp_path / "weights/bert")):
        assert load_study(None, [f"model.name={name}"]).model.name == name


def test_environment_overrides_the_tracking_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert load_study(None, ["tracking.mode=online"]).tracking.mode == "disabled"
    monkeypatch.setenv("WANDB_MODE", "on")
    expected = "expected one of offline, online, disabled, dryrun, run, shared"
    assert message(None) == f"environment variable WANDB_MODE: 'on'; {expected}"


def test_every_mode_of_the_wandb_client_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    named = get_args(Settings.model_fields["mode"].annotation)
    assert {"online", "offline", "disabled"} < set(named)
    found = {}
    for mode in named:
        monkeypatch.setenv("WANDB_MODE", mode)
        found[mode] = load_study(None).tracking.mode
    same = {"online": "online", "offline": "offline", "disabled": "disabled"}
    assert found == {**same, "dryrun": "offline", "run": "online", "shared": "online"}


def test_a_study_is_frozen_and_checks_itself() -> None:
    study = load_study()
    with pytest.raises(ValidationError, match="frozen"):
        study.name = "other"
    with pytest.raises(ValidationError, match="distinct configurations"):
        type(study)(**{**dict(study), "search": type(study.search)(n_configurations={"LS": 5})})


def test_loading_a_study_is_light() -> None:
    code = "import sys, study.config.loader as c, study.config.sources as s; c.load_study(); s.list_shipped_studies(); "
    code += f"print([m for m in {HEAVY} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_variables_of_the_environment_are_those_of_the_file_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_a_dotted_name_in_quotes_is_no_key(tmp_path: Path, text: str, key: str) -> None:
    file = tmp_path / "study.toml"
    file.write_text(f'name = "small"\n{text}')
    assert f"{file}: {key}: " in message(str(file))
    assert "in quotes; expected a key without a dot in it" in message(str(file))
