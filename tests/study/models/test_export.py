"""Models leave a study with the scores that it recorded, from wherever their weights are, or not at all."""

import json
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import yaml
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt
from sentence_transformers import CrossEncoder

from analysis.readers.study_reader import read_records
from analysis.rendering.conclusion import answer_study
from analysis.tables.main import ReportData, build_report_data
from records.run_record import get_scores_path
from study import api
from study.config.schema import Study
from study.export import main as export_command
from study.folder.kept_models import open_kept_models
from study.folder.run_store import RunStore
from study.models.chosen import list_chosen_runs, select_run
from study.models.model_export import Export, _export_runs, compare_scores
from study.plan.analysis_plan import register_plan
from study.scheduling.study_scheduler import StudyScheduler
from study.suites.suite_loader import load_one_study
from study.workflows.keep_models import keep_models
from tests.damages import flip
from tests.study.small import SETTINGS, conduct, scheduler, study
from tests.trainables.small import FROZEN, World
from trainables.utils.cli import explain_error
from trainables.utils.errors import MachineError, UserError

CHANGES = {"seeds": [1, 2], "variants": ["BERT", "LS"], "search": {"epsilon": [0.2], "n_configurations": {"LS": 1}}}


class Finished(NamedTuple):
    """A study with ended trials and the kept weights of the chosen runs."""

    study: Study
    scheduler: StudyScheduler
    analysis: ReportData


@pytest.fixture(scope="module")
def original(world, tmp_path_factory):
    """The folder and the cache of a finished study."""
    place = tmp_path_factory.mktemp("exports")
    finish(world, place, "best")
    return place


def finish(world: World, place: Path, models: str | None) -> Finished:
    cache = place / "cache"
    if not cache.exists():
        world.fresh_cache(cache)
    made = study(world, place / "study", cache, **CHANGES, output={"folder": str(place / "study"), "models": models})
    begun = scheduler(world, made)
    register_plan(made, begun.resolved.model_digest, made.folder)
    conduct(begun)
    keep_models(begun, lambda line: None)
    return Finished(made, begun, build_report_data(read_records(made.folder)))


@pytest.fixture
def finished(world, original, tmp_path, monkeypatch):
    """A copy of the study, which a test may damage."""
    monkeypatch.syspath_prepend(world.cache.parent / "site")
    place = tmp_path / "place"
    shutil.copytree(original, place, symlinks=True)
    return finish(world, place, "best")


@pytest.fixture(scope="module")
def intact(world, original):
    """The study itself, which a test leaves as it is."""
    return finish(world, original, "best")


COMMAND = "python -m study.export quick 'name=`a`  <b>' LS --to FOLDER"


def export(finished: Finished, folder: Path, seed: int | None = None, log: list[str] | None = None) -> Export:
    runs = list_chosen_runs(finished.study, finished.analysis, "LS")
    run = select_run(finished.study, runs, seed)
    lines = [] if log is None else log
    return _export_runs(finished.study, finished.analysis, [run], folder, COMMAND, lines.append)


def load(folder: Path) -> CrossEncoder:
    return CrossEncoder(str(folder), device="cpu", trust_remote_code=True)


def test_the_best_seed_of_each_system_is_kept(intact):
    kept = {path.name for path in (intact.study.folder / "models").iterdir()}
    store = RunStore(intact.study.folder)
    assert len(kept) == 2
    for item in intact.scheduler.select_for_test().values():
        if item.name in ("BERT", "LS"):
            values = [store.compute_values(run.id, "R5@1").mean() for run in item.runs]
            assert open_kept_models(intact.study.folder).exists(item.runs[int(np.argmax(values))].id)


def test_all_seeds_are_kept_on_request_and_none_without(world, original, tmp_path):
    for models, count in (("all", 4), (None, 0)):
        place = tmp_path / str(models)
        shutil.copytree(original, place, symlinks=True)
        shutil.rmtree(place / "study" / "models")
        made = finish(world, place, models)
        assert len([*made.study.folder.glob("models/*")]) == count


