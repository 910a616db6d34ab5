"""Runs with a curriculum: as pure as others, shared and forked like them, their difficulties computed once."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.trainables.small import BASELINE, BATCH_SIZE, BATCHES, LS, T_LS, Fresh, World, finish, job
from trainables.curriculum.curriculum_settings import CurriculumSettings
from trainables.difficulty import cache as kept
from trainables.rankers.ranker_backend import precompute, save_difficulty_scores
from trainables.rankers.ranker_run import RankerData, RankerRun
from trainables.specs.ranker import LabelSmoothing
from trainables.specs.trial import TrialSpec
from trainables.utils.errors import MissingDifficultyScoresError
from trainables.worker.actor import RunTrainable

UNIFORM = {"sampling": "uniform"}
SCORER_SEED = 7


@pytest.fixture
def place(world: World, tmp_path: Path) -> Path:
    """A cache with the prepared task and nothing that was made of it."""
    target = tmp_path / "cache" / "prepared" / world.prepared.fingerprint
    shutil.copytree(world.prepared.folder, target, ignore=shutil.ignore_patterns("difficulty"))
    return tmp_path / "cache"


def scorer(world: World, cache: Path) -> TrialSpec:
    return job(world, cache, seed=SCORER_SEED, fork_points=(), **UNIFORM).model_copy(update={"saves_difficulty": True})


def curricular(world: World, cache: Path, variant: LabelSmoothing = BASELINE, **settings: Any) -> TrialSpec:
    """A run with a curriculum; nothing is computed for it."""
    plain = job(world, cache, variant, **UNIFORM)
    asked = scorer(world, cache).specification.id
    order = CurriculumSettings.model_validate({**settings, "scorer": asked}).canonicalize()
    return plain.model_copy(update={"specification": plain.specification.model_copy(update={"curriculum": order})})


def keep(world: World, cache: Path, action: str = "train") -> None:
    run = RankerRun(scorer(world, cache).model_copy(update={"action": action}))
    finish(run)
    for _ in save_difficulty_scores(run):
        pass


def ready(trial: TrialSpec) -> TrialSpec:
    for _ in precompute(trial):
        pass
    return trial


@pytest.mark.parametrize("score", ["random", "sigma_SM", "BERT_loss"])
def test_a_run_forked_at_any_stage_has_the_weights_of_the_unforked_one(world: World, fresh: Fresh, score: str) -> None:
    alone, shared = fresh(), fresh()
    if score == "BERT_loss":
        keep(world, alone)  # both caches have the prepared task in common
    whole = finish(ready(curricular(world, alone, T_LS, score=score)))
    first = finish(ready(curricular(world, shared, LS, score=score)))
    forked = finish(ready(curricular(world, shared, T_LS, score=score)))
    assert forked.instances_reused == BATCHES * BATCH_SIZE // 2
    assert (forked.weights_hash, forked.history, forked.metric) == (whole.weights_hash, whole.history, whole.metric)
    assert forked.weights_hash != first.weights_hash


def test_order_pace_start_and_length_make_other_runs(world: World, fresh: Fresh) -> None:
    cache = fresh()
    settings: list[dict[str, Any]] = [
        {"score": "random"},
        {"score": "words_context"},
        {"score": "words_context", "pacing": "geometric_progression"},
        {"score": "words_context", "delta": 0.1},
        {"score": "words_context", "duration": 0.5},
    ]
    found = [finish(ready(curricular(world, cache, **own))) for own in settings]
    plain = finish(job(world, cache, **UNIFORM))
    epochs = finish(job(world, cache))
    assert len({outcome.weights_hash for outcome in [*found, plain, epochs]}) == len(settings) + 2
    standard = curricular(world, cache, score="words_context", pacing="standard")
    assert standard.specification.id == job(world, cache, **UNIFORM).specification.id


def test_a_batch_of_a_run_holds_easy_queries_first(world: World, fresh: Fresh) -> None:
    """Through the whole chain: the first step's queries are among the easiest third by the texts themselves."""
    trial = ready(curricular(world, fresh(), score="words_responses", delta=0.3, duration=1.0))
    data, seen = RankerData(trial), list[np.ndarray]()
    run = RankerRun(trial)
    whole = run.data.read

    def read(rows: np.ndarray) -> Any:
        seen.append(rows)
        return whole(rows)

    run.data.read = read
    finish(run)
    train = world.prepared.read_candidates("train")
    texts = world.prepared.read_documents().set_index("document_id")["text"]
    lengths = train["document_id"].map(lambda name: len(texts[name].split()))
    words = lengths.groupby(train["query_id"], sort=False).mean()
    first = data.select_pairs("train").first_row
    batches, count = [], 0
    for rows in seen:
        if count < BATCH_SIZE:
            batches.append(rows)
            count += len(rows)
    ids = train["query_id"].to_numpy()[np.concatenate(batches) - first]
    assert words[np.unique(ids)].max() <= words.sort_values().iloc[int(0.3 * len(words)) - 1]


