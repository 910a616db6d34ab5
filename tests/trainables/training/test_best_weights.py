"""A run that ends with its best evaluation has that evaluation's bits, however it is cut, forked, killed or shared."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from safetensors.torch import load_file

from tests.trainables.deaths import kill_after_each_batch, same
from tests.trainables.processes import begin
from tests.trainables.small import (
    BASELINE,
    BATCH_SIZE,
    BATCHES,
    FORK_POINTS,
    FROZEN,
    LS,
    T_LS,
    Fresh,
    World,
    finish,
    job,
)
from trainables.metrics import LOWER_IS_BETTER
from trainables.models.precision import Precision
from trainables.rankers.ranker_run import RankerRun
from trainables.rankers.ranker_trainer import Pairs, RankerTrainer
from trainables.specs.checkpoint_chain import BestEvaluation, checkpoint_key
from trainables.specs.ranker import LabelSmoothing
from trainables.specs.trial import TrialResult, TrialSpec

TOTAL = BATCHES * BATCH_SIZE
RISE_AND_FALL = {"learning_rate": 1e-2, "seed": 1}
"""The tiny model is best after two of its four batches."""
LATE = T_LS.model_copy(update={"switch": 0.75})
"""Forks after that."""


class Evaluation(NamedTuple):
    """An evaluation in the middle of a run that ends with its last weights."""

    seen: int
    weights: str
    dev: np.ndarray
    test: np.ndarray
    value: float


def evaluations(trial: TrialSpec, metric: str) -> tuple[list[Evaluation], TrialResult]:
    """Every one of them, and the run's end."""
    run, found = RankerRun(trial), []
    while (outcome := run.advance()) is None:
        trainer, dev, test = run.trainer, run.data.select_pairs("dev"), run.data.select_pairs("test")
        scores = trainer.score_pairs(dev)
        value = run.data.get_evaluated("dev").compute_metric(metric, scores)
        found.append(
            Evaluation(trainer.instances_seen, trainer.hash_weights(), scores, trainer.score_pairs(test), value)
        )
    return found, outcome


def chosen(world: World, cache: Any, variant: LabelSmoothing = BASELINE, **settings: Any) -> TrialSpec:
    """A run that ends with its best evaluation out of one a batch."""
    return job(world, cache, variant, **{"checkpoint": "MAP", "evaluations": BATCHES, **RISE_AND_FALL, **settings})


@pytest.mark.parametrize(("metric", "model"), [("MAP", FROZEN), ("MAP", None), (min(LOWER_IS_BETTER), None)])
def test_a_run_ends_with_its_best_evaluation(
    world: World, fresh: Fresh, metric: str, model: dict[str, Any] | None
) -> None:
    cache = fresh()
    trial = chosen(world, cache, model=model, checkpoint=metric)
    outcome = finish(trial)
    tested = finish(trial.model_copy(update={"action": "test"}))
    every, last = evaluations(chosen(world, fresh(), model=model, checkpoint="last"), metric)
    assert [one.seen for one in every] == [BATCH_SIZE * (step + 1) for step in range(BATCHES)]
    pick: Callable[..., Evaluation] = min if metric in LOWER_IS_BETTER else max
    best = pick(every, key=lambda one: one.value)  # the first of several
    assert outcome.best_evaluation == tested.best_evaluation == BestEvaluation(best.seen, best.value)
    assert outcome.weights_hash == tested.weights_hash == best.weights
    np.testing.assert_array_equal(outcome.scores, best.dev)
    np.testing.assert_array_equal(tested.scores, best.test)
    assert outcome.metric == RankerRun(trial).data.get_evaluated("dev").compute_metric("R5@1", best.dev)
    assert (last.best_evaluation, last.weights_hash) == (None, every[-1].weights)
    assert [row[f"dev/{metric}"] for row in outcome.history if f"dev/{metric}" in row] == [one.value for one in every]
    own = {"instances", "train/loss", "train/learning_rate", "train/epsilon", "dev/R5@1"}
    assert [{key: row[key] for key in own & row.keys()} for row in outcome.history] == last.history


