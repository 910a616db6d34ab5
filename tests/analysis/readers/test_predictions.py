"""Predictions of MTEB and sentence-transformers are runs; the second are written here by the real evaluators."""

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.readers.evaluated_runs import read_run, read_runs
from analysis.readers.predictions import read_predictions
from tests.trainables.small import World
from trainables.utils.errors import UserError

SCORES = {"q1": {"d1": 0.5, "d2": 0.25}, "q2": {"d2": 1}}
MTEB = {"mteb_model_meta": {"model_name": "org/model", "revision": "main"}, "default": {"test": SCORES}}
"""As MTEB 2 writes it: AbsTask._save_task_predictions."""


def write(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def read(path: Path) -> dict[str, dict[str, float]]:
    run = read_run(path, print)
    return {query: run.get_documents(query) for query in run.rows}


@pytest.mark.parametrize("content", [SCORES, MTEB, {"en": {"dev": SCORES}}, {"test": SCORES}])
def test_predictions_of_mteb_are_a_run_under_any_name(tmp_path: Path, content: object) -> None:
    assert read(write(tmp_path / "NFCorpus_predictions.run", content)) == SCORES


def test_the_real_evaluator_of_sentence_transformers_writes_runs(world: World, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    encoder = Transformer(str(world.bert), max_seq_length=16)
    model = SentenceTransformer(modules=[encoder, Pooling(encoder.get_embedding_dimension())], device="cpu")
    queries = {"q1": "the red car", "q2": "a man sleeps"}
    corpus = {"d1": "a car", "d2": "a man", "d3": "the river", "d4": "a red stage"}
    relevant = {"q1": {"d1", "d4"}, "q2": {"d2"}}
    evaluator = InformationRetrievalEvaluator(queries, corpus, relevant, ndcg_at_k=[3], write_predictions=True)
    means = evaluator(model, output_path=str(tmp_path))
    (path,) = tmp_path.glob("*_predictions_cosine.jsonl")
    (tmp_path / "qrels").write_text("".join(f"{q} 0 {d} 1\n" for q, own in relevant.items() for d in sorted(own)))
    assert {query: {*own} for query, own in read(path).items()} == {query: {*corpus} for query in queries}
    frame = read_runs(tmp_path / "qrels", {"a": path, "b": [path]}, "nDCG@3")
    for _, values in frame.groupby("system")["value"]:
        assert values.mean() == pytest.approx(means["cosine_ndcg@3"], abs=1e-9)


LINE = {"query_id": 1, "query": "text", "results": [{"corpus_id": 7, "score": 0.5}]}


def test_one_line_and_numbers_as_ids_are_read(tmp_path: Path) -> None:
    assert read(write(tmp_path / "p.jsonl", LINE)) == {"1": {"7": 0.5}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"task_name": "NFCorpus", "scores": {"test": []}}, "task_name: Input should be a valid dictionary"),
        ({"default": {"test": [[0.1], [0.2]]}}, "default.test: Input should be a valid number"),
        (MTEB | {"de": {"test": SCORES}}, "Input should be a valid number; expected one ranking"),
        ([1, 2], "Input should be a valid dictionary"),
        ({}, "no query with a document"),
        ({"q1": {}}, "no query with a document"),
        ({"q1": {"d1": "high"}}, "q1.d1: Input should be a valid number"),
        ({"q1": {"d1": True}}, "q1.d1: Input should be a valid number"),
        ('{"q1": {"d1": NaN}}', "q1.d1: Input should be a finite number"),
        ('{"q1": {"d1": 1e39}}', "q1.d1: Input should be less than or equal to"),
        ('{"q1": {"d1": 1},\n "q2"', "line 2: no JSON"),
        (json.dumps(LINE) + "\nx", "Invalid JSON"),
        (json.dumps(LINE) + "\n" + json.dumps(LINE), "a document twice in a query"),
        (LINE | {"results": LINE["results"] * 2}, "a document twice in a query"),
        (LINE | {"results": [{"corpus_id": 7}]}, "results.0.score: Field required"),
        ({"query_id": 1, "query": "a", "positive": ["b"], "documents": ["b"]}, "results: Field required"),
    ],
)
def test_what_is_no_prediction_is_an_error(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read_predictions(write(tmp_path / "p.json", content))
    assert "\n" not in str(caught.value)
