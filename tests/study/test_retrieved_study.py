"""A study of retrieved candidates and one of sampled ones: both say so, and the first counts as ir_measures does."""

import json
from pathlib import Path
from typing import NamedTuple

import ir_measures
import pytest
from ir_measures import AP, RR, Judged, P, R, nDCG
from rank_bm25 import BM25Okapi

from analysis.export.trec import export_trec
from analysis.readers.study_reader import read_records
from analysis.rendering.document import build_document, render_html, render_markdown
from analysis.tables.main import ReportData, build_report_data
from study.config.loader import load_study
from study.plan.analysis_plan import build_plan, register_plan
from study.workflows.dry_run import build_preview
from tests.sts import write_sentences, write_sts
from tests.study.small import conduct, scheduler, study
from tests.trainables.data.test_first_stage import SPLITS, write_collection
from trainables.data.ranking_preparation import prepare_data
from trainables.models.pretrained import hash_model_files
from trainables.rankers.ranker_data import describe_data, summarize_data
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.text.words import find_words

DEPTH = 12


class Done(NamedTuple):
    """A finished study."""

    report: ReportData
    folder: Path
    collection: Path
    summary: list[str]


@pytest.fixture(scope="module")
def studies(world, tmp_path_factory):
    """The same study by both protocols."""
    place = tmp_path_factory.mktemp("protocols")
    collection, done = write_collection(place / "collection"), {}
    values = {"name": "beir", "path": str(collection), "candidates": 5, "relevant_from": 1}
    for name, own in {"sampled": {}, "retrieved": {"depth": DEPTH}}.items():
        prepared = prepare_data(RankerTaskSettings.model_validate({**values, **own}), place / "cache")
        tiny = world._replace(prepared=prepared)
        made = study(
            tiny, place / name, place / "cache", variants=["BERT", "LS"], search={"epsilon": [0.2]},
            analysis={"metric": "nDCG@10"},
        )  # fmt: skip
        register_plan(made, hash_model_files(world.bert), place / name, describe_data(prepared))
        conduct(scheduler(tiny, made))
        summary = list(summarize_data(made, prepared))
        done[name] = Done(build_report_data(read_records(place / name)), place / name, collection, summary)
    return done


def test_the_tables_say_which_candidates_they_are_of(studies):
    retrieved, sampled = studies["retrieved"], studies["sampled"]
    counts = retrieved.report.results.plan.data["splits"]["test"]
    ceiling = f"R@{DEPTH}, is"
    for render in (render_html, render_markdown):
        shown, other = render(build_document(retrieved.report)), render(build_document(sampled.report))
        assert f"the first {DEPTH} documents of bm25 over the whole collection, none added" in shown
        assert "sampled, the relevant documents among them" in other
        assert ceiling in shown
        assert f"{counts['recall']:.4f} on test" in shown
        assert ceiling not in other
    assert any(ceiling in line for line in retrieved.summary)
    assert not any(ceiling in line for line in sampled.summary)
    assert 0 < counts["recall"] < 1


def test_bm25_is_that_of_ir_measures_over_the_run_of_rank_bm25(studies):
    report, collection = studies["retrieved"].report, studies["retrieved"].collection
    texts = prepare_texts(collection)
    index = BM25Okapi([find_words(text) for text in texts["corpus"].values()])
    run, qrels = {}, {}
    for i in SPLITS["test"]:
        scores = index.get_scores(find_words(texts["queries"][f"q{i}"]))
        ranked = sorted(zip(texts["corpus"], scores, strict=True), key=lambda pair: -pair[1])[:DEPTH]
        run[f"q{i}"] = {name: float(score) for name, score in ranked if score > 0}
        gained = run[f"q{i}"][f"d{i}"]
        assert list(run[f"q{i}"].values()).count(gained) == 1, "a tie would be broken by ids"
        qrels[f"q{i}"] = {f"d{i}": 2, f"far{i}": 1, f"d{i + 10}": 0}
    row = next(row for row in report.table.rows if row.system == "BM25")
    assert row.test[0] == pytest.approx(ir_measures.calc_aggregate([nDCG @ 10], qrels, run)[nDCG @ 10], abs=1e-12)


def prepare_texts(collection: Path) -> dict[str, dict[str, str]]:
    return {
        name: {
            row["_id"]: row["text"] for row in map(json.loads, (collection / f"{name}.jsonl").read_text().splitlines())
        }
        for name in ("corpus", "queries")
    }


def test_exported_files_give_the_figures_of_the_report(studies, tmp_path):
    report = studies["retrieved"].report
    export_trec(report.results, tmp_path / "trec")
    qrels = list(ir_measures.read_trec_qrels(str(tmp_path / "trec/test.qrels")))
    assert {(row.query_id, row.doc_id, row.relevance) for row in qrels} >= {("q18", "far18", 1), ("q18", "d18", 2)}
    measures = [nDCG @ 10, RR @ 10, AP, P @ 10, R @ 10, Judged @ 10]
    shown = {row[0]: row[1:] for row in report.by_retrieval_metric.rows}
    for name, system in report.chosen.items():
        runs = [run for run in system.runs.values() if "test" in run.files]
        values = []
        for run in runs:
            (path,) = (tmp_path / "trec/test").glob(f"{name}-*{run.id}.run")
            rows = list(ir_measures.read_trec_run(str(path)))
            values.append(ir_measures.calc_aggregate(measures, qrels, rows))
        for measure, score in zip(measures, shown[name], strict=True):
            expected = sum(value[measure] for value in values) / len(values)
            assert score.split()[0] == f"{expected:.4f}"


def test_a_metric_within_the_depth_says_something_of_retrieved_candidates():
    assert load_study("quick", ["task.depth=8", "analysis.metric=P@7"]).analysis.metric == "P@7"


def test_the_ranking_that_is_not_trained_has_the_name_of_the_first_stage():
    for settings, name in (
        (["task.depth=100"], "BM25"),
        (["task.depth=100", "task.evaluation_sampler.name=dense"], "first stage"),
        (["task.candidates_run=any.run"], "first stage"),
        (["task.evaluation_sampler.name=dense"], "BM25"),
    ):
        study = load_study("quick", ["analysis.metric=MRR", *settings])
        assert list(study.reference_rankings) == [name]
        assert [pair for pair in build_plan(study, "")["families"][-1]["comparisons"] if name in pair] == [
            ["BERT", name]
        ]


def test_a_preview_says_which_candidates_will_be_evaluated(tmp_path):
    for settings, said in (
        (["task.depth=50"], "the first 50 documents of bm25 over the whole collection"),
        ([], "sampled, the relevant documents among them"),
    ):
        own = ["analysis.metric=MRR", f"output.folder={tmp_path / 'results'}"]
        preview = build_preview(load_study("quick", [*own, *settings]))
        assert preview["candidates"].startswith(said)
        assert f"\ndev and test candidates: {said}" in str(preview)
    files = {"path": write_sentences(tmp_path / "sentences.txt"), "evaluation_path": write_sts(tmp_path / "senteval")}
    sentences = load_study("gs-infonce", [f"task.{key}={path}" for key, path in files.items()])
    assert "candidates:" not in str(build_preview(sentences))


def test_a_sampled_study_has_no_table_of_retrieval(studies):
    assert studies["sampled"].report.by_retrieval_metric is None
    assert "Metrics of retrieval" not in render_markdown(build_document(studies["sampled"].report))
    assert "Metrics of retrieval" in render_markdown(build_document(studies["retrieved"].report))
