"""Every example runs as its first lines say, and what it prints is what it claims."""

import ast
import csv
import json
import math
import os
import re
import runpy
import shutil
import sys
from itertools import permutations
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sentence_transformers import CrossEncoder, SentenceTransformer
from torch import nn

from study.run import main
from tests.plugins import EXAMPLE, run_with, take_back_plugins
from tests.study.command import called, comparisons
from tests.trainables.exchange.test_classifier import dense, write_classifier, write_cross_encoder
from tests.trainables.models.architectures import write_model
from trainables.data.negatives.negative_sampler import Query
from trainables.data.tasks import Task
from trainables.metrics import Measure
from trainables.specs.ranking_task import RankerTaskSettings, SamplerSettings
from trainables.utils.errors import UserError

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PROGRAMS = sorted(EXAMPLES.rglob("*.py"))
NOTEBOOK = EXAMPLES / "notebook.ipynb"
LONGEST = 60
PACKAGES = ("analysis", "records", "search_spaces", "study", "trainables")


def cells() -> list[str]:
    """The code of the notebook."""
    stored = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in stored if cell["cell_type"] == "code"]


def run(place: Path, *arguments: str, path: tuple[str, ...] = ()) -> str:
    """Runs an example in a folder, where `examples` is a copy of ours, and returns what it printed."""
    variables = {"PYTHONPATH": os.pathsep.join([*path, str(ROOT)]), "HF_HUB_OFFLINE": "1", "MPLBACKEND": "agg"}
    result = called(place, *arguments, timeout=800, **variables)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def contents(name: str) -> dict[str, Any]:
    """Runs a module of the own package and returns what it defines."""
    with take_back_plugins(EXAMPLE):
        return runpy.run_path(str(EXAMPLE / "own_package" / name))


