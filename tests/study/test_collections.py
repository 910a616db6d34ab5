"""Tested models on further collections: their scores, metrics and comparisons, as ir_measures has them."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import ir_measures
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import nDCG

from analysis.data.configurations import weight_collections
from analysis.export.trec import export_trec
from analysis.readers.study_reader import read_records
from analysis.rendering.document import build_document, render_latex
from analysis.tables.main import ReportData, build_report_data
from records.scores import read_scores
from study.config.loader import load_study
from study.plan.analysis_plan import build_plan, register_plan
from study.plan.collections import find_collections, prepare_collections
from study.workflows.dry_run import build_preview
from tests.study import small
from tests.trainables.data import fixtures
from tests.trainables.data.test_first_stage import write_collection
from trainables.data.ranking_preparation import prepare_data
from trainables.models.pretrained import hash_model_files
from trainables.rankers.ranker_data import describe_data
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.utils.errors import UserError

DEPTH = 12
LABELS = ["same queries", "other queries", "a run"]


class Done(NamedTuple):
    """A finished study."""

    report: ReportData
    folder: Path


def write_foreign(folder: Path) -> Path:
    """Writes a collection without train and dev, with a run; a judged document that no run found has no text."""
    write_collection(folder)
    for split in ("train", "dev"):
        (folder / f"qrels/{split}.tsv").rename(folder / f"qrels/other-{split}.tsv")
    path = folder / "qrels/other-dev.tsv"
    path.write_text(f"{path.read_text()}q12\tlost\t2\n")
    lines = [f"q{i} Q0 d{i + shift} 1 {9 - shift} tag" for i in range(12, 18) for shift in range(9)]
    fixtures.write_lines(folder / "dev.run", lines)
    return folder


@pytest.fixture(scope="module")
def done(world, tmp_path_factory):
    place = tmp_path_factory.mktemp("collections")
    collection, foreign = write_collection(place / "own"), write_foreign(place / "foreign")
    retrieved = {"name": "beir", "depth": DEPTH, "candidates": 5}
    prepared = prepare_data(RankerTaskSettings.model_validate({**retrieved, "path": str(collection)}), place / "cache")
    tasks: list[dict[str, Any]] = [
        {**retrieved, "path": str(collection)},
        {**retrieved, "path": str(foreign), "split": "other-train"},
        {"name": "beir", "path": str(foreign), "split": "other-dev", "candidates_run": (str(foreign / "dev.run"),)},
    ]
    evaluate = [{"label": label, "task": task} for label, task in zip(LABELS, tasks, strict=True)]
    tiny = world._replace(prepared=prepared)
    settings = {"variants": ["BERT", "LS"], "search": {"epsilon": [0.2]}, "analysis": {"metric": "nDCG@10"}}
    made = small.study(tiny, place / "study", place / "cache", **settings, evaluate=evaluate)
    assert find_collections(made) is None
    portable, collections = prepare_collections(made, lambda line: None)
    assert find_collections(made) == portable
    made = portable
    begun = small.scheduler(tiny, made, collections)
    register_plan(made, hash_model_files(world.bert), place / "study", describe_data(prepared))
    small.conduct(begun)
    return Done(build_report_data(read_records(place / "study")), place / "study")


def test_the_test_split_as_a_collection_has_the_scores_of_the_test_split(done):
    for run in done.report.results.runs:
        if "test" in run.files:
            own, again = (read_scores(run.files["test"], split).drop(columns="split") for split in ("test", LABELS[0]))
            pd.testing.assert_frame_equal(own, again)


def test_the_table_has_the_values_of_ir_measures_on_the_exported_runs(done, tmp_path):
    export_trec(done.report.results, tmp_path / "trec")
    table = done.report.by_collection
    assert table.header == ["system", *LABELS, "mean"]
    shown = {row[0]: [cell.split()[0] for cell in row[1:]] for row in table.rows}
    for name, system in done.report.chosen.items():
        values = np.empty((len(system.runs), len(LABELS)))
        for column, label in enumerate(LABELS):
            qrels = list(ir_measures.read_trec_qrels(str(tmp_path / f"trec/{label}.qrels")))
            for row, run in enumerate(system.runs.values()):
                (path,) = (tmp_path / "trec" / label).glob(f"{name}-*{run.id}.run")
                ranked = ir_measures.read_trec_run(str(path))
                values[row, column] = ir_measures.calc_aggregate([nDCG @ 10], qrels, ranked)[nDCG @ 10]
        means = [*values.mean(axis=0), values.mean()]
        assert shown["first stage" if name == "BM25" else name] == [f"{mean:.4f}" for mean in means]
    assert any(row.doc_id == "lost" for row in qrels), "a judgement without text counts"


def test_each_collection_is_a_family_and_so_is_their_mean(done):
    families = {c.family: c for c in done.report.comparisons if c.split is not None}
    assert list(families) == [*LABELS, "mean of 3 collections"]
    differences = [families[label].difference for label in LABELS]
    assert families["mean of 3 collections"].difference == pytest.approx(np.mean(differences), abs=1e-12)
    assert {c.split for c in families.values()} == {*LABELS, "collections"}
    assert r"\label{tab:collections}" in render_latex(build_document(done.report))


def test_without_a_common_metric_no_mean_is_compared():
    tasks = 'task={name="beir", path="a", depth=9}'
    given = f'evaluate=[{{label="a", {tasks}}}, {{label="b", metric="MRR", {tasks}}}]'
    families = build_plan(load_study("quick", [given]), "")["families"]
    assert [(family["split"], family["metrics"]) for family in families if "split" in family] == [
        ("a", ["nDCG@10"]),
        ("b", ["MRR"]),
    ]


def test_a_study_without_collections_has_the_plan_of_before():
    plan = build_plan(load_study("quick"), "")
    assert "collections" not in plan
    assert "evaluate" not in plan["settings"]


def test_a_preview_lists_the_families(tmp_path):
    given = 'evaluate=[{label="DL 19", task={name="beir", path="a", depth=9}}]'
    preview = str(build_preview(load_study("quick", [given, f"output.folder={tmp_path}"])))
    assert "comparisons, DL 19: LS" in preview


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({"name": "beir", "path": "nowhere", "depth": 9}, "evaluate, far: task.path: "),
        ({"name": "dialogues", "path": "nowhere", "depth": 9}, "evaluate, far: task.path: "),
    ],
)
def test_a_message_names_the_collection(task, said, tmp_path):
    study = load_study("quick", [f"cache.folder={tmp_path}"])
    collection = load_study("quick", [f'evaluate=[{{label="far", task={to_toml(task)}}}]']).evaluate
    with pytest.raises(UserError) as caught:
        prepare_collections(study.model_copy(update={"evaluate": collection}), lambda line: None)
    assert str(caught.value).startswith(said)


def to_toml(task: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{key}={json.dumps(value)}" for key, value in task.items()) + "}"


VALUES = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0, 1), min_size=1)


@given(st.lists(VALUES, min_size=1, max_size=4))
def test_weights_give_the_mean_of_the_means_over_distinct_queries(values):
    collections = [pd.DataFrame({1: own}) for own in values]
    weighted = weight_collections(collections)
    assert weighted[1].mean() == pytest.approx(np.mean([own[1].mean() for own in collections]))
    assert list(weighted.index) == sorted(set().union(*values))