@pytest.mark.parametrize("score", ["words_context", "sigma_SM"])
def test_a_score_is_computed_once_and_then_found(world: World, place: Path, score: str) -> None:
    trial = curricular(world, place, score=score)
    path = kept.get_difficulty_path(
        place / "prepared" / world.prepared.fingerprint, _order(trial), trial.specification.model.name
    )
    assert not path.is_file()
    ready(trial)
    before = path.stat().st_mtime_ns
    check(world, pd.read_parquet(path), ["train", "dev", "test"])
    ready(trial.model_copy(update={"specification": trial.specification.model_copy(update={"seed": 2})}))
    assert path.stat().st_mtime_ns == before


def check(world: World, table: pd.DataFrame, splits: list[str]) -> None:
    assert list(table.columns) == ["split", "query_id", "difficulty"]
    expected = world.prepared.read_candidates()[["split", "query_id"]].drop_duplicates()
    expected = expected[expected["split"].isin(splits)]
    assert table[["split", "query_id"]].to_numpy().tolist() == expected.to_numpy().tolist()


def test_a_scorer_keeps_what_others_ask_and_is_an_ordinary_run(world: World, place: Path, fresh: Fresh) -> None:
    trial = scorer(world, place)
    result, steps = conducted(trial)
    ordinary = finish(job(world, fresh(), seed=SCORER_SEED, **UNIFORM))
    assert result["metric"] == ordinary.metric
    unscored = scorer(world, fresh()).model_copy(update={"saves_difficulty": False})
    assert steps == conducted(unscored)[1] + 2  # a split a step
    made = difficulties(place)
    assert sorted(path.name.partition("-")[0] for path in made) == ["BERT_loss", "BERT_pred"]
    for path in made:
        check(world, pd.read_parquet(path), ["train", "dev"])  # nothing of the test set before it is tested
    for score in ("BERT_loss", "BERT_pred"):
        ready(curricular(world, place, score=score))
    conducted(trial)
    assert difficulties(place) == made
    tested, _ = conducted(trial.model_copy(update={"action": "test"}))
    test_run = job(world, fresh(), seed=SCORER_SEED, **UNIFORM)
    finish(test_run)
    assert tested["metric"] == finish(test_run.model_copy(update={"action": "test"})).metric
    assert {path: time for path, time in difficulties(place).items() if path in made} == made
    for path in difficulties(place).keys() - made.keys():
        assert path.name.endswith("-test.parquet")
        check(world, pd.read_parquet(path), ["test"])


def conducted(trial: TrialSpec) -> tuple[dict[str, Any], int]:
    """Returns what a worker reports at its end, and its steps."""
    worker, steps = RunTrainable(config={"trial": trial.model_dump_json()}), 1
    while not (result := worker.step())["done"]:
        steps += 1
    worker.cleanup()
    return result, steps


def difficulties(cache: Path) -> dict[Path, int]:
    """When each table was written."""
    return {path: path.stat().st_mtime_ns for path in cache.glob("prepared/*/difficulty/*.parquet")}


def test_without_its_scorer_a_run_says_what_is_missing(world: World, place: Path) -> None:
    with pytest.raises(MissingDifficultyScoresError, match="no difficulties by BERT_loss from the scoring run"):
        ready(curricular(world, place, score="BERT_loss"))


def test_a_tested_run_asks_for_no_difficulty_unless_it_must_be_trained_again(world: World, place: Path) -> None:
    trial = ready(curricular(world, place, score="words_context"))
    finish(trial)
    shutil.rmtree(place / "prepared" / world.prepared.fingerprint / "difficulty")
    tested = finish(ready(trial.model_copy(update={"action": "test"})))
    assert not difficulties(place)
    shutil.rmtree(place / "stages")
    assert finish(ready(trial.model_copy(update={"action": "test"}))).weights_hash == tested.weights_hash
    assert difficulties(place)


def test_difficulties_of_a_scorer_are_the_same_in_every_cache(world: World, place: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(place / "prepared", other / "prepared")
    for cache in (place, other):
        keep(world, cache)
        keep(world, cache, "test")
    first, second = ({path.name: path.read_bytes() for path in difficulties(cache)} for cache in (place, other))
    assert len(first) == 4
    assert first == second


@pytest.mark.parametrize("split", ["dev", "test"])
def test_bert_scores_are_those_of_the_trained_model(world: World, place: Path, split: str) -> None:
    action = "test" if split == "test" else "train"
    keep(world, place, action)
    outcome = finish(RankerRun(scorer(world, place).model_copy(update={"action": action})))
    order = CurriculumSettings(score="BERT_loss", scorer=scorer(world, place).specification.id)
    table = kept.read_difficulties(place / "prepared" / world.prepared.fingerprint, order, "")
    found = table[table["split"] == split].set_index("query_id")["difficulty"]
    candidates = world.prepared.read_candidates(split).assign(score=outcome.scores)
    for query, own in candidates.groupby("query_id"):
        losses = np.log1p(np.exp(np.where(own["relevant"] == 1, -own["score"], own["score"])))
        relevant = own["relevant"].to_numpy() == 1
        wanted = (losses[relevant].mean() + losses[~relevant].mean()) / 2
        assert found[query] == pytest.approx(wanted, rel=1e-9)


def _order(trial: TrialSpec) -> CurriculumSettings:
    return trial.specification.curriculum
