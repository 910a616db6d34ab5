"""Curricula as systems of a study: what is run, in which order, what is declared, and what a user may get wrong."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from records import run_record as record
from records.queries import QUERIES_FILE
from study.folder.trial_record import make_failed_record
from study.scheduling.study_scheduler import StudyScheduler
from study.wandb_sweeps.run_configuration import SingleConfigurationScheduler
from study.workflows import query_attributes as queries
from tests.damages import DAMAGES, flip
from tests.study.small import BATCHES, carry_out, conduct, scheduler, study, table
from tests.trainables.small import BATCH_SIZE, TRAINING
from trainables.curriculum.curriculum_settings import CurriculumSettings
from trainables.rankers.ranker_run import RankerRun
from trainables.utils.errors import MissingDifficultyScoresError

SCORES = ["random", "words_context", "BERT_pred", "BERT_loss"]
ORDERED: dict[str, Any] = {
    "variants": ["BERT"],
    "curriculum": {"variants": ["BERT"], "compare": "score", "score": SCORES},
    "training": {**TRAINING, "instances": BATCHES * BATCH_SIZE, "threads": 1, "sampling": "uniform"},
}

Fresh = Callable[[], Path]


def forgotten(cache: Path) -> Path:
    """The cache with the prepared task alone, for itself: what it keeps is not shared with other tests."""
    prepared = cache / "prepared"
    source = prepared.resolve()
    prepared.unlink()
    shutil.copytree(source, prepared, ignore=shutil.ignore_patterns("difficulty"))
    return cache


@pytest.fixture(scope="module")
def done(world, tmp_path_factory):
    """A study of all scores that ran to its end."""
    place = tmp_path_factory.mktemp("scoring")
    cache = forgotten(world.fresh_cache(place / "cache"))
    begun = scheduler(world, study(world, place / "study", cache, **ORDERED))
    conduct(begun)
    return begun


def copy(done: StudyScheduler, place: Path) -> tuple[Path, Path]:
    """Copies its folder and its cache."""
    folders = (done.folder, place / "study"), (done.study.cache_folder, place / "cache")
    return tuple(shutil.copytree(source, target, symlinks=True) for source, target in folders)


def list_tables(cache: Path) -> list[Path]:
    """The tables of difficulties."""
    return sorted(cache.glob("prepared/*/difficulty/*.parquet"))


def test_a_scoring_study_runs_the_scorer_first(world, tmp_path, fresh):
    begun = scheduler(world, study(world, tmp_path / "study", forgotten(fresh()), **ORDERED))
    first = begun.pop_request()
    assert (first.labels["role"], first.labels["seed"], first.trial.saves_difficulty) == ("scorer", 0, True)
    waiting = [request.labels["variant"] for request in iter(begun.pop_request, None)]  # while the scorer runs
    assert {"BERT", "CL-random", "CL-words_context"} <= set(waiting)
    assert not {"CL-BERT_pred", "CL-BERT_loss"} & set(waiting)


def test_each_score_is_a_system_and_another_study_records_the_same_and_computes_none_again(world, done, tmp_path):
    folder, cache = copy(done, tmp_path)
    found = table(done)
    tested = {name for name, _, split in found if split == "test"}
    assert tested == {"BERT", "BM25", "cosine", *(f"CL-{score}" for score in SCORES)}
    names = [path.name.partition("-")[0] for path in list_tables(cache)]
    assert names == [*2 * ["BERT_loss"], *2 * ["BERT_pred"], "words_context"]
    assert [item.role for item in done.configurations][-1] == "scorer"
    assert done.n_trials == len(found)
    finished = scheduler(world, study(world, folder, cache, **ORDERED))
    assert finished.pop_request() is None
    assert [item.role for item in finished.configurations][-1] == "scorer"  # so that it gets to W&B after a kill

    made = {path: path.stat().st_mtime_ns for path in list_tables(cache)}
    again = scheduler(world, study(world, tmp_path / "two", cache, **ORDERED, name="other"))
    conduct(again)
    assert {path: path.stat().st_mtime_ns for path in list_tables(cache)} == made
    assert table(again) == found
    trained = [record.read_run_record(again.folder, key) for _, key, split in table(again) if split == "dev"]
    assert sum(entry["summary"]["instances_trained"] for entry in trained if entry) == 0


def test_what_is_known_of_the_queries_is_written_for_the_report(world, done, tmp_path):
    folder, cache = copy(done, tmp_path)
    made = study(world, folder, cache, **ORDERED).model_copy(update={"task": world.prepared.settings})
    queries.write_query_attributes(made, done.resolved, done.scorer.runs[0].id)
    found = pd.read_parquet(folder / QUERIES_FILE)
    columns = ["domain", *(f"difficulty/{score}" for score in SCORES if score != "random")]
    assert list(found.columns) == ["split", "query_id", *columns]
    expected = world.prepared.read_candidates()[["split", "query_id"]].drop_duplicates().query("split != 'train'")
    assert found[["split", "query_id"]].to_numpy().tolist() == expected.to_numpy().tolist()
    assert found.notna().all(axis=None)
    for path in list_tables(cache):
        path.unlink()
    queries.write_query_attributes(made, done.resolved, done.scorer.runs[0].id)
    pd.testing.assert_frame_equal(pd.read_parquet(folder / QUERIES_FILE), found, check_like=True)


def shorten(own):
    """The study as if its scoring run had epochs that are two batches."""
    curriculum = own.curriculum.model_copy(update={"scorer_epochs": 0.1})
    return own.model_copy(update={"curriculum": curriculum}).with_scorer_instances(2 * BATCH_SIZE)


def test_a_scorer_of_its_own_length_changes_the_scores_and_no_other_run(world, tmp_path, fresh):
    cache, curriculum = forgotten(fresh()), ORDERED["curriculum"] | {"score": ["random", "BERT_loss"]}
    made = []
    for name, with_length in (("same", lambda own: own), ("short", shorten)):
        changes = ORDERED | {"seeds": [1], "curriculum": curriculum}
        made.append(scheduler(world, with_length(study(world, tmp_path / name, cache, **changes))))
    lengths = [begun.scorer.runs[0].training.instances for begun in made]
    assert lengths == [BATCHES * BATCH_SIZE, 2 * BATCH_SIZE]
    for begun in made:
        conduct(begun)
    ids = [{run.id for item in begun.configurations for run in item.runs} for begun in made]
    names = [
        {item.name for item in begun.configurations if item.role != "scorer" and {run.id for run in item.runs} - other}
        for begun, other in zip(made, reversed(ids), strict=True)
    ]
    assert names == [{"CL-BERT_loss"}, {"CL-BERT_loss"}]
    finished = [run.id for begun in made for run in begun.scorer.runs if begun.store.is_finished(run.id, "dev")]
    assert len({*finished}) == 2


def test_a_failed_scorer_is_tried_once_and_lets_the_others_go_on(world, tmp_path, fresh, monkeypatch):
    asked = []

    def broken(run: RankerRun) -> None:
        asked.append(run.trial.action)
        raise RuntimeError("no room for the table")

    made = study(world, tmp_path / "study", forgotten(fresh()), **ORDERED)
    begun = scheduler(world, made)
    with monkeypatch.context() as patch:
        patch.setattr("trainables.rankers.ranker_backend.save_difficulty_scores", broken)
        _run_out(begun)
    assert asked == ["train"]
    assert begun.is_finished
    assert set(begun.select_winners()) == {"BERT", "BM25", "cosine", "CL-random", "CL-words_context"}
    failed = [item for item in begun.configurations if begun.store.get_state(item.runs[0].id) == "failed"]
    assert {item.name for item in failed if item.role != "scorer"} == {"CL-BERT_pred", "CL-BERT_loss"}
    causes = [
        (record.read_run_record(begun.folder, run.id) or {})["summary"]["error"] for item in failed for run in item.runs
    ]
    assert sum("from the scoring run" in cause for cause in causes) == 4


def _run_out(begun: StudyScheduler) -> None:
    """Runs a scheduler's requests like `conduct`, but requests may fail."""
    while (request := begun.pop_request()) is not None:
        try:
            carry_out(request, begun.folder)
        except MissingDifficultyScoresError as error:  # `study.execution.searcher` does the same
            assert begun.scorer_failed
            record.write_run_record(
                begun.folder, request.split, make_failed_record(request.trial, request.labels, str(error), {}), None
            )
        except RuntimeError:
            pass
        begun.mark_ended(request)


