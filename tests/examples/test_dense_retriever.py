"""The dense retriever of the examples: its loss, its search, and a study of it that is killed and taken up again."""

import importlib
import os
import signal
from pathlib import Path
from typing import Any, NamedTuple

import ir_measures
import numpy as np
import pytest
import torch
from sentence_transformers import util

from analysis.export.trec import export_trec
from analysis.readers.study_reader import read_records
from analysis.rendering.document import build_document, render_markdown
from analysis.tables.main import ReportData, build_report_data
from records import run_record as record
from study.config.loader import load_study
from study.config.schema import Study
from study.config.study_class import get_study_class
from study.folder.run_store import RunStore
from study.plan.analysis_plan import register_plan
from study.scheduling.study_scheduler import StudyScheduler
from study.scheduling.trials import ResolvedInputs
from tests.plugins import ROOT, take_back_plugins
from tests.study.command import light
from tests.study.small import conduct
from tests.trainables.data.test_first_stage import write_collection
from trainables.models.pretrained import hash_model_files
from trainables.specs.environment import detect_environment
from trainables.training.resume import ResumableTraining
from trainables.utils.errors import UserError
from trainables.utils.plugins import load_plugins

EXAMPLES = ROOT / "examples"
FILE = str(EXAMPLES / "dense_retriever" / "study.toml")
SETTINGS: dict[str, Any] = {
    "name": "tiny-dense",
    "plugins": ["dense_retriever"],
    "seeds": [1, 2],
    "variants": ["MNRL", "LS", "T-LS"],
    "training": {
        "instances": 48, "batch_size": 6, "learning_rate": 4e-3, "precision": "fp32", "evaluations": 4,
        "checkpoint": "nDCG@10",
    },
    "search": {"epsilon": [0.4], "n_configurations": {"LS": 1, "T-LS": 1}, "schedule_settings": {"switch": [0.25]}},
    "tracking": {"mode": "disabled"},
}  # fmt: skip


@pytest.fixture(scope="module")
def plugin():
    with take_back_plugins(EXAMPLES):
        load_plugins(["dense_retriever"])
        yield lambda name: importlib.import_module(f"dense_retriever.{name}")


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(shape[0]))


@pytest.mark.parametrize("temperature", [0.05, 0.3])
def test_without_smoothing_the_loss_and_its_gradient_are_those_of_sentence_transformers(plugin, temperature):
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    theirs = MultipleNegativesRankingLoss(torch.nn.Identity(), scale=1 / temperature)
    embeddings = [draw(9, 16).requires_grad_(), (draw(9, 16) + 2 * draw(10, 16)[:9]).requires_grad_()]
    found = []
    for loss in (
        plugin("loss").smoothed_in_batch_loss(*embeddings, temperature),
        theirs.compute_loss_from_embeddings(embeddings, None),
    ):
        found.append([loss.detach(), *torch.autograd.grad(loss, embeddings)])
    for own, other in zip(*found, strict=True):
        torch.testing.assert_close(own, other, rtol=0, atol=1e-6)
    assert found[0][0] > 0.1


def test_smoothing_mixes_the_target_with_the_uniform_distribution(plugin):
    queries, documents, epsilon = draw(5, 8), draw(6, 8)[:5], 0.3
    log_shares = torch.log_softmax(util.cos_sim(queries, documents) / 0.1, dim=1)
    target = (1 - epsilon) * torch.eye(5) + epsilon / 5
    loss = plugin("loss").smoothed_in_batch_loss(queries, documents, 0.1, epsilon)
    torch.testing.assert_close(loss, -(target * log_shares).sum(dim=1).mean())


def test_the_search_is_a_ranking_of_all_documents(plugin, monkeypatch):
    """Also with documents that are equal, in parts of the queries, and without the excluded pairs."""
    monkeypatch.setattr(plugin("search"), "QUERIES_AT_ONCE", 3)
    queries, documents = draw(8, 4), torch.cat([draw(30, 4), draw(30, 4)[:10]])
    excluded = np.array([[0, 3], [4, 7], [4, 8], [7, 39]])
    cosines, found = plugin("search").search(queries, documents, 25, excluded)
    expected = util.cos_sim(queries, documents).numpy()
    for query in range(8):
        left_out = set(excluded[excluded[:, 0] == query, 1])
        order = [n for n in sorted(range(40), key=lambda n: (-expected[query, n], n)) if n not in left_out][:25]
        assert found[query].tolist() == order
        np.testing.assert_allclose(cosines[query], expected[query, order], atol=1e-6)
    everything = plugin("search").search(queries, documents, 100, excluded)[0]
    assert [(row == -np.inf).sum() for row in everything] == [1, 0, 0, 0, 2, 0, 0, 1]


class Done(NamedTuple):
    """A finished study of the retriever."""

    report: ReportData
    folder: Path