def test_no_evaluation_is_computed_twice(world: World, fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, whole = 0, RankerTrainer.score_pairs

    def counted(trainer: RankerTrainer, pairs: Pairs, precision: Precision) -> np.ndarray:
        nonlocal calls
        calls += 1
        return whole(trainer, pairs, precision)

    monkeypatch.setattr(RankerTrainer, "score_pairs", counted)
    finish(chosen(world, fresh()))
    assert calls == BATCHES


def test_of_equal_evaluations_the_earliest_counts(world: World, fresh: Fresh) -> None:
    trial = chosen(world, fresh(), learning_rate=1e-9)
    outcome = finish(trial)
    assert len({row["dev/MAP"] for row in outcome.history if "dev/MAP" in row}) == 1
    assert outcome.best_evaluation.instances == BATCH_SIZE
    assert (
        outcome.weights_hash
        == evaluations(chosen(world, fresh(), learning_rate=1e-9, checkpoint="last"), "MAP")[0][0].weights
    )


@pytest.mark.parametrize(("variant", "parts"), [(BASELINE, 2), (LATE, BATCHES)], ids=["between evaluations", "at each"])
def test_a_run_that_is_killed_after_any_batch_ends_the_same(
    world: World, fresh: Fresh, variant: LabelSmoothing, parts: int
) -> None:
    whole = finish(chosen(world, fresh(), variant, evaluations=parts))
    assert whole.best_evaluation.instances < TOTAL

    def make() -> TrialSpec:
        return chosen(world, fresh(), variant, fork_points=(), evaluations=parts, interval=0.0)

    assert kill_after_each_batch(make, whole, TOTAL) == BATCHES - 1


@pytest.mark.long
def test_a_run_with_a_killed_process_ends_the_same(world: World, fresh: Fresh) -> None:
    settings: dict[str, Any] = {"instances": 60 * BATCH_SIZE, "evaluations": 20}
    whole = finish(chosen(world, fresh(), **settings))
    trial = chosen(world, fresh(), **settings, interval=0.0)
    (process,) = begin(trial)
    process.wait(lambda: process.seen.value > 30 * BATCH_SIZE)
    process.kill()
    again = finish(trial)
    assert same(again, whole)
    assert again.instances_resumed >= 30 * BATCH_SIZE


@pytest.mark.parametrize("forked", [T_LS, LATE], ids=["at 0.5", "at 0.75"])
def test_a_fork_knows_the_best_of_the_shared_part(world: World, fresh: Fresh, forked: LabelSmoothing) -> None:
    shared, seed = fresh(), 2
    constant = finish(chosen(world, shared, LS, seed=seed))
    fork = finish(chosen(world, shared, forked, seed=seed))
    scratch = finish(chosen(world, fresh(), forked, seed=seed))
    cut = int(forked.switch * TOTAL)
    assert (fork.instances_reused, scratch.instances_reused) == (cut, 0)
    assert same(fork, scratch)
    assert fork.best_evaluation.instances <= cut  # or else this tests nothing
    assert fork.weights_hash == constant.weights_hash
    assert fork.history != constant.history


def test_a_run_that_is_overtaken_ends_the_same(world: World, fresh: Fresh) -> None:
    trial = chosen(world, fresh(), LS)
    slow = RankerRun(trial)
    slow.advance()
    fast = finish(trial)
    assert same(finish(slow), fast)


@pytest.mark.parametrize("checkpoint", ["MAP", "last"])
def test_a_state_holds_the_best_weights_where_they_are_not_its_own(world: World, fresh: Fresh, checkpoint: str) -> None:
    trial = chosen(world, fresh(), LS, checkpoint=checkpoint)
    outcome = finish(trial)
    kinds = {}
    for stop in (*FORK_POINTS, TOTAL):
        key = checkpoint_key(trial.specification, stop)
        tensors = load_file(trial.cache / "stages" / key / "state.safetensors")
        kinds[stop] = {name.partition("/")[0] for name in tensors}
    moments = {"step", "exp_avg", "exp_avg_sq"}
    assert all(kinds[stop] - {"best"} == {"weights", *moments} for stop in FORK_POINTS)
    assert kinds[TOTAL] == {"weights"}
    holding = [stop for stop in FORK_POINTS if "best" in kinds[stop]]
    best = outcome.best_evaluation.instances if outcome.best_evaluation else TOTAL
    assert best in (2 * BATCH_SIZE, TOTAL)
    assert holding == [stop for stop in FORK_POINTS if stop > best]


def test_one_evaluation_is_the_last(world: World, fresh: Fresh) -> None:
    only = finish(chosen(world, fresh(), evaluations=1))
    last = finish(chosen(world, fresh(), evaluations=1, checkpoint="last"))
    assert (only.weights_hash, only.metric) == (last.weights_hash, last.metric)
    assert only.best_evaluation.instances == TOTAL


def test_a_run_without_instances_has_nothing_to_choose(world: World, fresh: Fresh) -> None:
    untrained = finish(chosen(world, fresh(), instances=0))
    assert untrained.best_evaluation is None
    assert untrained.weights_hash == finish(chosen(world, fresh(), instances=0, checkpoint="last")).weights_hash