def test_weights_are_not_evicted_before_they_are_kept(world, original, tmp_path):
    shutil.copytree(original, tmp_path / "place", symlinks=True)
    made = finish(world, tmp_path / "place", "best")
    assert made.scheduler.list_needed_checkpoints() == set()
    shutil.rmtree(made.study.folder / "models")
    assert len(made.scheduler.list_needed_checkpoints()) == 2


def test_the_card_has_what_the_hub_reads_and_what_the_study_found(finished, world, tmp_path):
    export(finished, tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    metadata = yaml.safe_load(card.split("---\n")[1])
    assert metadata["pipeline_tag"] == "text-ranking"
    assert metadata["library_name"] == "sentence-transformers"
    assert answer_study(finished.analysis).sentence in card
    assert "BERT over cosine (R5@1)" in card
    assert "A pair of more than 32 tokens is cut as in the study" in card
    assert str(tmp_path) not in card
    data = ModelCard(card, ignore_metadata_errors=False).data
    assert data.datasets == ["docstrings"]
    run = select_run(finished.study, list_chosen_runs(finished.study, finished.analysis, "LS"), None)
    (result,) = data.eval_results
    own = RunStore(finished.study.folder).compute_values(run.specification.id, "R5@1", "test").mean()
    assert (result.dataset_name, result.dataset_split, result.metric_type) == ("docstrings", "test", "R5@1")
    assert result.metric_value == pytest.approx(own)
    assert f"\n- This model itself: R5@1 {own:.4f} on test\n" in card
    assert "@software{ranker_studies," in card
    assert "Penha and Hauff" in card.split("## Citation")[1]
    code = card.split("```python\n")[1].split("```")[0].replace("FOLDER", str(tmp_path / "model"))
    exec(code, found := {})
    queries, documents = (set(texts) for texts in zip(*found["pairs"], strict=True))
    assert queries <= {*world.prepared.read_queries()["text"]}
    assert len(documents) == found["scores"].size == 2
    assert all(len(text.split()) <= 12 for text in documents)  # as the model reads them
    *_, last = MarkdownIt().parse(card)
    assert (last.type, last.content) == ("code_block", f"{COMMAND}\n")


def test_the_scores_are_those_of_the_record_wherever_the_weights_are(finished, tmp_path):
    """Kept; damaged there and taken from the cache; nowhere and trained again: the same file."""
    texts = [("numbers of a list", "Return the numbers."), ("a", "b c d")]
    folder, hashes, logs = finished.study.folder, list[bytes](), list[list[str]]()
    for number, prepare in enumerate((None, "damage", "remove")):
        if prepare == "damage":
            for file in folder.glob("models/*/state.safetensors"):
                flip(file)
        if prepare == "remove":
            shutil.rmtree(folder / "models", ignore_errors=True)
            shutil.rmtree(finished.study.cache_folder / "stages")
        logs.append([])
        export(finished, tmp_path / str(number), log=logs[-1])
        hashes.append((tmp_path / str(number) / "model.safetensors").read_bytes())
    assert hashes[0] == hashes[1] == hashes[2]
    assert logs[0] == ["reading task docstrings"]
    assert [line.partition(" was ")[2][:7] for line in logs[1]] == ["damaged"]
    assert [line.partition(" (")[0] for line in logs[2]] == ["training LS"]
    scores = [load(tmp_path / str(number)).predict(texts) for number in range(2)]
    np.testing.assert_array_equal(*scores)


def test_reranking_the_candidates_of_a_study_gives_its_scores(finished, world, tmp_path):
    """The source's whole documents, while the study's model read 12 words of each, and pairs that are too long."""
    run = select_run(finished.study, list_chosen_runs(finished.study, finished.analysis, "LS"), 1)
    assert api.export(finished.study, "LS", tmp_path / "model", seed=1) == tmp_path / "model"
    recorded = pd.read_parquet(get_scores_path(finished.study.folder, run.specification.id, "test"))
    documents, words = world.prepared.read_documents(), finished.study.task.document_words
    assert words == 12
    whole = [text + " and more" * 9 * (len(text.split()) >= words) for text in documents["text"]]
    assert whole != documents["text"].tolist()
    lines = [f"{row.query_id} {row.document_id}\n" for row in recorded.itertuples()]
    (tmp_path / "first.run").write_text("".join(lines))
    for name, ids, texts in (
        ("queries", *world.prepared.read_queries()[["query_id", "text"]].to_numpy().T),
        ("documents", documents["document_id"], whole),
    ):
        rows = [json.dumps({"id": each, "text": text}) for each, text in zip(ids, texts, strict=True)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows))
    files = [tmp_path / name for name in ("first.run", "queries.jsonl", "documents.jsonl", "new.run")]
    assert api.rerank(tmp_path / "model", *files, ["--precision=fp32"]) == tmp_path / "new.run"
    found = {(row[0], row[2]): float(row[4]) for row in map(str.split, (tmp_path / "new.run").open())}
    expected = [found[row.query_id, row.document_id] for row in recorded.itertuples()]
    assert compare_scores(np.array(expected), recorded["score"].to_numpy(), recorded["query_id"].tolist()).is_passed


