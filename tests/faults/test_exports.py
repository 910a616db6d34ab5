"""The winner of a study, exported, gives the study's scores in a process of its own: for every encoder and loss."""

import json
import shutil
import subprocess
import sys
from inspect import getdoc, getmembers
from pathlib import Path

import ir_measures
import networkx
import numpy as np
import pandas as pd
import pytest
from transformers import AutoTokenizer

from tests.study.command import SMALL, called, copy_cache, finish, kill_within_a_run, merged, records, results
from tests.trainables.exchange import exports
from tests.trainables.models.architectures import TYPES, name_token_types, write_model
from trainables.losses import LOSSES
from trainables.metrics import get_measure

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

STUDY = ("seeds=[1]", "model.frozen_layers=0", "model.max_length=64", "training.precision=fp32")


KILLED = ("training.instances=480", "cache.checkpoint_interval=0")
"""Each of 30 batches is a checkpoint."""


def write_random_model(place: Path, kind: str) -> Path:
    """A model of this type that knows the words of the documents."""
    path = write_model(place, kind, [text for _, member in getmembers(networkx) if (text := getdoc(member))])
    name_token_types(path)
    return path


def export(place: Path, system: str, *settings: str) -> Path:
    """Exports a system of the study in `place` by the command, and returns the folder."""
    folder = place / f"exported-{system}"
    places = (f"output.folder={place / 'study'}", f"cache.folder={place / 'cache'}")
    words = merged(*SMALL, *settings, *places)
    result = called(place, "-m", "study.export", "quick", system, *words, "--to", str(folder))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "differ from the study's" in result.stdout
    return folder


def cut_document(text):
    """The words that the model of the quick study reads, task.document_words."""
    return " ".join(text.split()[:40])


def check_scores(place: Path, folder: Path, system: str) -> None:
    """Compares what both libraries give in a fresh process, without this project, with what the study recorded."""
    records = [json.loads(path.read_text("utf-8")) for path in (place / "study").glob("runs/*/test.json")]
    (run_id,) = {entry["id"] for entry in records if entry["config"]["variant"] == system}
    scores = pd.read_parquet(place / "study" / "runs" / run_id / "test_scores.parquet")
    (prepared,) = (place / "cache" / "prepared").glob("*/documents.parquet")
    queries = pd.read_parquet(prepared.parent / "queries.parquet").set_index("query_id")["text"]
    documents = pd.read_parquet(prepared).set_index("document_id")["text"].map(cut_document)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    chosen = [
        (queries[row.query_id], documents[row.document_id], row.score)
        for row in scores.itertuples()
        if len(tokenizer(queries[row.query_id], documents[row.document_id])["input_ids"]) < 64
    ][:50]
    assert len(chosen) > 20
    (place / "pairs.json").write_text(json.dumps([pair[:2] for pair in chosen]), encoding="utf-8")
    script = shutil.copy(str(exports.__file__), place / "exports.py")
    command = [sys.executable, "-P", script, str(folder), str(place / "pairs.json")]
    result = subprocess.run(command, capture_output=True, text=True, cwd=place, timeout=300, check=True)
    found, expected = json.loads(result.stdout), np.array([pair[2] for pair in chosen])
    assert expected.std() > 0
    for values in found.values():
        np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", TYPES)
def test_the_winner_of_a_study_of_every_encoder_that_is_killed_within_its_runs(tmp_path, kind):
    """It ends with the bytes of a study that was left alone."""
    model = write_random_model(tmp_path / "model", kind)
    settings = (*STUDY, *KILLED, 'variants=["BERT", "LS"]', "model.pooling=cls", f"model.name={model}")
    reference, place = tmp_path / "reference", tmp_path / "killed"
    finish(reference, *settings)
    copy_cache(reference, place)
    kill_within_a_run(place, 160, *settings)
    assert len(records(place)) < len(records(reference)), "it had ended before it was killed"
    finish(place, *settings)
    assert results(place) == results(reference)
    entries = [json.loads(path.read_text("utf-8")) for path in (place / "study").glob("runs/*/record.json")]
    assert max(entry["summary"].get("instances_resumed", 0) for entry in entries) >= 160
    check_scores(place, export(place, "LS", *settings), "LS")