def numbers(line: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+\.?\d*", line)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("user")
    shutil.copytree(EXAMPLES, folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: str(path.relative_to(EXAMPLES)))
def test_an_example_is_short_and_says_what_it_shows(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST
    docstring = ast.get_docstring(ast.parse(text))
    assert docstring
    if path.parent == EXAMPLES:
        assert f"Run it: python examples/{path.name}" in docstring


@pytest.mark.parametrize("path", [*PROGRAMS, NOTEBOOK], ids=lambda path: str(path.relative_to(EXAMPLES)))
def test_examples_import_public_names_alone(path):
    text = "\n".join(cells()) if path == NOTEBOOK else path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PACKAGES:
            names = [*str(node.module).split("."), *(alias.name for alias in node.names)]
            assert not [name for name in names if name.startswith("_")]


def test_the_readme_names_every_example():
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w./-]+?)/?`", text))
    assert {path.name for path in EXAMPLES.iterdir()} - {"README.md", "__pycache__"} <= named


def test_the_strength_of_the_own_schedule_is_its_formula():
    powered = contents("schedules.py")["powered"]
    for power in (1.0, 2.0, 4.5):
        strengths = [powered(0.3, seen, 1000, power) for seen in range(1001)]
        assert strengths == pytest.approx(0.3 * np.linspace(1, 0, 1001) ** power)
        assert (np.diff(strengths) < 0).all()
        assert (strengths[0], strengths[-1]) == (0.3, 0)


def test_the_own_pacing_is_its_formula():
    square = contents("pacing.py")["square"]
    shares = [square(step, 200, 0.25) for step in range(301)]
    assert shares[:201] == pytest.approx(np.interp(np.linspace(0, 1, 201) ** 2, [0, 1], [0.25, 1]))
    assert set(shares[200:]) == {1.0}
    with pytest.raises(ValueError, match="expected step"):
        square(1, 0)


def test_the_own_metric_is_its_definition_also_with_ties():
    metric, draw = Measure("RBP", contents("metrics.py")["rank_biased_precision"]), np.random.default_rng(1)
    for _ in range(20):
        scores, relevant = draw.integers(0, 3, 5), draw.integers(0, 2, 5)
        orders = [sorted(order, key=lambda place: -scores[place]) for order in permutations(range(5))]
        expected = fmean(sum(0.2 * 0.8**rank * relevant[place] for rank, place in enumerate(order)) for order in orders)
        assert metric.compute_values(scores, relevant, np.array([5]))[0] == pytest.approx(expected, abs=1e-12)


def test_the_own_sampler_counts_words(tmp_path):
    sampler, texts = contents("jaccard.py")["JaccardSampler"], ["a b", "b c d", "e", "A B b"]
    (tmp_path / "00000").mkdir()
    sampler.build(tmp_path / "00000", texts, SamplerSettings())
    nothing = np.array([], np.int64)
    queries = [Query("q1", "b a", nothing, nothing), Query("q2", "c x", nothing, nothing)]
    found = [scored.raw.tolist() for scored in sampler(tmp_path, SamplerSettings(), 4).score_pool(queries)]
    assert found == [[1, 1 / 4, 0, 1], [0, 1 / 4, 0, 0]]


@pytest.mark.parametrize("kind", ["classifier", "modules", "sentence encoder"])
def test_a_teacher_scores_every_training_candidate_by_logits_or_cosines(kind, place, tmp_path, monkeypatch):
    path, study = tmp_path / "base", "examples/own_text/beir/study.toml"
    (write_classifier if kind == "classifier" else write_model)(path, "bert")
    if kind == "modules":
        write_cross_encoder(tmp_path, "mean", [dense(32, 1, nn.Identity(), "scores")])
        path = tmp_path / "saved"
    monkeypatch.chdir(place)
    found = runpy.run_path(str(EXAMPLES / "teacher_scores.py"))
    pairs = [("1 2 3", "4 5"), ("1 2 3", "6"), ("7", "4 5")]
    scores = [*found["compute_scores"](path, *map(list, zip(*pairs, strict=True)))]
    if kind != "sentence encoder":
        expected = CrossEncoder(str(path), device="cpu").predict(pairs, activation_fn=nn.Identity())
    else:
        encoder = SentenceTransformer(str(path), device="cpu")
        expected = [float(encoder.similarity(*encoder.encode(list(pair))[:, None])) for pair in pairs]
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-6)
    assert np.std(scores) > 1e-4
    found["main"](study, str(path), str(tmp_path / "teacher.run"))
    teacher = f"task.teacher={tmp_path / 'teacher.run'}"
    assert main([study, 'variants=["BERT", "KL"]', "search.temperature=[1.0]", teacher, "--prepare"]) == 0


def test_the_own_task_reads_its_file_and_names_a_wrong_line(tmp_path):
    found, settings = contents("faq.py"), RankerTaskSettings(name="faq", path=str(tmp_path))
    task = Task(found["read_dataset"], found["get_source_version"])
    rows = ["split\tanswer\tquestion", *(f"{name}\tYes {name}.\tIs it {name}?" for name in ("train", "dev", "test"))]
    (tmp_path / "faq.tsv").write_text("\n".join(rows), encoding="utf-8")
    dataset, version = task.read_dataset(settings), task.get_source_version(settings)
    assert dataset.queries == {"q2": "Is it train?", "q3": "Is it dev?", "q4": "Is it test?"}
    assert [pair[:3] for pair in dataset.qrels] == [("train", "q2", "a2"), ("dev", "q3", "a3"), ("test", "q4", "a4")]
    (tmp_path / "faq.tsv").write_text("\n".join([*rows, "valid\tNo.\tWhy?"]), encoding="utf-8")
    with pytest.raises(UserError, match=r"faq\.tsv, line 5: split 'valid'; expected one of train, dev, test"):
        task.read_dataset(settings)
    assert task.get_source_version(settings) != version


@pytest.fixture
def execute(place, monkeypatch, capsys):
    """Executes an example in this process, and returns the lines that it prints."""

    def execute(name: str, *arguments: str) -> list[str]:
        monkeypatch.chdir(place)
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out.splitlines()

    return execute


def test_smoothing_ends_at_the_switch_point_and_lowers_confidence_until_then(execute):
    rows = [numbers(line) for line in execute("label_smoothing_loop.py")[1:]]
    hard, smooth = rows[:4], rows[4:]
    assert [row[1:3] for row in smooth] == [[50, 0.4], [100, 0.4], [150, 0], [200, 0]]
    assert all(row[2] == 0 for row in hard)
    assert smooth[1][3] < hard[1][3] - 0.05
    assert smooth[3][3] == pytest.approx(hard[3][3], abs=0.05)
    assert all(row[4] > 0.8 for row in rows)


def test_noise_adds_to_the_denominator_alone(execute):
    rows = [numbers(line) for line in execute("noise_loop.py")[1:]]
    assert [row[:2] for row in rows] == [[multiple, step] for multiple in (0, 3) for step in (20, 40, 60)]
    assert all(row[2] == row[3] for row in rows[:3])
    assert all(row[2] > row[3] for row in rows[3:])


def test_the_larger_a_batch_the_nearer_the_nearest(execute):
    rows = np.array([numbers(line) for line in execute("neighbours.py")[1:]])
    assert rows[:, 0].tolist() == [8, 16, 32]
    assert (np.diff(rows[:, 1:5], axis=0) > 0).all()
    assert (np.diff(rows[:, 1:5], axis=1) < 0).all()


def test_the_curriculum_draws_from_its_share_alone(execute):
    *rows, last = execute("curriculum_loop.py")[1:]
    for step, share, available, hardest, _ in map(numbers, rows):
        expected = min(1.0, math.sqrt(step * (1 - 0.33**2) / 160 + 0.33**2))
        assert (share, available) == (pytest.approx(expected, abs=5e-4), round(expected * 900))
        assert hardest < available
    assert numbers(last)[0] > 0.9


def test_scores_are_compared_and_the_better_system_is_named(place, tmp_path, execute):
    frame = pd.read_csv(EXAMPLES / "scores.csv")
    means = frame.groupby("system")["value"].mean()
    shown = run(place, "examples/compare_scores.py")
    found = re.findall(r"^(\S+) against baseline: .*\n  difference (\S+),", shown, re.MULTILINE)
    expected = (means - means["baseline"]).drop("baseline").to_dict()
    assert {system: float(difference) for system, difference in found} == pytest.approx(expected, abs=6e-5)
    draw = np.random.default_rng(1)
    rows = [
        {"system": system, "seed": seed, "query": query, "value": gain + 0.1 * draw.normal()}
        for system, gain in {"baseline": 0.5, "good": 0.7, "same": 0.5}.items()
        for seed in range(5)
        for query in range(40)
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "own.csv", index=False)
    shown = "\n".join(execute("compare_scores.py", str(tmp_path / "own.csv")))
    assert "good against baseline: better" in shown
    assert "same against baseline: undecided" in shown


@pytest.fixture(scope="module")
def trained(place):
    """The folder of a study of the own trainable."""
    run(place, "-m", "study.run", "examples/own_package/points.toml", path=(str(EXAMPLE),))
    return place / "results" / "points"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_study_of_the_own_package_searches_its_setting_and_reports_its_metric(place):
    run(place, "-m", "study.run", "examples/own_package/faq.toml", path=(str(EXAMPLE),))
    folder = place / "results" / "faq"
    entries = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("runs/*/record.json")]
    assert {entry["state"] for entry in entries} == {"finished"}
    (label,) = {label for entry in entries for label in entry["config"]["specification"].get("plugins", ())}
    assert {f"own_package {entry['versions']['own_package']}" for entry in entries} == {label}
    assert all("dev/RBP" in entry["summary"] for entry in entries)
    specifications = [entry["config"]["specification"] for entry in entries]
    assert {own["task"]["name"] for own in specifications} == {"faq"}
    assert {own["task"]["sampler"]["name"] for own in specifications} == {"jaccard"}
    assert {own["variant"]["power"] for own in specifications if own["variant"]["schedule"] == "powered"} == {1.0, 3.0}
    assert all("power" not in own["variant"] for own in specifications if own["variant"]["schedule"] != "powered")
    assert {own["variant"]["loss"] for own in specifications} == {"cross_entropy", "hinge"}
    found = {(row["system"], row["baseline"]) for row in comparisons(folder / "report")}
    assert {("Hinge", "BERT"), ("Hinge-T-LS", "Hinge")} <= found
    assert {row["metric"] for row in comparisons(folder / "report")} == {"RBP"}
    assert "RBP" in run(place, "-m", "analysis.report", str(folder), path=(str(EXAMPLE),))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_other_code_of_the_plugin_adds_nothing_to_test_scores(place, tmp_path):
    if not (place / "results" / "faq").exists():
        run(place, "-m", "study.run", "examples/own_package/faq.toml", path=(str(EXAMPLE),))
    other = shutil.copytree(EXAMPLE, tmp_path / "other")
    with (other / "own_package" / "losses.py").open("a") as file:
        file.write("# changed\n")
    refused = run_with(other, place, "-m", "study.run", "examples/own_package/faq.toml", timeout=600)
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert "other code of plug-ins (own_package " in refused.stderr
    assert refused.stderr.count("\n") == 1


def read_test_values(folder: Path) -> dict[tuple[str, int], float]:
    """The metric of the test set by system and seed, from the report."""
    with (folder / "report" / "results.csv").open(encoding="utf-8") as file:
        return {(r["system"], int(r["seed"])): float(r["value"]) for r in csv.DictReader(file) if r["split"] == "test"}


def read_means(shown: str, metric: str) -> dict[tuple[str, int], float]:
    """The same from the first table of load_results.py: a row for each system, a column for each seed."""
    title, header, _, *lines = shown.split("\n\n", maxsplit=1)[1].strip().splitlines()
    assert title == f"{metric} by seed"
    seeds, rows = [int(seed) for seed in header.split()[1:]], [line.split() for line in lines]
    return {(row[0], seed): float(value) for row in rows for seed, value in zip(seeds, row[1:], strict=True)}


@pytest.mark.long
@pytest.mark.timeout(900)
def test_an_own_evaluation_of_records_agrees_with_the_report(place, trained):
    metric, own = run(place, "examples/load_results.py", str(trained)).split("Own evaluation of every run\n")
    expected = read_test_values(trained)
    rows = [line.split() for line in own.splitlines()]
    assert rows[0] == ["system", "seed", "margin", "first"]
    assert {(row[1], int(row[2])): float(row[4]) for row in rows[1:]} == pytest.approx(expected, abs=5e-5)
    assert read_means(metric, "R10@1") == pytest.approx(expected, abs=5e-5)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_records_of_a_sentence_encoder_are_also_evaluated(place):
    run(place, "-m", "study.run", "examples/own_text/sentences/study.toml", "tracking.mode=disabled")
    folder = place / "results" / "own-sentences"
    metric, own = run(place, "examples/load_results.py", str(folder)).split("Own evaluation of every run\n")
    expected = read_test_values(folder)
    rows = [line.split() for line in own.splitlines()]
    assert rows[0] == ["system", "seed", "pearson"]
    assert {(row[1], int(row[2])) for row in rows[1:]} == expected.keys()
    assert all(0.5 < float(row[3]) <= 1 for row in rows[1:])
    assert read_means(metric, "STS") == pytest.approx(expected, abs=5e-5)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_notebook_runs_from_top_to_bottom_and_is_stored_without_outputs(tmp_path):
    stored = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert not [cell for cell in stored if cell.get("outputs") or cell.get("execution_count")]
    check = "import json; print(json.dumps([list(result.systems.system), len(result.runs), again.conclusion]))"
    (tmp_path / "notebook.py").write_text("\n\n".join([*cells(), check]), encoding="utf-8")
    systems, runs, conclusion = json.loads(run(tmp_path, "notebook.py").splitlines()[-1])
    assert {"BERT", "LS", "BM25", "cosine"} <= set(systems)
    assert runs == 14
    assert (tmp_path / "results" / "notebook" / "report" / "report.html").is_file()
    assert "BERT" in conclusion