def test_a_folder_of_results_is_enough_to_name_a_study(finished, world, tmp_path, capsys):
    """The same model as with the study's settings; the copy of the study is one that a user could have written."""
    folder, cache = finished.study.folder, f"cache.folder={finished.study.cache_folder}"
    arguments = [str(folder), "LS", "--seed=1", f"--to={tmp_path}/model", cache]
    (folder / "study.toml").unlink(missing_ok=True)
    assert export_command(arguments) == 2
    assert f"{folder}: no study.toml; expected a folder of results" in capsys.readouterr().err
    settings = {
        "task": finished.study.task.model_dump(exclude_defaults=True),
        "model": {"name": str(world.bert), "max_length": 32, **FROZEN},
        "training": SETTINGS["training"],
        "analysis": SETTINGS["analysis"],
        "tracking": SETTINGS["tracking"],
        "search": {"epsilon": [0.2], "n_configurations": {"LS": 1}},
    }
    tables = [f"{name} = {api._format_toml(value)}" for name, value in settings.items()]
    (folder / "study.toml").write_text("\n".join(['name = "tiny"\nseeds = [1, 2]\nvariants = ["BERT", "LS"]', *tables]))
    assert export_command(arguments) == 0
    export(finished, tmp_path / "other", seed=1)
    written = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("model", "other")]
    assert written[0] == written[1]
    assert "python -m study.export RESULTS/study LS --seed 1 --to FOLDER" in (tmp_path / "model/README.md").read_text()
    api.prepare(load_one_study(str(folder), [cache]))
    assert f"task docstrings, fingerprint {world.prepared.fingerprint}" in capsys.readouterr().out
    folder.with_suffix(".toml").write_text('name = "other"')  # another study, next to the folder
    assert load_one_study(str(folder), [cache]) == load_one_study(str(folder.parent), [cache], "study")


def test_an_ensemble_has_a_model_for_each_seed(finished, tmp_path):
    runs = list_chosen_runs(finished.study, finished.analysis, "LS")
    folder = tmp_path / "ensemble"
    _export_runs(finished.study, finished.analysis, runs, folder, "python -m study.export", lambda line: None)
    assert json.loads((folder / "ensemble.json").read_text("utf-8")) == {"models": ["seed-1", "seed-2"]}
    card = (folder / "README.md").read_text(encoding="utf-8")
    code = card.split("```python\n")[1].split("```")[0].replace("FOLDER", str(folder))
    exec(code, found := {})
    alone = [load(folder / name).predict(found["pairs"]) for name in ("seed-1", "seed-2")]
    np.testing.assert_allclose(found["scores"], np.mean(alone, axis=0), rtol=1e-6)
    (row,) = (row for row in finished.analysis.ensembles if row.system == "LS")
    assert f"\n- The ensemble itself: R5@1 {row.value:.4f} on test\n" in card
    assert ModelCard(card).data.eval_results[0].metric_value == pytest.approx(row.value)