def test_damaged_difficulties_are_made_again_with_the_same_result(world, done, tmp_path, fresh):
    changes = {**ORDERED, "curriculum": {**ORDERED["curriculum"], "score": ["words_context"]}}
    cache = forgotten(fresh())
    (written,) = (path for path in list_tables(done.study.cache_folder) if path.name.startswith("words_context"))
    damaged = cache / written.relative_to(done.study.cache_folder)
    damaged.parent.mkdir(exist_ok=True)
    for name in (written.name, f"{written.name}.sha256"):
        shutil.copy(written.parent / name, damaged.parent / name)
    flip(damaged)
    again = scheduler(world, study(world, tmp_path / "study", cache, **changes))
    conduct(again)
    assert table(again).items() <= table(done).items()
    assert damaged.read_bytes() == written.read_bytes()


@pytest.mark.parametrize("damage", ["flipped", "missing"])
def test_a_cleared_or_damaged_cache_brings_the_scorer_back_only_for_runs_that_need_it(world, done, tmp_path, damage):
    folder, cache = copy(done, tmp_path)
    for path in list_tables(cache):
        DAMAGES[damage](path)
    assert scheduler(world, study(world, folder, cache, **ORDERED)).pop_request() is None
    more = scheduler(world, study(world, folder, cache, **ORDERED, seeds=[1, 2, 3]))
    request = more.pop_request()
    assert request.labels["role"] == "scorer"


