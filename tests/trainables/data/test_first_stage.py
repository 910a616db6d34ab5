"""Retrieved candidates: those of rank_bm25 or of a run, nothing added, and what was missed counted."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import ir_measures
import numpy as np
import pandas as pd
import pytest
from ir_measures import AP, RR, Judged, R, nDCG
from rank_bm25 import BM25Okapi

from tests.trainables.data import fixtures
from tests.trainables.data.protocols import use_protocol
from trainables.data.files.candidates_run import Ranking
from trainables.data.first_stage import build_retrieved_split
from trainables.data.ranking_dataset import RankingDataset
from trainables.data.ranking_preparation import find_prepared_data, prepare_data
from trainables.data.statistics import load_ranking_statistics
from trainables.data.tasks import IRDataset, Qrel, beir
from trainables.metrics import FirstStage, describe_retrieval
from trainables.rankers.evaluation import EvaluatedDocuments
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.text.words import find_words
from trainables.utils.errors import UserError

DEPTH = 6
N_DOCUMENTS, N_QUERIES = 60, 24
SPLITS = {"train": range(12), "dev": range(12, 18), "test": range(18, 24)}
Prepare = Callable[..., RankingDataset]


def write_collection(folder: Path) -> Path:
    """Writes a collection in the layout of SciFact.

    A query has its document, one of another wording, which BM25 misses, and one that is judged and not relevant.
    """
    documents = [{"_id": f"d{i}", "title": "", "text": fixtures.document(i)} for i in range(N_DOCUMENTS)]
    documents += [{"_id": f"far{i}", "title": "", "text": f"Nothing alike, no{i}"} for i in range(N_QUERIES)]
    fixtures.write_objects(folder / "corpus.jsonl", documents)
    queries = [{"_id": f"q{i}", "text": fixtures.query(i)} for i in range(N_QUERIES)]
    fixtures.write_objects(folder / "queries.jsonl", queries)
    for split, numbers in SPLITS.items():
        rows = ["query-id\tcorpus-id\tscore"]
        for i in numbers:
            rows += [f"q{i}\td{i}\t2", f"q{i}\tfar{i}\t1", f"q{i}\td{i + 10}\t0"]
        fixtures.write_lines(folder / f"qrels/{split}.tsv", rows)
    return folder


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_collection(tmp_path_factory.mktemp("scifact"))


@pytest.fixture
def prepare(collection: Path, tmp_path_factory: pytest.TempPathFactory) -> Prepare:
    cache = tmp_path_factory.mktemp("cache")

    def make(**changes: Any) -> RankingDataset:
        values = {"name": "beir", "path": str(collection), "candidates": 4, "depth": DEPTH, **changes}
        return prepare_data(RankerTaskSettings.model_validate(values), cache)

    return make


def write_run(path: Path, lines: list[tuple[str, str, float]]) -> str:
    fixtures.write_lines(path, [f"{query} Q0 {document} 1 {score} tag" for query, document, score in lines])
    return str(path)


def rank_with_rank_bm25(collection: Path, split: str) -> dict[str, list[tuple[str, float]]]:
    """The first documents of the whole collection by rank_bm25, those with a score of 0 left out."""
    documents = [json.loads(line) for line in (collection / "corpus.jsonl").read_text().splitlines()]
    index = BM25Okapi([find_words(document["text"]) for document in documents])
    ranking = {}
    for i in SPLITS[split]:
        scores = index.get_scores(find_words(fixtures.query(i)))
        order = np.argsort(-scores, kind="stable")[:DEPTH]
        ranking[f"q{i}"] = [(documents[place]["_id"], scores[place]) for place in order if scores[place] > 0]
    return ranking


def list_candidates(prepared: RankingDataset, split: str) -> dict[str, list[tuple[str, float]]]:
    groups = prepared.read_candidates(split).groupby("query_id", sort=False)
    return {query: list(zip(own["document_id"], own["score"], strict=True)) for query, own in groups}


@pytest.mark.parametrize("split", ["dev", "test"])
def test_the_candidates_are_the_first_documents_of_rank_bm25(prepare: Prepare, collection: Path, split: str) -> None:
    prepared = prepare()
    expected = rank_with_rank_bm25(collection, split)
    assert list_candidates(prepared, split) == expected
    np.testing.assert_array_equal(prepared.read_candidates(split)["bm25"], prepared.read_candidates(split)["score"])


def test_training_is_the_same_with_any_evaluation(prepare: Prepare, collection: Path) -> None:
    retrieved, sampled = prepare(), prepare(depth=None)
    assert list_candidates(retrieved, "test") == rank_with_rank_bm25(collection, "test")
    pd.testing.assert_frame_equal(retrieved.read_candidates("train"), sampled.read_candidates("train"))
    assert retrieved.fingerprint != sampled.fingerprint
    assert not (sampled.folder / "qrels.parquet").exists()


def test_labels_are_those_of_the_qrels_and_what_is_missed_is_known(prepare: Prepare) -> None:
    prepared = prepare(relevant_from=2)
    table = prepared.read_candidates("test")
    grades = {f"q{i}": {f"d{i}": 2, f"far{i}": 1, f"d{i + 10}": 0} for i in SPLITS["test"]}
    expected = [grades[row.query_id].get(row.document_id, -1) for row in table.itertuples()]
    assert table["grade"].tolist() == expected
    assert table["relevant"].tolist() == [int(grade >= 2) for grade in expected]
    evaluated = prepared.read_evaluated("test")
    pd.testing.assert_frame_equal(evaluated.head(len(table)), table[["query_id", "document_id", "relevant", "grade"]])
    missed = evaluated.iloc[len(table) :]
    assert sorted(missed["document_id"]) == sorted(f"far{i}" for i in SPLITS["test"])
    assert (missed["relevant"].unique().tolist(), missed["grade"].unique().tolist()) == ([0], [1])


def test_a_negative_grade_is_a_judgement(tmp_path: Path) -> None:
    """A task of another package may keep the grades of spam, which `DatasetBuilder` takes as 0."""
    qrels = [Qrel("test", "q", name, grade) for name, grade in (("a", 1), ("b", -1), ("c", -2))]
    dataset = IRDataset({"q": "text"}, dict.fromkeys("abcd", "document"), qrels, [], {}, {}, 0)
    ranking = Ranking(list("abcd"), np.array([4.0, 3.0, 2.0, 1.0]))
    settings = RankerTaskSettings(name="beir", depth=100)
    found = build_retrieved_split("test", ["q"], {"q": ranking}, dataset, settings)
    assert found.candidates["grade"].tolist() == [1, 0, 0, -1]
    oracle = ir_measures.calc_aggregate(
        [Judged @ 4], {"q": {"a": 1, "b": -1, "c": -2}}, {"q": dict(zip("abcd", [4.0, 3.0, 2.0, 1.0], strict=True))}
    )
    assert found.counts["judged"] == oracle[Judged @ 4] == 0.75


def test_the_recall_is_that_of_ir_measures(prepare: Prepare) -> None:
    prepared = prepare(depth=3)
    qrels = {
        query: dict(zip(own["document_id"], own["grade"].astype(int), strict=True))
        for query, own in prepared.read_qrels("test").groupby("query_id")
    }
    run = {query: dict(ranking) for query, ranking in list_candidates(prepared, "test").items()}
    expected = ir_measures.calc_aggregate([R @ 3], qrels, run)[R @ 3]
    counts = prepared.read_metadata()["splits"]["test"]
    assert counts["recall"] == pytest.approx(expected, abs=1e-6)
    assert 0 < expected < 1
    rows = {row["name"]: row["values"] for row in load_ranking_statistics(prepared)["rows"]}
    assert rows["R@3 of the first stage"][2] == counts["recall"]
    assert rows["R@3 of the first stage"][0] is None


def test_a_run_is_cut_in_the_order_of_its_scores_and_nothing_is_added(prepare: Prepare, tmp_path: Path) -> None:
    scores = [(7 * j + 5) % 40 / 10 for j in range(40)]  # d22 is the first, d16 the third
    lines = [(f"q{i}", f"d{j}", scores[j]) for i in range(12, 24) for j in range(40)]
    prepared = prepare(candidates_run=write_run(tmp_path / "a.run", lines), depth=5)
    assert prepared.settings.retrieval_depth == 5
    for split in ("dev", "test"):
        expected = {
            f"q{i}": sorted(((f"d{j}", scores[j]) for j in range(40)), key=lambda pair: -pair[1])[:5]
            for i in SPLITS[split]
        }
        assert list_candidates(prepared, split) == expected
    assert prepared.read_candidates("test")["bm25"].isna().all()


def test_ranks_order_a_run_without_scores(prepare: Prepare, tmp_path: Path) -> None:
    lines = [f"q{i}\td{j}\t{40 - j}" for i in range(12, 24) for j in range(40)]
    run = fixtures.write_lines(tmp_path / "a.tsv", lines)
    prepared = prepare(candidates_run=str(run), depth=30)
    assert list_candidates(prepared, "dev")["q12"][:2] == [("d39", -1.0), ("d38", -2.0)]


def test_a_query_that_the_first_stage_lacks_is_evaluated(prepare: Prepare, tmp_path: Path) -> None:
    lines = [(f"q{i}", "d3", 1.0) for i in range(12, 23)] + [("q12", "d12", 0.5), ("q18", "d18", 0.5)]
    run = write_run(tmp_path / "a.run", lines)
    prepared = prepare(candidates_run=run)
    assert "q23" not in set(prepared.read_candidates("test")["query_id"])
    assert prepared.read_query_ids("test") == list(dict.fromkeys(prepared.read_qrels("test")["query_id"]))
    assert "q23" in prepared.read_query_ids("test")
    counts = prepared.read_metadata()["splits"]["test"]
    assert (counts["queries"], counts["queries_missed"], counts["queries_absent"]) == (6, 5, 1)
    assert prepared.read_metadata()["splits"]["dev"]["queries_absent"] == 0
    told = describe_retrieval(FirstStage("a run", 100), prepared.read_metadata()["splits"])
    assert ". Queries without any candidate also count, with the lowest value: 1 of test. " in told
    assert counts["recall"] == pytest.approx(
        1 / 12, abs=1e-6
    )  # one of the two relevant documents of one of six queries


def test_judged_queries_without_a_relevant_document_count_0_as_in_ir_measures(tmp_path: Path) -> None:
    """Sampled candidates contain the relevant documents, so they leave such queries out and say how many."""
    folder = write_collection(tmp_path / "irrelevant")
    rows = [f"q{i}\td{i}\t{grade}" for i, grade in ((18, 2), (19, 1), (20, 0), (21, 0), (22, 0), (23, 1))]
    fixtures.write_lines(folder / "qrels/test.tsv", ["query-id\tcorpus-id\tscore", *rows])
    lines = [(f"q{i}", f"d{j}", float(j != i)) for i in range(12, 22) for j in (i, 3, 4)]  # without q22, q23
    values = {"name": "beir", "path": str(folder), "candidates": 4}
    retrieved = {**values, "candidates_run": write_run(tmp_path / "a.run", lines), "relevant_from": 2}
    prepared = prepare_data(RankerTaskSettings.model_validate(retrieved), tmp_path / "cache")
    table = prepared.read_evaluated("test")
    n_candidates = len(prepared.read_candidates("test"))
    documents = EvaluatedDocuments(table, n_candidates)
    scores = documents.add_missed(prepared.read_candidates("test")["score"].to_numpy())
    qrels = {row.split("\t")[0]: {row.split("\t")[1]: int(row.split("\t")[2])} for row in rows}
    run: dict[str, dict[str, float]] = {}
    for query, document, score in zip(table["query_id"], table["document_id"], scores, strict=True):
        if score > -np.inf:
            run.setdefault(query, {})[document] = float(score)
    assert {*run} == {"q18", "q19", "q20", "q21"}
    for name, oracle in (
        ("nDCG@10", nDCG @ 10),
        ("MAP", AP(rel=2)),
        ("MRR", RR(rel=2)),
        ("R@5", R(rel=2) @ 5),
        ("Judged@2", Judged @ 2),
    ):
        expected = ir_measures.calc_aggregate([oracle], qrels, run)[oracle]
        assert documents.compute_metric(name, scores) == pytest.approx(expected, abs=1e-12), name
    splits = prepared.read_metadata()["splits"]
    assert (splits["test"]["queries"], splits["test"]["queries_without_relevant"]) == (6, 5)
    assert "queries_without_relevant" not in splits["dev"]
    assert "as in trec_eval: 5 of test. " in describe_retrieval(FirstStage("a run", 100), splits)
    sampled = prepare_data(RankerTaskSettings.model_validate(values), tmp_path / "cache")
    assert sorted(sampled.read_query_ids("test")) == ["q18", "q19", "q23"]
    assert sampled.read_metadata()["skipped"] == {"test query without a relevant document": 3}


def test_several_files_are_one_run_and_names_do_not_matter(prepare: Prepare, tmp_path: Path) -> None:
    lines = [(f"q{i}", f"d{i}", 1.0) for i in range(12, 24)]
    dev, test = write_run(tmp_path / "dev.run", lines[:6]), write_run(tmp_path / "test.run", lines[6:])
    renamed = write_run(tmp_path / "other.run", lines[:6])
    prepared = prepare(candidates_run=[dev, test])
    assert prepare(candidates_run=[test, renamed]).fingerprint == prepared.fingerprint
    assert list_candidates(prepared, "dev")["q12"] == [("d12", 1.0)]
    changed = write_run(tmp_path / "changed.run", [*lines[:5], ("q17", "d2", 1.0)])
    assert prepare(candidates_run=[changed, test]).fingerprint != prepared.fingerprint
    assert str(tmp_path) not in prepared.settings.model_dump_json()


def test_data_are_found_again_until_the_run_changes(collection: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.run"
    lines = [(f"q{i}", f"d{i}", 1.0) for i in range(12, 24)]
    values = {"name": "beir", "path": str(collection), "candidates": 4, "candidates_run": write_run(path, lines)}
    settings = RankerTaskSettings.model_validate(values)
    prepared = prepare_data(settings, tmp_path / "cache")
    assert find_prepared_data(settings, tmp_path / "cache") == prepared
    write_run(path, [*lines[:-1], ("q23", "d2", 1.0)])
    assert find_prepared_data(settings, tmp_path / "cache") is None


def test_only_needed_documents_are_kept_with_a_pool_of_judged_ones(
    prepare: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beir, "TASK", beir.TASK._replace(pool="judged"))
    lines = [
        pair for i in range(12, 24) for pair in ((f"q{i}", "d55", 2.0), (f"q{i}", "d56", 1.0), (f"q{i}", f"d{i}", 0.5))
    ]
    prepared = prepare(candidates_run=write_run(tmp_path / "a.run", lines))
    assert {"d55", "d56"} <= set(prepared.read_documents()["document_id"])
    assert prepared.read_metadata()["skipped"]["document that is not needed"] > 0


@pytest.mark.parametrize("first_stage", ["bm25", "run"])
def test_the_query_itself_is_left_out_of_every_first_stage(tmp_path: Path, first_stage: str) -> None:
    """As in ArguAna and Quora, where BEIR leaves it out. An id alone does not make a document the query."""
    folder = write_collection(tmp_path / "own")
    rows = [{"_id": f"q{i}", "title": "Title", "text": fixtures.query(i)} for i in (18, 19)]
    rows += [{"_id": "copy18", "title": "", "text": fixtures.query(18)}, {"_id": "q20", "title": "", "text": "Another"}]
    with (folder / "corpus.jsonl").open("a") as stream:
        stream.writelines(json.dumps(row) + "\n" for row in rows)
    with (folder / "qrels/test.tsv").open("a") as stream:
        stream.write("q19\tq19\t1\n")
    values: dict[str, Any] = {
        "name": "beir",
        "path": str(folder),
        "candidates": 4,
        "depth": 3 if first_stage == "run" else 30,
    }
    if first_stage == "run":
        lines = [
            (f"q{i}", name, 9.0 - j) for i in range(12, 24) for j, name in enumerate((f"q{i}", f"d{i}", "d1", "d2"))
        ]
        lines = [line for line in lines if line[0] != line[1] or line[1] in ("q18", "q19", "q20")]
        lines.append(("q18", "copy18", 20.0))
        values |= {"candidates_run": write_run(tmp_path / "a.run", lines)}
    for keep in (False, True):
        with use_protocol(keep_query_text=keep):
            prepared = prepare_data(RankerTaskSettings.model_validate(values), tmp_path / f"cache {keep}")
        found = {query: [name for name, _ in own] for query, own in list_candidates(prepared, "test").items()}
        assert (found["q18"][0] == "copy18", "q18" in found["q18"]) == (keep, keep)
        assert found["q19"][0] == "q19"
        if first_stage == "run":
            assert found["q18"] == (["copy18", "q18", "d18"] if keep else ["d18", "d1", "d2"])
            assert found["q20"] == ["q20", "d20", "d1"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([("q12", "d12", 1.0)], "no document for any of 6 test queries"),
        ([("q1", "d1", 1.0)], "no document for any of 6 dev queries"),
        ([("q12", "d12", 1.0), ("q18", "d999", 1.0)], "document d999 for query q18, which the collection lacks"),
        ([("q12", "d12", 1.0), ("q18", "d3", 1.0)], "no relevant document among the 1 candidates of the test queries"),
    ],
)
def test_a_run_of_another_collection_is_an_error(
    prepare: Prepare, tmp_path: Path, lines: list[tuple[str, str, float]], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        prepare(candidates_run=write_run(tmp_path / "a.run", lines))


def test_lists_without_an_order_are_not_cut(tmp_path: Path) -> None:
    settings = fixtures.WRITERS["msmarco"](tmp_path / "files")
    dev = [line.split() for line in (tmp_path / "files/qrels.dev.tsv").read_text().splitlines()]
    rows = [f"{query}\t{name}\tq\tp" for query, _, document, _ in dev for name in ("1", "2", document)]
    fixtures.write_lines(tmp_path / "files/top1000.dev", list(dict.fromkeys(rows)))

    def make(depth: int) -> RankingDataset:
        own = {**settings.model_dump(), "evaluation_sampler": {"name": "given"}}
        return prepare_data(RankerTaskSettings.model_validate({**own, "depth": depth}), tmp_path / "cache")

    with pytest.raises(UserError, match=r"task\.depth: 2, but the source lists up to 3 documents .* without scores"):
        make(2)
    assert make(3).read_metadata()["splits"]["dev"]["recall"] == 1.0


def test_a_wrong_run_is_noticed_before_anything_is_sampled_and_leaves_nothing(collection: Path, tmp_path: Path) -> None:
    said, run = list[str](), write_run(tmp_path / "a.run", [("q12", "d999", 1.0)])
    values = {"name": "beir", "path": str(collection), "candidates": 4, "candidates_run": run}
    unused = {"evaluation_sampler": {"name": "dense"}, "sampler": {"encoder": "nobody/has-this"}}
    with pytest.raises(UserError, match="document d999"):
        prepare_data(RankerTaskSettings.model_validate({**values, **unused}), tmp_path / "cache", said.append)
    assert said == ["reading task beir"]
    assert not list((tmp_path / "cache" / "preparing").glob("*"))


def test_files_that_overlap_or_are_missing_are_an_error(prepare: Prepare, tmp_path: Path) -> None:
    one, two = (write_run(tmp_path / name, [("q12", "d12", 1.0), ("q18", "d18", 1.0)]) for name in ("one", "two"))
    with pytest.raises(UserError, match=r"two: query q12, which .*one has; expected each query in one file"):
        prepare(candidates_run=[one, two])
    with pytest.raises(UserError, match=r"task\.candidates_run: .*none\.run; expected a readable file"):
        prepare(candidates_run=str(tmp_path / "none.run"))


class WholeCollection(RankerTaskSettings):
    """A task of a trainable that searches the collection itself."""

    keeps_collection: ClassVar[bool] = True


def test_a_search_of_the_prepared_collection_leaves_out_what_bm25_leaves_out(tmp_path: Path) -> None:
    """They are the query itself, by its text or its id, unless a qrel names it."""
    folder = write_collection(tmp_path / "scifact")
    own = {"q18": ("A title", 18), "same": ("", 19), "judged": ("", 20)}
    with (folder / "corpus.jsonl").open("a") as corpus:
        for name, (title, i) in own.items():
            corpus.write(json.dumps({"_id": name, "title": title, "text": fixtures.query(i)}) + "\n")
    with (folder / "qrels/test.tsv").open("a") as qrels:
        qrels.write("q20\tjudged\t0\n")
    values = {"name": "beir", "path": str(folder), "candidates": 4, "depth": DEPTH}
    prepared, other = (
        prepare_data(kind.model_validate(values), tmp_path / "cache") for kind in (WholeCollection, RankerTaskSettings)
    )
    found = prepared.find_own_documents("test")
    assert {*found.itertuples(index=False, name=None)} == {("q18", "q18"), ("q19", "same")}
    first = [list_candidates(prepared, "test")[f"q{i}"] for i in (18, 19, 20)]
    assert [name in dict(own) for name, own in zip(("q18", "same", "judged"), first, strict=True)] == [
        False,
        False,
        True,
    ]
    assert len(prepared.read_documents()) == N_DOCUMENTS + N_QUERIES + len(own) > len(other.read_documents())
    assert prepared.fingerprint != other.fingerprint
    assert prepared.read_candidates().equals(other.read_candidates())
