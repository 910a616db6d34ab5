"""Epochs become instances once the data is known, and from there on nothing tells them apart."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.space import Params
from study.config.loader import load_study
from study.config.schema import Study
from study.config.training_length import convert_to_instances, read_training_counts
from study.plan import analysis_plan as plan
from study.scheduling.trials import ConfigurationFactory
from study.workflows.dry_run import build_preview
from study.workflows.prepare_data import prepare_study_data
from study.workflows.resolve import resolve_study
from study.workflows.study_throughput import measure_study_throughput
from tests.study.command import SMALL, call
from tests.study.driving import RESOLVED, STUDY
from tests.study.small import SETTINGS
from tests.study.small import study as tiny_study
from tests.trainables.small import World
from trainables.data.ranking_dataset import RankingDataset
from trainables.models.architectures import ARCHITECTURES
from trainables.specs.ranker import RankerTrainingSettings
from trainables.utils.errors import UserError

TRAINING = {name: value for name, value in SETTINGS["training"].items() if name != "instances"}


def training(**settings: Any) -> RankerTrainingSettings:
    return RankerTrainingSettings.model_validate(settings)


@pytest.mark.parametrize(
    ("epochs", "queries", "negatives", "batch_size", "instances"),
    [
        (3, 100, 1, 20, 600),
        (0.5, 100, 1, 20, 100),
        (1, 10, 3, 32, 32),  # 40 are 1.25 batches
        (1, 11, 3, 32, 32),  # 44 are 1.375
        (1, 12, 3, 32, 64),  # 48 are 1.5
        (0.001, 10, 3, 32, 32),  # at least one
    ],
)
def test_an_epoch_is_every_query_with_its_negatives(epochs, queries, negatives, batch_size, instances):
    found = convert_to_instances(
        training(epochs=epochs, negatives=negatives, batch_size=batch_size), {"queries": queries}
    )
    assert found == training(instances=instances, negatives=negatives, batch_size=batch_size)


def test_an_epoch_of_pairs_has_every_relevant_document():
    settings = training(epochs=1, negatives=9, batch_size=32, unit="pair")
    counts = {"queries": 96, "relevant": 120}  # 864 negatives
    assert convert_to_instances(settings, counts).instances == 992  # 31 batches, of 30.75
    assert convert_to_instances(settings.model_copy(update={"unit": "query"}), counts).instances == 960


@given(st.floats(0.01, 50), st.integers(1, 5000), st.integers(1, 9), st.integers(1, 8))
def test_it_is_the_nearest_whole_batch(epochs, queries, negatives, groups):
    batch_size = groups * (1 + negatives)
    found = convert_to_instances(
        training(epochs=epochs, negatives=negatives, batch_size=batch_size), {"queries": queries}
    ).instances
    assert found >= batch_size
    assert found % batch_size == 0
    exact = Fraction(epochs) * queries * (1 + negatives)
    assert found == batch_size or abs(found - exact) <= Fraction(batch_size, 2) + Fraction(1, 10**6)


def test_settings_in_instances_stay_as_they_are():
    assert convert_to_instances(STUDY.training, {}) is STUDY.training


@pytest.fixture
def prepared(world, monkeypatch):
    """Puts the data of the tiny task in the place of every task's data."""
    monkeypatch.setattr("trainables.rankers.ranker_data.prepare_data", lambda *_: world.prepared)
    monkeypatch.setattr("trainables.rankers.ranker_data.find_prepared_data", lambda *_: world.prepared)
    return world.prepared


def named(world: World, prepared: RankingDataset, place: Path, epochs: float) -> tuple[Study, Study]:
    """A study that says epochs, and the one that says as many instances."""
    made = tiny_study(world, place, place / "cache", training={**TRAINING, "epochs": epochs})
    counts = read_training_counts(prepared)
    instances = convert_to_instances(made.training, counts).instances
    return made, tiny_study(world, place, place / "cache", training={**TRAINING, "instances": instances})


