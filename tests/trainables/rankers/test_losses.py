"""Training with each loss: whole queries stay together, runs fork and resume, and the model ranks."""

import numpy as np
import pytest
import torch

from tests.trainables.small import BATCH_SIZE, BATCHES, Fresh, World, batch, finish, job
from trainables.losses import LOSSES
from trainables.losses.objective import Objective
from trainables.rankers.ranker_run import RankerRun
from trainables.specs.checkpoint_chain import Segment, checkpoint_key
from trainables.specs.ranker import LabelSmoothing

TOTAL = BATCHES * BATCH_SIZE


def smoothed(loss: str, **settings: object) -> LabelSmoothing:
    return LabelSmoothing.model_validate({"loss": loss, "distribution": "uniform", "epsilon": 0.2, **settings})


@pytest.mark.parametrize("loss", LOSSES)
def test_the_reported_loss_is_that_of_the_batch_and_parts_have_its_gradient(
    world: World, fresh: Fresh, loss: str
) -> None:
    losses, gradients = [], []
    for tokens in (16, 100_000):
        run = RankerRun(job(world, fresh(), smoothed(loss), tokens_per_micro_batch=tokens, dropout=0.0))
        trainer, pairs = run.trainer, run._train_pairs
        if tokens == 16:
            rows = batch(1, 0, pairs.rows.n_relevant, 5, BATCH_SIZE, 3).reshape(-1, 4)
            with torch.inference_mode():
                logits = trainer.model(run.data.read(pairs.first_row + rows.reshape(-1))).view(*rows.shape, -1)
            objective, supervision = Objective(loss, "uniform"), pairs.get_supervision(rows)
            expected = objective.compute_sum(logits, supervision, 0.2) / objective.count_terms(supervision.labels)
        trainer.train(Segment(0, TOTAL, smoothed(loss)), BATCH_SIZE, pairs)
        losses.append(trainer.history[0]["train/loss"])
        parameters = trainer.model.trainable_parameters().values()  # the bias of the last keys has no gradient
        gradients.append([own.grad.clone() for own in parameters if own.grad is not None])
    assert losses == pytest.approx([expected.item()] * 2, rel=1e-5)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("loss", ["ranknet", "kl"])
def test_a_two_stage_run_starts_from_the_constant_one(world: World, fresh: Fresh, loss: str) -> None:
    cache = fresh()
    constant, switched = smoothed(loss), smoothed(loss, schedule="two_stage", switch=0.5)
    whole = finish(job(world, fresh(), switched))
    finish(job(world, cache, constant))
    forked = finish(job(world, cache, switched))
    assert (forked.weights_hash, forked.instances_reused) == (whole.weights_hash, TOTAL // 2)


@pytest.mark.parametrize("loss", LOSSES)
def test_no_smoothing_is_the_baseline_of_the_loss(world: World, fresh: Fresh, loss: str) -> None:
    cache = fresh()
    baseline = job(world, cache, LabelSmoothing(loss=loss)).specification
    for nothing in (smoothed(loss, epsilon=0), smoothed(loss, schedule="two_stage", switch=0)):
        assert job(world, cache, nothing).specification.id == baseline.id
    others = [job(world, cache, LabelSmoothing(loss=other)).specification for other in LOSSES if other != loss]
    assert baseline.id not in {other.id for other in others}
    assert checkpoint_key(baseline, TOTAL) not in {checkpoint_key(other, TOTAL) for other in others}


@pytest.mark.parametrize(("loss", "pooling"), [*((loss, "cosine") for loss in LOSSES), ("lce", "cls")])
def test_training_lowers_the_loss_and_the_score_ranks(world: World, fresh: Fresh, loss: str, pooling: str) -> None:
    settings = {"instances": 40 * BATCH_SIZE, "dropout": 0.0, "negatives": 1}
    trial = job(world, fresh(), LabelSmoothing(loss=loss), {"pooling": pooling}, **settings)
    run = RankerRun(trial)
    outcome = finish(run)
    rows = [row["train/loss"] for row in outcome.history if "train/loss" in row]
    assert np.mean(rows[-10:]) < np.mean(rows[:10])
    assert run.trainer.model.outputs == LOSSES[loss].outputs
    assert outcome.scores.shape == (len(run.data.select_pairs("dev").relevant),)
    pairs = run.data.select_pairs("train")
    learnt = pairs.scores if LOSSES[loss].is_distillation else pairs.relevant
    assert np.corrcoef(run.trainer.score_pairs(pairs), learnt)[0, 1] > 0
