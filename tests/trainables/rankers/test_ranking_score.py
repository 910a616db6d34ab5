"""Candidates ranked by one logit: the scores are that logit, and nothing else of a run changes."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from tests.trainables.small import FROZEN, T_WSLS, Fresh, World, finish, job
from trainables.metrics import recall_at
from trainables.rankers import ranker_backend
from trainables.rankers.ranker_backend import save_difficulty_scores
from trainables.rankers.ranker_run import RankerRun

SINGLE = {"ranking_score": "relevant_logit"}


def compute_logits(run: RankerRun, split: str) -> np.ndarray:
    """The logits of the final model for each pair alone, shape (pairs, 2)."""
    pairs = run.data.select_pairs(split)
    rows = pairs.first_row + np.arange(len(pairs.relevant))
    with torch.inference_mode():
        return torch.cat([run.trainer.model(run.data.read(row[None])) for row in rows]).double().numpy()


@pytest.mark.parametrize(("model", "action"), [({}, "train"), (FROZEN, "test")], ids=["cls", "cosine, frozen"])
def test_scores_are_the_second_logit_of_the_model(
    world: World, fresh: Fresh, model: dict[str, object], action: str
) -> None:
    run = RankerRun(job(world, fresh(), T_WSLS, {**model, **SINGLE}, action=action))
    result = finish(run)
    logits = compute_logits(run, result.split)
    np.testing.assert_allclose(result.scores, logits[:, 1], rtol=1e-5, atol=1e-6)
    pairs = run.data.select_pairs(result.split)
    shape = (len(pairs.rows), -1)
    assert result.metric == recall_at(1, result.scores.reshape(shape), pairs.relevant.reshape(shape)).mean()


def test_the_default_is_the_difference_of_the_same_weights(world: World, fresh: Fresh) -> None:
    single, run = finish(job(world, fresh(), T_WSLS, SINGLE)), RankerRun(job(world, fresh(), T_WSLS))
    result = finish(run)
    logits = compute_logits(run, "dev")
    np.testing.assert_allclose(result.scores, logits[:, 1] - logits[:, 0], rtol=1e-5, atol=1e-6)
    assert result.weights_hash == single.weights_hash
    assert [row["train/loss"] for row in result.history if "train/loss" in row] == [
        row["train/loss"] for row in single.history if "train/loss" in row
    ]
    assert np.abs(result.scores - single.scores).max() > 1e-3


def test_runs_of_both_scores_share_no_learning_curve(world: World, fresh: Fresh) -> None:
    cache = fresh()
    finish(job(world, cache, T_WSLS))
    shared, alone = finish(job(world, cache, T_WSLS, SINGLE)), finish(job(world, fresh(), T_WSLS, SINGLE))
    assert shared.instances_reused == 0
    assert shared.history == alone.history


def test_calibration_is_measured_only_where_a_probability_follows(world: World, fresh: Fresh) -> None:
    frame = pd.DataFrame({"relevant": [1, 0]})
    scores, cache = np.array([1.0, -1.0]), fresh()
    assert ranker_backend.compute_extra_metrics(job(world, cache, T_WSLS), scores, frame).keys() == {"ECE"}
    assert ranker_backend.compute_extra_metrics(job(world, cache, T_WSLS, SINGLE), scores, frame) == {}


def test_difficulties_are_of_probabilities_with_any_ranking_score(world: World, tmp_path: Path) -> None:
    tables = []
    for name, model in (("difference", {}), ("single", SINGLE)):
        cache = tmp_path / name
        target = cache / "prepared" / world.prepared.fingerprint
        shutil.copytree(world.prepared.folder, target, ignore=shutil.ignore_patterns("difficulty"))
        trial = job(world, cache, model=model, fork_points=(), sampling="uniform").model_copy(
            update={"saves_difficulty": True}
        )
        finish(run := RankerRun(trial))
        for _ in save_difficulty_scores(run):
            pass
        tables.append([pd.read_parquet(path) for path in sorted((target / "difficulty").glob("BERT_*.parquet"))])
    assert len(tables[0]) == 2
    for first, second in zip(*tables, strict=True):
        pd.testing.assert_frame_equal(first, second)
