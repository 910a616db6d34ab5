"""Candidates of a collection made by hand: pools, several relevant documents, grades, weak labels."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rank_bm25 import BM25Okapi

from tests.trainables.data.protocols import use_protocol
from trainables.data import ranking_sampling as module
from trainables.data.ranking_sampling import CandidateSampler
from trainables.data.tasks import Candidate, IRDataset, Qrel
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.text.words import find_words
from trainables.utils.errors import UserError

WORDS = ["red", "green", "blue", "small", "large", "old", "new", "fast", "slow", "warm"]
SPLIT_OF = {"t": "train", "d": "dev", "e": "test"}


def text(number: int) -> str:
    return " ".join(WORDS[(number * step + step) % 10] for step in range(1, 2 + number % 5)) + f" thing{number % 7}"


def collection() -> IRDataset:
    """12 queries a split, each with its own document, and 10 documents that nobody judged."""
    queries = {f"{s}{i}": text(3 * i + ord(s)) for s in SPLIT_OF for i in range(12)}
    documents = {f"D{name}": f"{query} answer {name}" for name, query in queries.items()}
    documents |= {f"free{i}": text(i) + " lonely" for i in range(10)}
    judged = [Qrel(SPLIT_OF[name[0]], name, f"D{name}") for name in queries]
    return IRDataset(queries, documents, judged, [], {})


def prepared(place: Path, made: IRDataset, split: str = "train", **settings: Any) -> tuple[pd.DataFrame, dict]:
    options = RankerTaskSettings.model_validate({"candidates": 4, **settings})
    ids = list(dict.fromkeys(j.query_id for j in made.qrels if j.split == split))
    return CandidateSampler(place, options, made, lambda _: None).sample_split(split, ids)


def test_candidates_are_those_of_a_plain_loop_over_rank_bm25(tmp_path: Path) -> None:
    made = collection()
    found, _ = prepared(tmp_path, made, "dev", name="beir")
    names = list(made.documents)
    oracle = BM25Okapi([find_words(document) for document in made.documents.values()])
    for query, block in found.groupby("query_id", sort=False):
        scores = oracle.get_scores(find_words(made.queries[query]))
        ranked = [i for i in np.argsort(-scores, kind="stable") if names[i] != f"D{query}" and scores[i] > 0][:3]
        drawn = 3 - len(ranked)
        assert block["document_id"].tolist()[: 4 - drawn] == [f"D{query}", *(names[i] for i in ranked)]
        places = [names.index(name) for name in block["document_id"]]
        np.testing.assert_array_equal(block["score"], scores[places])
        np.testing.assert_array_equal(block["bm25"], scores[places])


def test_with_a_margin_the_nearest_that_are_far_enough_from_the_relevant_document_are_sampled(tmp_path: Path) -> None:
    made, margin = collection(), 0.3
    settings = {"name": "beir", "train_negatives": 3}
    near, _ = prepared(tmp_path / "1", made, **settings)
    far, _ = prepared(tmp_path / "2", made, **settings, sampler={"margin": margin})
    names = list(made.documents)
    oracle = BM25Okapi([find_words(document) for document in made.documents.values()])
    for query, block in far.groupby("query_id", sort=False):
        scores = oracle.get_scores(find_words(made.queries[query]))
        limit = (1 - margin) * scores[names.index(f"D{query}")]
        ranked = [i for i in np.argsort(-scores, kind="stable") if 0 < scores[i] <= limit][:3]
        assert block["document_id"].tolist()[1 : 1 + len(ranked)] == [names[i] for i in ranked]
        assert (block["score"][1:] <= limit).all()
    assert near["document_id"].tolist() != far["document_id"].tolist()


def test_a_margin_that_leaves_too_few_documents_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"task.sampler.margin: 1, which leaves \d+ documents for query 't\d+'; expected a"
    ):
        prepared(tmp_path, collection(), name="docstrings", train_negatives=10, sampler={"margin": 1.0})


def test_candidates_that_are_evaluated_have_no_margin(tmp_path: Path) -> None:
    found = [
        prepared(tmp_path / str(margin), collection(), "dev", name="beir", sampler={"margin": margin})[0]
        for margin in (None, 0.3)
    ]
    pd.testing.assert_frame_equal(*found)


@pytest.mark.parametrize(("task", "free"), [("docstrings", False), ("beir", True)])
def test_a_pool_holds_train_and_the_split_or_everything(tmp_path: Path, task: str, free: bool) -> None:
    _, counts = prepared(tmp_path / "1", collection(), "train", name=task)
    sampler = {"evaluation_sampler": {"name": "random"}}
    found, dev = prepared(tmp_path / "2", collection(), "dev", name=task, candidates=22, **sampler)
    assert (counts["pool"], dev["pool"]) == ((46, 46) if free else (12, 24))
    assert any(name.startswith("free") for name in found["document_id"]) == free
    assert any(name.startswith("De") for name in found["document_id"]) == free


def test_all_relevant_documents_are_kept_and_never_negatives(tmp_path: Path) -> None:
    made = collection()
    made.qrels.extend([Qrel("train", "t0", "Dt1"), Qrel("dev", "t0", "Dt2"), Qrel("train", "t0", "Dt0")])
    found, counts = prepared(tmp_path, made, candidates=10)
    block = found[found["query_id"] == "t0"]
    assert block["document_id"].tolist()[:2] == ["Dt0", "Dt1"]
    assert block["relevant"].tolist() == [1, 1] + [0] * 9
    assert "Dt2" not in set(block["document_id"])
    assert counts["relevant"] == 13


def test_documents_with_the_text_of_a_relevant_one_are_no_negatives(tmp_path: Path) -> None:
    made = collection()
    made.documents["Dt1"] = made.documents["Dt0"]
    found, _ = prepared(tmp_path, made, candidates=11)
    assert "Dt1" not in set(found[found["query_id"] == "t0"]["document_id"])
    assert "Dt0" not in set(found[found["query_id"] == "t1"]["document_id"])


def test_nor_are_documents_with_the_text_of_one_that_only_another_splits_pool_holds(tmp_path: Path) -> None:
    made = collection()
    made.qrels.append(Qrel("dev", "t0", "Dd3"))
    made.documents["Dt1"] = made.documents["Dd3"]
    found, _ = prepared(tmp_path, made, candidates=11)
    assert "Dt1" not in set(found[found["query_id"] == "t0"]["document_id"])


def test_grades_are_kept_and_relevance_begins_where_it_is_said_to(tmp_path: Path) -> None:
    made = collection()
    made.qrels[0] = Qrel("train", "t0", "Dt0", 3)
    made.qrels.append(Qrel("train", "t0", "Dt5", 1))
    settings = {"candidates": 12, "relevant_from": 2}
    ids = [j.query_id for j in made.qrels[:1]]
    found, _ = CandidateSampler(
        tmp_path, RankerTaskSettings.model_validate(settings), made, lambda _: None
    ).sample_split("train", ids)
    grades = dict(zip(found["document_id"], zip(found["relevant"], found["grade"], strict=True), strict=True))
    assert (grades["Dt0"], grades["Dt5"], grades["Dt7"]) == ((1, 3), (0, 1), (0, 0))


def test_given_candidates_come_first_and_missing_ones_are_drawn(tmp_path: Path) -> None:
    made = collection()
    made.candidates.extend(
        [
            Candidate("train", "t0", "Dt9", 5.0),
            Candidate("train", "t0", "Dt3", 1.0),
            Candidate("train", "t0", "Dt0", 9.0),
        ]
    )
    found, counts = prepared(tmp_path, made, sampler={"name": "given"})
    block = found[found["query_id"] == "t0"]
    assert block["document_id"].tolist()[:3] == ["Dt0", "Dt9", "Dt3"]
    assert block["score"].tolist()[1:3] == [5.0, 1.0]
    assert block["weak_label"].tolist()[1:] == [0.99, 0.01, 0.0]
    assert counts["back_filled"] == 1 + 11 * 3


def test_given_documents_are_sampled_only_by_the_sampler_given(tmp_path: Path) -> None:
    made = collection()
    made.candidates.append(Candidate("train", "t0", "free1", float("nan")))
    for name, size in (("given", 13), ("bm25", 12)):
        found, counts = prepared(tmp_path / name, made, sampler={"name": name})
        assert counts["pool"] == size
        assert ("free1" in set(found["document_id"])) == (name == "given")


def test_candidates_of_the_source_that_do_not_fit_are_counted_and_told(tmp_path: Path) -> None:
    """Those that are relevant, or say the same as a relevant document, could not have been candidates anyway."""
    made, lines = collection(), list[str]()
    names = [name for name in made.documents if name not in ("Dt0", "Dt1")][:7]
    made.candidates.extend(Candidate("train", "t0", name, math.nan) for name in ("Dt0", *names))
    made.candidates.append(Candidate("train", "t1", names[0], math.nan))
    given = RankerTaskSettings.model_validate({"sampler": {"name": "given"}, "candidates": 5})
    sampler = CandidateSampler(tmp_path / "few", given, made, lines.append)
    found, counts = sampler.sample_split("train", ["t0", "t1"])
    assert found[found["query_id"] == "t0"]["document_id"].tolist() == ["Dt0", *names[:4]]
    assert counts["candidates_left_out"] == 3
    assert "left out: 3 candidates that the source names in train, which do not fit in task.candidates" in lines
    _, counts = prepared(tmp_path / "all", made, sampler={"name": "given"}, candidates=8)
    assert "candidates_left_out" not in counts


def test_the_sampler_given_needs_candidates(tmp_path: Path) -> None:
    made = collection()._replace(skipped={"list of negatives, mine": 3})
    found = r"'given', but the task names no candidates in train; skipped: 3 x list of negatives, mine; expected ano"
    with pytest.raises(UserError, match=r"task\.sampler\.name: " + found):
        prepared(tmp_path / "work", made, sampler={"name": "given"})
    assert not (tmp_path / "work").exists()


def test_training_and_evaluation_have_samplers_of_their_own(tmp_path: Path) -> None:
    made, options = collection(), {"sampler": {"name": "random"}, "evaluation_sampler": {"name": "random"}}
    for split, alone in (
        ("train", {"sampler": {"name": "random"}}),
        ("dev", {"evaluation_sampler": {"name": "random"}}),
    ):
        both, _ = prepared(tmp_path / "both" / split, made, split, **options)
        pd.testing.assert_frame_equal(both, prepared(tmp_path / "one" / split, made, split, **alone)[0])
        assert not both.equals(prepared(tmp_path / "none" / split, made, split)[0])


def test_of_too_many_relevant_documents_to_evaluate_the_best_are_kept_and_the_others_counted(tmp_path: Path) -> None:
    made = collection()
    made.qrels.extend([Qrel("dev", "d0", f"Dd{i}", 1 + (i > 2)) for i in range(1, 6)])
    found, counts = prepared(tmp_path, made, "dev")
    assert found["document_id"].tolist()[:3] == ["Dd3", "Dd4", "Dd5"]
    assert (counts["relevant"], counts["relevant_left_out"]) == (3 + 11, 3)


@pytest.mark.parametrize("authors", [False, True])
def test_a_training_query_has_all_its_relevant_documents_and_as_many_others_as_any(
    tmp_path: Path, authors: bool
) -> None:
    """The oracle is the protocol of the authors: the best of all documents, min-max over those alone."""
    made, n = collection(), 3
    made.qrels.extend([Qrel("train", "t0", f"Dt{i}", 1 + (i > 2)) for i in range(1, 6)])
    made.qrels.append(Qrel("train", "t3", "Dt8"))
    with use_protocol(paper_code=authors, keep_query_text=True):
        found, counts = prepared(tmp_path, made, train_negatives=n, candidates=10)
    assert len(found) == counts["queries"] * n + counts["relevant"]
    assert (counts["relevant"], counts["relevant_left_out"]) == (12 + 6, 0)
    names = [name for name in made.documents if name.startswith("Dt")]
    oracle = BM25Okapi([find_words(made.documents[name]) for name in names])
    for query, block in found.groupby("query_id", sort=False):
        relevant = [qrel.document_id for qrel in made.qrels if qrel.query_id == query]
        scores = dict(zip(names, oracle.get_scores(find_words(made.queries[str(query)])), strict=True))
        ranked = sorted((name for name in names if scores[name] > 0), key=lambda name: -scores[name])
        best = [name for name in (ranked[:n] if authors else ranked) if name not in relevant][:n]
        assert set(block["document_id"][block["relevant"] == 1]) == set(relevant)
        negatives = block[block["relevant"] == 0]
        assert negatives["document_id"].tolist()[: len(best)] == best
        assert set(negatives["document_id"]).isdisjoint(relevant)
        own = np.array([scores[name] for name in best])
        share = (own - own.min()) / (np.ptp(own) or 1) if len(own) else own
        np.testing.assert_allclose(negatives["weak_label"], [*(0.01 + 0.98 * share), *[0.0] * (n - len(best))])


@pytest.mark.parametrize("keep", [False, True])
def test_a_document_that_is_the_query_itself_is_a_negative_only_if_asked(tmp_path: Path, keep: bool) -> None:
    """A relevant one is none even then."""
    made = collection()
    made.documents["Dt4"] = made.documents["Dt0"] = made.queries["t0"]
    made.documents["Dt5"] = made.queries["t1"]
    with use_protocol(keep_query_text=keep):
        found, _ = prepared(tmp_path, made, candidates=11)
    negatives = found[found["relevant"] == 0].groupby("query_id")["document_id"].agg(set)
    assert "Dt4" not in negatives["t0"]
    assert ("Dt5" in negatives["t1"]) == keep


def test_weak_labels_of_random_negatives(tmp_path: Path) -> None:
    tables = {
        kind: prepared(tmp_path / kind, collection(), sampler={"name": "random", "weak_label": kind})[0]
        for kind in ("score", "bm25", "uniform")
    }
    others = {kind: table[table["relevant"] == 0] for kind, table in tables.items()}
    assert others["score"]["weak_label"].isna().all()
    assert (others["uniform"]["weak_label"].between(0, 0.99) & (others["uniform"]["weak_label"] > 0)).all()
    scores, labels = (others["bm25"][name].to_numpy().reshape(-1, 3) for name in ("bm25", "weak_label"))
    wide = np.ptp(scores, axis=1) > 0
    assert wide.sum() > 5
    assert (labels[wide].min(axis=1) == 0.01).all()
    assert (labels[wide].argmax(axis=1) == scores[wide].argmax(axis=1)).all()
    for table in others.values():
        assert table["document_id"].tolist() == others["score"]["document_id"].tolist()


def test_global_max_is_over_the_split(tmp_path: Path) -> None:
    found, _ = prepared(tmp_path, collection(), sampler={"preset": "wsls-slides"})
    others = found[(found["relevant"] == 0) & (found["score"] > 0)]
    np.testing.assert_allclose(others["weak_label"], others["score"] / (others["score"].max() + 1))


def test_training_may_have_another_number_of_negatives(tmp_path: Path) -> None:
    for split, size in (("train", 2), ("test", 4)):
        found, _ = prepared(tmp_path / split, collection(), split, train_negatives=1)
        assert (found.groupby("query_id").size() == size).all()


def test_processes_or_not_and_after_a_stop_the_candidates_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = prepared(tmp_path / "whole", collection(), "dev")
    monkeypatch.setattr(module, "QUERIES_PER_PART", 5)
    several, _ = prepared(tmp_path / "several", collection(), "dev")
    pd.testing.assert_frame_equal(several, whole)
    parts = sorted((tmp_path / "several").glob("dev-*.npz"))
    assert len(parts) == 3
    kept = {path: path.stat().st_mtime_ns for path in parts[:2]}
    parts[2].unlink()
    again, _ = prepared(tmp_path / "several", collection(), "dev")
    pd.testing.assert_frame_equal(again, whole)
    assert {path: path.stat().st_mtime_ns for path in parts[:2]} == kept


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (  # 12 documents in training
            {"candidates": 40},
            r"task\.candidates: 40; expected at most 12, since 11 documents of the train pool may be sampled for query",
        ),
        ({"train_negatives": 12}, r"task\.train_negatives: 12; expected at most 10, since 10 .* train .* query 't0'"),
        ({"candidates": 30, "train_negatives": 2}, r"task\.candidates: 30; expected at most 24, since 23 .* dev pool"),
    ],
    ids=["both", "training", "evaluation"],
)
def test_a_pool_that_is_too_small_is_an_error_before_any_work_with_the_largest_number_that_would_do(
    tmp_path: Path, settings: dict[str, int], expected: str
) -> None:
    made, lines = collection(), list[str]()
    made.qrels.extend([Qrel("train", "t0", "Dt1")] if "candidates" not in settings else [])
    ids = {split: [name for name in made.queries if SPLIT_OF[name[0]] == split] for split in ("train", "dev", "test")}

    def check(**own: int) -> None:
        options = RankerTaskSettings.model_validate(settings | own)
        CandidateSampler(tmp_path / "work", options, made, lines.append).check_pools(ids)

    with pytest.raises(UserError, match=expected) as error:
        check()
    assert not lines
    assert not (tmp_path / "work").exists()
    key, most = re.findall(r"task\.(\w+): .* at most (\d+)", str(error.value))[0]
    check(**{key: int(most)})
    with pytest.raises(UserError, match=f"at most {most}"):
        check(**{key: int(most) + 1})