def test_a_swept_configuration_brings_its_scorer(world, tmp_path, fresh):
    made = study(world, tmp_path / "study", forgotten(fresh()), **ORDERED)
    whole = scheduler(world, made)
    item = next(item for item in whole.configurations if item.name == "CL-BERT_loss")
    single = SingleConfigurationScheduler(made, whole.resolved, whole.store, "plan-hash", item)
    roles = []
    while (request := single.pop_request()) is not None:
        roles.append(request.labels["role"])
        carry_out(request, single.folder)
        single.mark_ended(request)
    assert roles == ["scorer", "search", "search"]
    assert single.result is not None
    assert [item.role for item in single.configurations] == ["search", "scorer"]


def test_smoothing_and_curriculum_are_one_specification(world, tmp_path, fresh):
    changes = {
        **ORDERED,
        "variants": ["BERT", "WSLS", "T-WSLS"],
        "curriculum": {"variants": ["WSLS", "T-WSLS"], "score": ["words_context"], "pacing": ["linear", "step"]},
        "search": {"sampler": "grid", "epsilon": [0.2], "schedule_settings": {"switch": [0.5]}},
    }
    begun = scheduler(world, study(world, tmp_path / "study", fresh(), **changes))
    conduct(begun)
    found = {(item.name, item.params.values.get("pacing")): item.runs for item in begun.configurations}
    both = found["T-WSLS-CL", "linear"][0]
    assert both.variant.schedule == "two_stage"
    assert both.curriculum == CurriculumSettings(score="words_context", pacing="linear")
    assert both.curriculum != found["T-WSLS-CL", "step"][0].curriculum
    for pacing in ("linear", "step"):
        constant, ending = found["WSLS-CL", pacing][0], found["T-WSLS-CL", pacing][0]
        assert set(begun.list_checkpoint_keys(constant)[:-1]) & set(begun.list_checkpoint_keys(ending))
    shared_by = [
        record.read_run_record(begun.folder, run.id)["summary"]["instances_reused"]
        for (name, _), runs in found.items()
        if name == "T-WSLS-CL"
        for run in runs
    ]
    assert shared_by == [BATCHES * BATCH_SIZE // 2] * 4
