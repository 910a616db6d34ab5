"""Runs over retrieved candidates: their metrics are those of ir_measures over the run and all qrels."""

from pathlib import Path

import ir_measures
import numpy as np
import pandas as pd
import pytest

from tests.trainables.data import fixtures
from tests.trainables.data.test_first_stage import SPLITS, write_collection
from tests.trainables.small import FROZEN, World, finish, job
from trainables.data.ranking_preparation import prepare_data
from trainables.metrics import expected_calibration_error
from trainables.rankers import ranker_backend, ranker_run
from trainables.rankers.ranker_run import RankerData
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.specs.trial import TrialSpec

METRICS = {"nDCG@10": "nDCG@10", "MAP": "AP(rel=2)", "MRR@10": "RR(rel=2)@10", "R@3": "R(rel=2)@3", "P@3": "P(rel=2)@3"}


@pytest.fixture(scope="module")
def retrieved(world: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    """The tiny models and a collection with a run of 3 to 12 documents a query, and none for the last."""
    place = tmp_path_factory.mktemp("retrieved")
    folder = write_collection(place / "collection")
    numbers = [*SPLITS["dev"], *SPLITS["test"]][:-1]
    lines = [f"q{i} Q0 d{(i + j) % 60} 1 {-j} tag" for i in numbers for j in range(3 + i % 10)]
    run = fixtures.write_lines(place / "first.run", lines)
    values = {"name": "beir", "path": str(folder), "candidates": 5, "relevant_from": 2, "candidates_run": str(run)}
    prepared = prepare_data(RankerTaskSettings.model_validate({**values, "depth": 10}), place / "cache")
    return world._replace(prepared=prepared)


def evaluate_with_ir_measures(scores: pd.DataFrame, metric: str) -> float:
    """The oracle reads the qrels of the collection, not what the trial returns of them."""
    qrels = {f"q{i}": {f"d{i}": 2, f"far{i}": 1, f"d{i + 10}": 0} for i in SPLITS[scores.attrs["split"]]}
    found = scores[scores["score"] > -np.inf]
    run = {
        query: dict(zip(own["document_id"], own["score"].astype(float), strict=True))
        for query, own in found.groupby("query_id")
    }
    measure = ir_measures.parse_measure(METRICS[metric])
    return float(ir_measures.calc_aggregate([measure], qrels, run)[measure])


def score(trial: TrialSpec) -> tuple[float, pd.DataFrame]:
    outcome = finish(trial)
    frame = ranker_backend.load_scored_pairs(trial, outcome.split).assign(score=outcome.scores)
    frame.attrs["split"] = outcome.split
    return outcome.metric, frame


@pytest.mark.parametrize("action", ["train", "test"])
def test_the_metrics_are_those_of_ir_measures(retrieved: World, tmp_path: Path, action: str) -> None:
    trial = job(retrieved, retrieved.fresh_cache(tmp_path), action=action).model_copy(update={"metric": "nDCG@10"})
    value, frame = score(trial)
    assert value == pytest.approx(evaluate_with_ir_measures(frame, "nDCG@10"), abs=1e-12)
    split = frame.attrs["split"]
    evaluated = RankerData(trial).get_evaluated(split)
    for metric in METRICS:
        own = evaluated.compute_metric(metric, frame["score"].to_numpy())
        assert own == pytest.approx(evaluate_with_ir_measures(frame, metric), abs=1e-12)
        assert 0 < own < 1
    assert set(frame["query_id"]) == {f"q{i}" for i in SPLITS[split]}
    assert (frame["score"] == -np.inf).sum() > 0


def test_the_first_stage_is_evaluated_in_its_own_order(retrieved: World, tmp_path: Path) -> None:
    trial = job(retrieved, retrieved.fresh_cache(tmp_path)).model_copy(update={"metric": "nDCG@10"})
    reference = trial.specification.model_copy(
        update={"system": "sampler", "model": None, "training": None, "seed": None, "environment": None}
    )
    value, frame = score(trial.model_copy(update={"specification": reference}))
    assert value == pytest.approx(evaluate_with_ir_measures(frame, "nDCG@10"), abs=1e-12)
    first = frame[frame["query_id"] == "q12"]["score"]
    assert first[first > -np.inf].tolist() == [-j for j in range(5)]


def test_calibration_is_that_of_the_candidates(retrieved: World, tmp_path: Path) -> None:
    trial = job(retrieved, retrieved.fresh_cache(tmp_path)).model_copy(update={"metric": "MAP"})
    _, frame = score(trial)
    found = frame[frame["score"] > -np.inf]
    expected = expected_calibration_error(found["score"].to_numpy(), found["relevant"].to_numpy())
    assert ranker_backend.compute_extra_metrics(trial, frame["score"].to_numpy(), frame)["ECE"] == expected


def test_many_retrieved_pairs_are_scored_without_being_stored(
    retrieved: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(name: str) -> tuple[np.ndarray, int]:
        cache = tmp_path / name
        (cache / "prepared").mkdir(parents=True)
        (cache / "prepared" / retrieved.prepared.fingerprint).symlink_to(retrieved.prepared.folder)
        trial = job(retrieved, cache, model=FROZEN).model_copy(update={"metric": "MAP"})
        return finish(trial).scores, RankerData(trial).features.n_stored

    (stored, n_all), n_pairs = run("stored"), len(retrieved.prepared.read_candidates())
    monkeypatch.setattr(ranker_run, "_MAX_RETRIEVED_TOKENS", 100)
    (computed, n_train), (again, _) = run("computed"), run("again")
    assert (n_all, n_train) == (n_pairs, len(retrieved.prepared.read_candidates("train")))
    np.testing.assert_array_equal(computed, again)
    np.testing.assert_allclose(computed, stored, rtol=0, atol=1e-5)
