"""A whole study of sentence encoders, through the real command line, at a size for tests."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sentence_transformers import SentenceTransformer

from study.config.loader import load_study
from study.export import main as export
from tests.study.command import call, comparisons
from tests.trainables.encoders import Encoders

pytestmark = [pytest.mark.slow]
FILE = """
name = "tiny"
trainable = "sentence-encoder"
seeds = [1, 2]
variants = ["SimCSE", "GS-InfoNCE", "T-GS-InfoNCE"]

[training]
epochs = 1
batch_size = 16
learning_rate = 1e-3
evaluations = 3
checkpoint = "STS"
precision = "fp32"

[search]
sampler = "grid"
multiple = [1.0, 3.0]
schedule_settings.switch = [0.5]

[confirm]
seeds = [11, 12]
"""
SETS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")


def overrides(encoders: Encoders, place: Path) -> list[str]:
    data = encoders.prepared.folder.parents[2]
    given = [f"task.path={data / 'sentences.txt'}", f"task.evaluation_path={data}", f"model.name={encoders.roberta}"]
    given += ["resources.concurrent=1", "tracking.mode=disabled"]  # processes and W&B take longer than the runs
    return [*given, f"output.folder={place / 'study'}", f"cache.folder={place / 'cache'}"]


def command(encoders: Encoders, place: Path, *arguments: str) -> list[str]:
    """The study of `FILE` and its places."""
    (place / "tiny.toml").write_text(FILE, encoding="utf-8")
    return [str(place / "tiny.toml"), *overrides(encoders, place), *arguments]


@pytest.fixture(scope="module")
def done(encoders, tmp_path_factory):
    """Runs the study; returns its place and what it printed."""
    place = tmp_path_factory.mktemp("study")
    result = call("study.run", place, *command(encoders, place))
    assert result.returncode == 0, result.stderr
    return place, result.stdout


def test_every_system_is_compared_on_the_mean_and_on_each_set(done):
    rows = comparisons(done[0] / "study" / "report")
    pairs = [("GS-InfoNCE", "SimCSE"), ("T-GS-InfoNCE", "SimCSE")]
    assert {(row["family"], row["metric"], row["system"], row["baseline"]) for row in rows} == {
        *(("STS", "STS", *pair) for pair in pairs),
        *(("variants", f"STS/{name}", *pair) for pair in pairs for name in SETS),
        ("switch", "STS", "T-GS-InfoNCE", "GS-InfoNCE"),
        ("sanity", "STS", "SimCSE", "untrained"),
    }
    assert all(row["difference"] is not None for row in rows)
    assert {row["comparisons"] for row in rows if row["family"] == "variants"} == {2 * len(SETS)}


def test_the_setup_names_the_encoder_and_the_files(done, encoders, monkeypatch):
    table = (done[0] / "study" / "report" / "table.md").read_text("utf-8")
    setup = table.partition("## Setup")[2].partition("## ")[0]
    assert re.search(r"\| model \| roberta \(sha256:\w{16}\) \|", setup)
    assert re.search(r"\| data \| sentences: sentences.txt, [\w-]+ \(fingerprint \w+\) \|", setup)
    assert re.search(r"\| instances \| [\d,]+ \|", setup)
    for name in ("TASK_PATH", "TASK_EVALUATION_PATH"):
        monkeypatch.setenv(f"STUDY_{name}", "data")
    monkeypatch.setenv("STUDY_MODEL_NAME", str(encoders.roberta))
    copy = load_study(str(done[0] / "study" / "study.toml"))
    assert copy.training.epochs == 1
    assert copy.confirm.seeds == (11, 12)


def test_runs_share_their_beginnings_and_end_with_the_best_weights(done):
    entries = [json.loads(path.read_text("utf-8")) for path in (done[0] / "study").glob("runs/*/record.json")]
    found = [entry for entry in entries if entry["config"]["variant"] != "untrained"]
    assert {entry["state"] for entry in found} == {"finished"}
    two_stage = [entry for entry in found if entry["config"]["variant"] == "T-GS-InfoNCE"]
    assert all(entry["summary"]["instances_reused"] > 0 for entry in two_stage)
    for entry in found:
        history = json.loads((done[0] / "study" / "runs" / entry["id"] / "history.json").read_text("utf-8"))
        evaluated = {row["instances"]: row["dev/STS"] for row in history if "dev/STS" in row}
        assert len(evaluated) == 3
        best = max(evaluated, key=lambda at: (evaluated[at], -at))
        assert entry["summary"]["checkpoint_instances"] == best
        assert entry["summary"]["dev/STS"] == evaluated[best]


def test_nothing_tells_where_the_data_lies(done, encoders):
    private = str(encoders.prepared.folder.parents[2]).encode()
    files = [path for path in (done[0] / "study").rglob("*") if path.is_file() and path.suffix != ".parquet"]
    assert files
    assert not [path for path in files if private in path.read_bytes()]


@pytest.mark.long
def test_a_configuration_is_swept_by_name(encoders, done, tmp_path):
    (tmp_path / "cache").symlink_to(done[0] / "cache")
    named = ["variant=GS-InfoNCE", "multiple=2", "weight=0.5"]
    result = call("study.run", tmp_path, *command(encoders, tmp_path, "--sweep", *named))
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout.splitlines()[-1])
    assert (found["variant"], found["multiple"], found["weight"]) == ("GS-InfoNCE", 2.0, 0.5)
    assert found["objective"] == found["objective/STS"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--export-trec", "trec"), "--export-trec: gold similarities of sentences"),
        (("training.batch_size=512", "training.epochs=9"), "training.batch_size: 512; expected at most 200"),
        (("model.reinit_layers=4",), "model.reinit_layers: 4; expected at most 3"),
    ],
)
def test_a_mistake_is_told_in_a_line(encoders, done, tmp_path, arguments, told):
    shutil.copytree(done[0] / "study", tmp_path / "study")
    (tmp_path / "cache").symlink_to(done[0] / "cache")
    result = call("study.run", tmp_path, *command(encoders, tmp_path, *arguments))
    assert (result.returncode, result.stderr.count("\n")) == (2, 1), result.stderr
    assert told in result.stderr


def test_a_system_is_exported_with_the_cosines_of_the_study(done, encoders, tmp_path, capsys):
    place, folder = done[0], tmp_path / "model"
    words = [str(place / "tiny.toml"), "GS-InfoNCE", *overrides(encoders, place), "--seed", "12", "--to", str(folder)]
    assert export(words) == 0, capsys.readouterr().err
    assert "pipeline_tag: sentence-similarity" in (folder / "README.md").read_text(encoding="utf-8")
    records = [json.loads(path.read_text("utf-8")) for path in (place / "study").glob("runs/*/test.json")]
    (run_id,) = [
        each["id"] for each in records if (each["config"]["variant"], each["config"]["seed"]) == ("GS-InfoNCE", 12)
    ]
    scores = pd.read_parquet(place / "study" / "runs" / run_id / "test_scores.parquet")
    (prepared,) = (place / "cache" / "prepared").glob("*/pairs.parquet")
    pairs = pd.read_parquet(prepared)
    pairs = pairs[pairs["split"] == "test"]
    model = SentenceTransformer(str(folder), device="cpu")
    first, second = (model.encode(pairs[name].tolist(), normalize_embeddings=True) for name in ("first", "second"))
    found = (first.astype(float) * second).sum(axis=1)
    np.testing.assert_allclose(found, scores["score"].to_numpy(), rtol=0, atol=1e-5)