def test_the_systems_of_a_study_of_every_loss_without_its_cache(tmp_path):
    names = ["BERT", *(loss.label for loss in map(LOSSES.__getitem__, LOSSES) if loss.label)]
    settings = (*STUDY, f"variants={json.dumps(names)}", "model.pooling=mean")
    settings = (*settings, f"model.name={write_random_model(tmp_path / 'model', 'bert')}")
    finish(tmp_path, *settings)
    shutil.rmtree(tmp_path / "cache")
    finish(tmp_path, *settings)
    for name in names:
        check_scores(tmp_path, export(tmp_path, name, *settings), name)


def test_a_re_ranked_run_has_the_scores_and_the_figures_of_the_study(tmp_path):
    """For every candidate of the test split, with the quick study's read-out."""
    settings = ("seeds=[1]", 'variants=["BERT", "LS"]', "training.precision=fp32", "model.max_length=128")
    finish(tmp_path, *settings)
    (run_id,) = {
        entry["id"]
        for path in (tmp_path / "study").glob("runs/*/test.json")
        if (entry := json.loads(path.read_text("utf-8")))["config"]["variant"] == "LS"
    }
    scores = pd.read_parquet(tmp_path / "study" / "runs" / run_id / "test_scores.parquet")
    (prepared,) = (tmp_path / "cache" / "prepared").glob("*/documents.parquet")
    for name, key in (("queries", "query_id"), ("documents", "document_id")):
        texts = pd.read_parquet(prepared.parent / f"{name}.parquet")
        rows = [json.dumps({"_id": own, "text": text}) for own, text in zip(texts[key], texts["text"], strict=True)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows), encoding="utf-8")
    lines = [f"{row.query_id} Q0 {row.document_id} 1 0 x" for row in scores.itertuples()]
    (tmp_path / "in.run").write_text("\n".join(lines), encoding="utf-8")
    places = (f"output.folder={tmp_path / 'study'}", f"cache.folder={tmp_path / 'cache'}")
    files = ("--run", "in.run", "--queries", "queries.jsonl", "--documents", "documents.jsonl", "--out", "out.run")
    options = (*files, "--precision", "fp32", "--threads", "1")
    result = called(tmp_path, "-m", "study.rerank", "quick:LS", *merged(*SMALL, *settings, *places), *options)
    assert result.returncode == 0, result.stdout + result.stderr
    found = pd.DataFrame(ir_measures.read_trec_run(str(tmp_path / "out.run"))).set_index(["query_id", "doc_id"])
    recorded = scores.set_index(["query_id", "document_id"])["score"]
    np.testing.assert_allclose(found["score"].loc[recorded.index], recorded, rtol=1e-5, atol=1e-5)
    # Candidates that tie up to rounding, such as those that begin with the same 40 words, may be in any order.
    rounding = (found["score"].loc[recorded.index] - recorded).abs().max()
    gaps = scores.groupby("query_id", sort=False)["score"].agg(lambda own: np.diff(np.sort(own)).min())
    scores = scores[scores["query_id"].isin(gaps.index[gaps > 2 * rounding])]
    qrels = scores.rename(columns={"document_id": "doc_id", "relevant": "relevance"})
    lengths = scores.groupby("query_id", sort=False).size().to_numpy()
    assert len(lengths) >= 20
    ranked = found.reset_index()
    ranked = ranked[ranked["query_id"].isin(scores["query_id"])]
    for own, name in (("MAP", "AP"), ("MRR", "RR"), ("nDCG@10", "nDCG@10")):
        measure = ir_measures.parse_measure(name)
        figure = ir_measures.calc_aggregate([measure], qrels, ranked)[measure]
        columns = scores["score"].to_numpy(), scores["relevant"].to_numpy(), lengths
        assert np.float32(get_measure(own).compute_overall(*columns)) == np.float32(figure)