def test_the_scoring_run_may_have_epochs_of_its_own(world, prepared, tmp_path):
    def resolved(**curriculum: Any) -> Study:
        settings = {"training": TRAINING | {"instances": 640, "sampling": "uniform"}}
        settings |= {"curriculum": {"variants": ["BERT"], **curriculum}}
        return resolve_study(tiny_study(world, tmp_path, tmp_path / "cache", **settings), None, lambda line: None)[0]

    found = resolved(scorer_epochs=0.5)
    by_epochs = found.training.model_copy(update={"epochs": 0.5})
    expected = convert_to_instances(by_epochs, read_training_counts(prepared)).instances
    assert (found.training.instances, found.scorer_training.instances) == (640, expected)
    assert resolved().scorer_training == resolved().training
    with pytest.raises(UserError, match=r"^curriculum\.scorer_epochs: 0\.001; expected at least 2 batches, one for"):
        resolved(scorer_epochs=0.001)


@pytest.mark.parametrize(
    ("capability", "precision", "said"),
    [
        ((7, 5), "fp32", ["training.precision is fp32: the GPU (T4) has no bf16, which needs compute capability 8.0"]),
        ((9, 0), "bf16", []),
    ],
)
def test_a_line_says_that_a_gpu_has_no_bf16(world, prepared, tmp_path, monkeypatch, capability, precision, said):
    lines = list[str]()
    made = make_study_on_gpu(monkeypatch, world, tmp_path, capability)
    auto = made.model_copy(update={"training": made.training.model_copy(update={"precision": "auto"})})
    study, inputs, _ = resolve_study(auto, None, lines.append)
    assert (study.training.precision, inputs.environment.device, lines) == (precision, "cuda:T4", said)


def test_cuda_graphs_need_a_model_without_padding(world, prepared, tmp_path, monkeypatch):
    made = make_study_on_gpu(monkeypatch, world, tmp_path, (9, 0), precision="bf16", cuda_graphs=True)
    resolve_study(made, None, lambda line: None)
    monkeypatch.setattr("study.workflows.resolve.read_architecture", lambda path: ARCHITECTURES["mpnet"])
    with pytest.raises(UserError, match=r"^training\.cuda_graphs: true; expected false: the layers of .* run padded"):
        resolve_study(made, None, lambda line: None)


def make_study_on_gpu(monkeypatch, world, place, capability, **training):
    facts = {"is_available": True, "device_count": 1, "get_device_name": "T4", "get_device_capability": capability}
    for name, value in facts.items():
        monkeypatch.setattr(f"torch.cuda.{name}", lambda *given, value=value: value)
    return tiny_study(world, place, place / "cache", training=TRAINING | training, resources={"gpu": 1.0})


def test_its_runs_and_its_plan_are_those_of_as_many_instances(world, prepared, tmp_path):
    said: list[str] = []
    one, other = (resolve_study(study, None, said.append)[:2] for study in named(world, prepared, tmp_path, 2))
    queries, instances = prepared.read_metadata()["splits"]["train"]["queries"], other[0].training.instances
    assert said == [f"training.epochs = 2: {queries} training queries, {instances} instances per run"]
    assert one[0] == other[0]
    assert plan.build_plan(one[0], "sha256:0") == plan.build_plan(other[0], "sha256:0")
    made = [
        ConfigurationFactory(*resolved, "").make_configuration("LS", Params(), (1,), "search")
        for resolved in (one, other)
    ]
    assert made[0].runs == made[1].runs


def test_a_run_is_never_named_by_epochs():
    unsettled = STUDY.model_copy(update={"training": STUDY.training.model_copy(update={"epochs": 2.0})})
    with pytest.raises(AssertionError):
        ConfigurationFactory(unsettled, RESOLVED, "").make_configuration("BERT", Params(), (1,), "baseline")


