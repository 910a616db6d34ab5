"""A run's bits follow from its specification alone, however it is cut, forked, stopped or shared."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trainables import encoders
from tests.trainables.data.library import tiny_settings
from tests.trainables.deaths import same
from tests.trainables.small import (
    BASELINE,
    BATCH_SIZE,
    BATCHES,
    FROZEN,
    LS,
    T_LS,
    T_WSLS,
    TRAINING,
    WSLS,
    Fresh,
    World,
    finish,
    job,
)
from trainables.data.ranking_preparation import prepare_data
from trainables.models.cross_encoder import PackedBatch
from trainables.models.precision import Precision
from trainables.rankers.ranker_run import RankerData, RankerRun
from trainables.rankers.ranker_trainer import Pairs, RankerTrainer
from trainables.specs.ranker import LabelSmoothing

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("kind", ["ranker", pytest.param("encoder", marks=pytest.mark.long)])
def test_another_process_trains_the_same_weights(kind: str, request: pytest.FixtureRequest) -> None:
    if kind == "ranker":
        world, fresh = (request.getfixturevalue(name) for name in ("world", "fresh"))
        here, there = (job(world, fresh(), T_WSLS) for _ in range(2))
    else:
        own = request.getfixturevalue("encoders")
        here, there = (encoders.job(own, own.fresh(), encoders.T_GS) for _ in range(2))
    code = (
        "import sys; from tests.trainables.small import TrialSpec, finish\n"
        "outcome = finish(TrialSpec.model_validate_json(sys.argv[1]))\n"
        "print(outcome.weights_hash, outcome.metric)"
    )
    expected = finish(here)
    environment = os.environ | {"PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "2", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, there.model_dump_json()]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert result.stdout.split() == [expected.weights_hash, repr(expected.metric)]


EARLY, LATE = (WSLS, T_WSLS, BATCH_SIZE), (LS, T_LS, 2 * BATCH_SIZE)
"""A constant schedule, one that forks from it, and where."""


@pytest.mark.parametrize(
    ("fork", "model", "training"),
    [
        (LATE, None, {}),
        (EARLY, FROZEN, {}),
        (EARLY, FROZEN, {"unit": "pair"}),
        (LATE, FROZEN, {"unit": "pair", "sampling": "uniform"}),
    ],
    ids=["all layers", "frozen", "pairs", "drawn pairs"],
)
def test_a_fork_is_the_run_from_scratch(
    world: World,
    fresh: Fresh,
    fork: tuple[LabelSmoothing, LabelSmoothing, int],
    model: dict[str, Any] | None,
    training: dict[str, Any],
) -> None:
    shared, (whole, forked, switch) = fresh(), fork
    constant = finish(job(world, shared, whole, model, **training))
    found = finish(job(world, shared, forked, model, **training))
    scratch = finish(job(world, fresh(), forked, model, **training))
    assert (found.instances_reused, found.instances_trained) == (switch, BATCHES * BATCH_SIZE - switch)
    assert (scratch.instances_reused, scratch.instances_trained) == (0, BATCHES * BATCH_SIZE)
    assert len(found.checkpoints_reused) == 1
    assert same(found, scratch)
    assert found.weights_hash != constant.weights_hash


@pytest.mark.parametrize(("variant", "unit"), [(LS, "query"), (T_WSLS, "pair")], ids=["LS", "T-WSLS of pairs"])
def test_a_run_that_is_stopped_and_taken_up_again_ends_the_same(
    world: World, fresh: Fresh, variant: LabelSmoothing, unit: str
) -> None:
    whole = finish(job(world, fresh(), variant, unit=unit))
    stops = 0
    while True:
        trial = job(world, fresh(), variant, unit=unit)
        stopped = RankerRun(trial)
        if any(stopped.advance() for _ in range(stops)):
            break
        again = finish(trial)
        assert same(again, whole)
        assert again.instances_trained + again.instances_resumed == TRAINING["instances"]
        stops += 1
    assert stops >= 3


def test_a_finished_run_is_not_trained_again_but_tested(world: World, fresh: Fresh) -> None:
    cache = fresh()
    trained = finish(job(world, cache, LS))
    again = finish(job(world, cache, LS))
    tested = finish(job(world, cache, LS, action="test"))
    assert again.instances_trained == tested.instances_trained == 0
    assert trained.weights_hash == again.weights_hash == tested.weights_hash
    np.testing.assert_array_equal(trained.scores, again.scores)
    assert (trained.split, tested.split) == ("dev", "test")
    counts = world.prepared.read_candidates().groupby("split").size()
    assert (len(trained.scores), len(tested.scores)) == (counts["dev"], counts["test"])


def test_evaluating_at_other_times_or_remembering_less_changes_no_bit(world: World, fresh: Fresh) -> None:
    often = finish(job(world, fresh(), T_LS, evaluations=BATCHES))
    seldom = finish(job(world, fresh(), T_LS, fork_points=(), evaluations=1))
    spaced = finish(job(world, fresh(), T_LS, evaluation_steps=3))
    assert often.weights_hash == seldom.weights_hash == spaced.weights_hash
    points = [[row["instances"] for row in run.history if "dev/R5@1" in row] for run in (often, spaced)]
    assert points == [[BATCH_SIZE * (step + 1) for step in range(BATCHES)], [3 * BATCH_SIZE, BATCHES * BATCH_SIZE]]


def test_a_damaged_state_is_trained_again(world: World, fresh: Fresh) -> None:
    cache = fresh()
    whole = finish(job(world, cache, LS))
    for path in (cache / "stages").glob("*/state.safetensors"):
        os.truncate(path, path.stat().st_size // 2)
    again = finish(job(world, cache, LS))
    assert (again.weights_hash, again.instances_reused) == (whole.weights_hash, 0)


def test_seeds_and_variants_train_different_weights(world: World, fresh: Fresh) -> None:
    cache = fresh()
    runs = [*((variant, 1) for variant in (BASELINE, LS, T_LS, WSLS, T_WSLS)), (BASELINE, 2), (T_WSLS, 2)]
    found = {finish(job(world, cache, variant, seed=seed)).weights_hash for variant, seed in runs}
    assert len(found) == len(runs)


def test_no_instances_are_the_fresh_model(world: World, fresh: Fresh) -> None:
    untrained = finish(job(world, fresh(), instances=0))
    run = RankerRun(job(world, fresh()))
    assert untrained.weights_hash == run.trainer.hash_weights()
    assert (untrained.instances_trained, untrained.history) == (0, [])


def test_the_history_has_a_row_a_batch_and_an_evaluation(world: World, fresh: Fresh) -> None:
    history = finish(job(world, fresh(), T_LS)).history
    steps = [row for row in history if "train/loss" in row]
    assert [row["instances"] for row in steps] == [BATCH_SIZE * (step + 1) for step in range(BATCHES)]
    assert [row["train/epsilon"] for row in steps] == [0.2, 0.2, 0, 0]
    assert [row["instances"] for row in history if "dev/R5@1" in row] == [2 * BATCH_SIZE, 4 * BATCH_SIZE]
    assert all(before["instances"] <= after["instances"] for before, after in pairwise(history))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"precision": "bf16"}, {"dev": "bf16", "test": "fp32"}),
        ({"precision": "fp32", "evaluation_precision": "bf16"}, {"dev": "fp32", "test": "bf16"}),
    ],
)
def test_each_split_is_scored_in_its_precision(
    world: World, fresh: Fresh, settings: dict[str, str], expected: dict[str, Precision]
) -> None:
    trial = job(world, fresh(), T_LS, **settings)
    outcomes = {"dev": finish(trial), "test": finish(trial.model_copy(update={"action": "test"}))}
    run = RankerRun(trial)
    finish(run)
    for split, precision in expected.items():
        pairs = run.data.select_pairs(split)
        precisions: tuple[Precision, Precision] = ("fp32", "bf16")
        scores = {name: run.trainer.score_pairs(pairs, name) for name in precisions}
        assert not np.array_equal(scores["fp32"], scores["bf16"])
        np.testing.assert_array_equal(outcomes[split].scores, scores[precision])


@pytest.mark.parametrize("queries", [4, 100])
def test_nothing_but_training_pairs_is_read_before_an_evaluation(
    world: World, fresh: Fresh, monkeypatch: pytest.MonkeyPatch, queries: int
) -> None:
    """However few there are: dev and test pairs follow right after them in the same table."""
    monkeypatch.syspath_prepend(world.cache.parent / "site")
    small = world._replace(prepared=prepare_data(tiny_settings(train_queries=queries), world.cache))
    trial, read = job(small, fresh(), model={"pooling": "cosine"}, evaluations=1), []
    take = RankerData.read

    def watched(data: RankerData, rows: np.ndarray) -> PackedBatch:
        read.extend(rows.tolist())
        return take(data, rows)

    monkeypatch.setattr(RankerData, "read", watched)
    run = RankerRun(trial)
    assert run.advance() is None
    before_evaluation = read[: -len(run.data.select_pairs("dev").relevant)]
    assert before_evaluation
    assert set(run.data.frame["split"].iloc[before_evaluation]) == {"train"}


@pytest.mark.parametrize("split", ["dev", "test"])
def test_scores_that_are_not_finite_fail_the_run(
    world: World, fresh: Fresh, monkeypatch: pytest.MonkeyPatch, split: str
) -> None:
    trial = job(world, fresh())
    if split == "test":
        finish(trial)
        trial = trial.model_copy(update={"action": "test"})
    whole = RankerTrainer.score_pairs

    def broken(self: RankerTrainer, pairs: Pairs, precision: Precision) -> np.ndarray:
        scores = whole(self, pairs, precision)
        scores[:3] = [float("nan"), float("inf"), -float("inf")]
        return scores

    monkeypatch.setattr(RankerTrainer, "score_pairs", broken)
    with pytest.raises(FloatingPointError, match=rf"3 of \d+ {split} scores are not finite after \d+ instances"):
        finish(trial)