def test_a_model_with_other_scores_than_those_of_the_record_is_not_written(finished, tmp_path):
    run = select_run(finished.study, list_chosen_runs(finished.study, finished.analysis, "LS"), 1)
    path = get_scores_path(finished.study.folder, run.specification.id, "test")
    scores = pd.read_parquet(path)
    scores.loc[0, "score"] += 1e-2 * scores["score"].std()
    scores.to_parquet(path, index=False)
    with pytest.raises(MachineError, match="gives other scores than the study: they differ by at most") as caught:
        _export_runs(finished.study, finished.analysis, [run], tmp_path / "model", "", lambda line: None)
    assert "rerun the same command" not in ": ".join(explain_error(caught.value))  # it would do the same again
    assert [*tmp_path.glob("model*")] == []


DRAWN = np.random.default_rng(1).normal(0, 3, 60).round(2)
QUERIES = [f"q{number // 10}" for number in range(60)]


@pytest.mark.parametrize(
    ("recorded", "change", "is_passed"),
    [
        (DRAWN, 2.2e-5, True),  # rounding after training in bf16, at scores near 6
        (DRAWN + 100, 2.2e-5, True),
        (DRAWN, 3e-3, False),
        (DRAWN / 1000, 2e-6, True),
        (DRAWN / 1000, 3e-5, False),
        (np.full(60, 6.0), 2.2e-5, True),  # a model that collapsed
        (np.full(60, 6.0), 1e-3, False),
    ],
)
def test_scores_agree_up_to_rounding_relative_to_their_spread(recorded, change, is_passed):
    changed = recorded + change * np.where(np.arange(60) % 2, 1, -1)
    check = compare_scores(changed, recorded, QUERIES)
    assert check.is_passed == is_passed
    ranked = [scipy.stats.rankdata(scores.reshape(6, 10), axis=1) for scores in (changed, recorded)]
    assert (check.n_swapped == 0) or not np.array_equal(*ranked)


def test_the_order_of_documents_is_compared_within_queries():
    check = compare_scores(np.array([1.0, 2.0, 3.0, 9.0]), np.array([2.0, 1.0, 3.0, -9.0]), ["a", "a", "a", "b"])
    assert (check.n_pairs, check.n_swapped) == (3, 1)


def test_other_weights_than_those_of_the_record_are_an_error(finished, tmp_path):
    runs = list_chosen_runs(finished.study, finished.analysis, "LS")
    other = runs[0]._replace(summary=runs[0].summary | {"weights": "0" * 64})
    with pytest.raises(MachineError, match="are not those of the study"):
        _export_runs(finished.study, finished.analysis, [other], tmp_path / "model", "", lambda line: None)
    assert [*tmp_path.glob("model*")] == []


@pytest.mark.parametrize(
    ("system", "seed", "message"),
    [
        ("L", None, r"SYSTEM: 'L'; expected one of .*LS"),
        ("BM25", None, "SYSTEM: BM25, which has no model of its own"),
        ("cosine", None, "SYSTEM: cosine, which has no model of its own"),
        ("LS", 9, "--seed: 9; expected a seed that LS was tested with: 1, 2"),
    ],
)
def test_a_system_or_seed_without_a_model(intact, system, seed, message):
    with pytest.raises(UserError, match=message):
        select_run(intact.study, list_chosen_runs(intact.study, intact.analysis, system), seed)


def test_a_form_that_the_model_lacks_is_one_line_and_nothing_is_written(finished, tmp_path):
    with pytest.raises(UserError, match=r"--form: classification; expected modules: transformers has no model for"):
        api.export(finished.study, "LS", tmp_path / "model", form="classification")
    assert [*tmp_path.glob("model*")] == []
    api.export(finished.study, "LS", tmp_path / "model", form="modules")
    card = (tmp_path / "model" / "README.md").read_text("utf-8")
    assert "FOLDER, form='modules')" in card
    assert "- sentence-transformers pads all pairs of a batch, since the cosine pooling needs padding." in card


def test_an_existing_folder_is_not_written_to(intact, tmp_path):
    with pytest.raises(UserError, match=r"--to: .* exists; expected a folder that does not exist yet"):
        export(intact, tmp_path)