def test_what_is_too_short_for_its_evaluations_is_an_error_wherever_it_is_asked_for(world, prepared, tmp_path):
    settings = {**TRAINING, "epochs": 0.01, "evaluations": 2}
    made = tiny_study(world, tmp_path, tmp_path / "cache", training=settings)
    expected = r"training\.evaluations: 2; expected at most one for each of the 1 batches of training\.epochs = 0\.01"
    for ask in (build_preview, prepare_study_data, lambda study: resolve_study(study, None, lambda line: None)):
        with pytest.raises(UserError, match=expected):
            ask(made)


def test_the_plan_knows_it_once_the_data_is_prepared(world, prepared, tmp_path, capsys):
    one, other = named(world, prepared, tmp_path, 3)
    found, expected = build_preview(one), build_preview(other)
    instances = other.training.instances
    assert found == expected | {"training": {"epochs": 3.0, "instances": instances}}
    assert expected["training"] == {"epochs": None, "instances": instances}
    print(build_preview(one))
    assert f"training: 3 epochs; instances per run: {instances}\n" in capsys.readouterr().out


def test_before_that_what_depends_on_it_is_unknown(tmp_path):
    places = (f"output.folder={tmp_path / 'study'}", f"cache.folder={tmp_path / 'cache'}")
    settings = [*(setting for setting in SMALL if "instances" not in setting), "training.epochs=2.5", *places]
    found = build_preview(load_study("quick", settings))
    assert found["training"] == {"epochs": 2.5, "instances": None}
    assert (found["instances"], found["cost"]) == (None, None)
    trained = {row["system"]: row["instances"] for row in found["systems"]}
    assert [name for name, count in trained.items() if count is not None] == ["BM25 order", "cosine"]
    result = call("study.run", tmp_path, "quick", *settings, "--dry-run")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    for line in (
        "training: 2.5 epochs; instances per run: unknown until --prepare",
        "instances to train: unknown until --prepare",
        "cost: unknown until --prepare",
    ):
        assert line in lines


def test_a_summary_of_the_data_says_it(world, prepared, tmp_path, capsys):
    one, other = named(world, prepared, tmp_path, 3)
    prepare_study_data(one)
    assert f" queries, {other.training.instances} instances per run\n" in capsys.readouterr().out


@pytest.mark.long
def test_its_cost_can_be_measured(world, prepared, tmp_path, fresh):
    made = tiny_study(world, tmp_path, fresh(), training={**TRAINING, "epochs": 2})
    assert all(each.training > 0 for each in measure_study_throughput(made, lambda line: None, seconds=0.1))


FILE = 'name = "small"\n[training]\nbatch_size = 32\nnegatives = 1\n'


@pytest.mark.parametrize(
    ("own", "overrides", "epochs", "instances"),
    [
        ("instances = 64", ["training.epochs=3"], 3.0, 50_000),
        ("instances = 64", ["training={epochs=3}"], 3.0, 50_000),
        ("instances = 64", ["training.epochs=none"], None, 64),
        ("epochs = 2", ["training.instances=96"], None, 96),
        ("epochs = 2", ["training.epochs=4"], 4.0, 50_000),
        ("epochs = 2", ["training.learning_rate=1e-5"], 2.0, 50_000),
        ("", ["training.epochs=0.5"], 0.5, 50_000),
    ],
)
def test_the_command_line_says_it_instead_of_the_file(tmp_path, own, overrides, epochs, instances):
    file = tmp_path / "study.toml"
    file.write_text(f"{FILE}{own}\n")
    found = load_study(str(file), overrides).training
    assert (found.epochs, found.instances) == (epochs, instances)


@pytest.mark.parametrize(
    "override", [[], ["training.learning_rate=1e-5"], ["training.epochs=2", "training.instances=64"]]
)
def test_both_in_one_place_are_an_error(tmp_path, override):
    file = tmp_path / "study.toml"
    file.write_text(f"{FILE}instances = 64\nepochs = 2\n")
    with pytest.raises(UserError) as caught:
        load_study(str(file), override)
    where = "command line" if len(override) == 2 else str(file)
    expected = "none while training.instances = 64; set only one of them"
    assert str(caught.value) == f"{where}: training.epochs: 2.0; expected {expected}"