def begin(world, place: Path, name: str) -> StudyScheduler:
    """Starts a study, or takes it up again."""
    made: Study = get_study_class("dense-retriever").model_validate(
        {
            **SETTINGS,
            "task": {"name": "beir", "path": str(place / "collection"), "depth": 12, "relevant_from": 1},
            "model": {"name": str(world.bert), "num_layers": 2, "frozen_layers": 1, "max_length": 32},
            "output": {"folder": str(place / name)},
            "cache": {"folder": str(place / f"{name}-cache"), "checkpoint_interval": 0},
        }
    )
    data, digest = made.study_type.trainable.data_backend, hash_model_files(world.bert)
    prepared = data.prepare_data(made.task, made.cache_folder, print)
    data.check_data(made, prepared)
    made = made.model_copy(update={"task": prepared.settings})
    register_plan(made, digest, made.folder, data.describe_data(prepared))
    resolved = ResolvedInputs(prepared.fingerprint, digest, world.bert, detect_environment())
    return StudyScheduler(made, resolved, RunStore(made.folder), "plan-hash")


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A collection with copies of two test queries, which are no answers."""
    folder = tmp_path_factory.mktemp("dense")
    write_collection(folder / "collection")
    with (folder / "collection" / "corpus.jsonl").open("a") as corpus:
        for line in (folder / "collection" / "queries.jsonl").read_text().splitlines()[18:20]:
            corpus.write(line.replace('"_id": "q', '"title": "", "_id": "copy') + "\n")
    return folder


@pytest.fixture(scope="module")
def done(plugin, world, place) -> Done:
    conduct(begin(world, place, "whole"))
    return Done(build_report_data(read_records(place / "whole")), place / "whole")


def test_a_study_is_reported_and_its_exported_files_give_its_figures(done, tmp_path):
    export_trec(done.report.results, tmp_path / "trec")
    qrels = list(ir_measures.read_trec_qrels(str(tmp_path / "trec/test.qrels")))
    assert {(row.query_id, row.doc_id, row.relevance) for row in qrels} >= {("q18", "far18", 1), ("q18", "d18", 2)}
    for run in done.report.results.runs:  # also those with weights of an earlier evaluation
        assert run.evaluate_queries("dev", "nDCG@10").mean() == pytest.approx(run.summary["dev/nDCG@10"], abs=1e-12)
    retrieved = set[frozenset[tuple[str, str]]]()
    for name, system in done.report.chosen.items():
        for run in (run for run in system.runs.values() if "test" in run.files):
            (path,) = (tmp_path / "trec/test").glob(f"{name}-*{run.id}.run")
            rows = list(ir_measures.read_trec_run(str(path)))
            retrieved.add(frozenset((row.query_id, row.doc_id) for row in rows))
            assert not any(row.doc_id == f"copy{row.query_id[1:]}" for row in rows)
            for measure, metric in ((ir_measures.nDCG @ 10, "nDCG@10"), (ir_measures.R @ 12, "R@12")):
                expected = ir_measures.calc_aggregate([measure], qrels, rows)[measure]
                assert run.evaluate_queries("test", metric).mean() == pytest.approx(expected, abs=1e-12)
    assert len(retrieved) > 5, "all runs retrieve the same documents"
    shown = render_markdown(build_document(done.report))
    assert "the first 12 documents that each system finds in the collection, none added" in shown
    assert "others by" not in shown, "training has no sampled negatives"
    assert "Ensembles" not in shown, "seeds with different documents have no mean score"
    assert {(c.metric, c.system, c.baseline) for c in done.report.comparisons} >= {
        ("nDCG@10", "LS", "MNRL"), ("R@12", "T-LS", "MNRL"), ("nDCG@10", "T-LS", "LS"), ("nDCG@10", "MNRL", "BM25")
    }  # fmt: skip


def read_results(folder: Path) -> dict[str, bytes]:
    scores = {str(path.relative_to(folder)): path.read_bytes() for path in folder.glob("runs/*/*scores.parquet")}
    return scores | {"comparisons": repr(build_report_data(read_records(folder)).comparisons).encode()}


def test_a_study_that_is_killed_within_a_run_ends_with_the_same_bytes(world, place, done):
    if (child := os.fork()) == 0:
        stepped, left = ResumableTraining.on_step_end, iter(range(11))

        def die(training: ResumableTraining) -> None:
            stepped(training)
            if next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)

        ResumableTraining.on_step_end = die
        try:
            conduct(begin(world, place, "killed"))
        finally:
            os._exit(1)  # it must not return to pytest
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    finished = len(list((place / "killed").glob("runs/*/record.json")))
    conduct(begin(world, place, "killed"))
    entries = [record.read_run_record(place / "killed", path.name) for path in (place / "killed" / "runs").iterdir()]
    assert 0 < finished < len(entries)
    assert any(entry["summary"]["instances_resumed"] for entry in entries)
    assert read_results(place / "killed") == read_results(done.folder)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("analysis.metric=R10@1", "analysis.metric: 'R10@1'; expected a metric of retrieval, such as nDCG@10"),
        ("task.label_noise=0.1", "task.label_noise: 0.1; expected 0"),
        ("model.pooling=cls", "model.pooling: 'cls'; expected 'mean'"),
        ("search.epsilon=[2]", "search.epsilon: .* at most 1"),
    ],
)
def test_a_mistake_is_one_line(plugin, override, told):
    with pytest.raises(UserError, match=told) as raised:
        load_study(FILE, [override])
    assert "\n" not in str(raised.value)


def test_its_plan_loads_nothing_heavy():
    assert "LS and T-LS with MNRL" in light(EXAMPLES, FILE, "--dry-run").stdout
