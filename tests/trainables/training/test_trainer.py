"""A step of training is what the textbook says."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import nn
from transformers import AutoModel, get_linear_schedule_with_warmup

from tests.trainables.small import (
    BASELINE,
    BATCH_SIZE,
    BATCHES,
    LS,
    T_WSLS,
    TRAINING,
    WSLS,
    Fresh,
    World,
    batch,
    finish,
    fresh_model,
    ids_batch,
    job,
    padded,
)
from trainables.models.packing import PackedBatch
from trainables.rankers.ranker_run import RankerData, RankerRun
from trainables.rankers.ranker_trainer import RankerTrainer
from trainables.specs.checkpoint_chain import Checkpoint, Segment
from trainables.specs.ranker import LabelSmoothing, RankerTrainingSettings
from trainables.training.frozen_features import make_token_batch
from trainables.training.trainer import learning_rate_factor


def plain_logits(base: nn.Module, head: nn.Module, batch: PackedBatch, kinds: int, padding: int) -> torch.Tensor:
    """Returns the logits of transformers' own forward pass."""
    inputs = padded(batch)
    inputs["token_type_ids"] = inputs["token_type_ids"].clamp(max=kinds - 1)
    inputs["input_ids"][inputs["attention_mask"] == 0] = padding
    logits: torch.Tensor = head(base(**inputs).pooler_output)
    return logits


DECAYING = LabelSmoothing(distribution="weak_supervision", schedule="linear", epsilon=0.3, end=0.5)


@pytest.mark.parametrize(
    ("family", "variant"), [("bert", BASELINE), ("roberta", LS), ("bert", WSLS), ("roberta", DECAYING)], ids=str
)
def test_training_is_a_plain_loop_in_torch(world: World, fresh: Fresh, family: str, variant: LabelSmoothing) -> None:
    path = world.bert if family == "bert" else world.roberta
    settings = {"dropout": 0.0, "head_learning_rate": 5e-3, "weight_decay": 0.1}
    run = RankerRun(job(world, fresh(), variant, path=path, gradient_norm=0.1, decay="linear", warmup=0.5, **settings))
    trainer = run.trainer

    base = AutoModel.from_pretrained(path, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    head = nn.Linear(32, 2)
    head.load_state_dict(trainer.model.head.state_dict())
    assert trainer.model.pooler is not None
    parameters = [*base.parameters(), *head.parameters()]
    groups = [{"params": list(base.parameters()), "lr": 1e-3}, {"params": list(head.parameters()), "lr": 5e-3}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5 if step in (0, 3) else 1.0)
    table = world.prepared.read_candidates("train")
    labels, weak = table["relevant"].to_numpy(), table["weak_label"].to_numpy(dtype=float)
    tokens = run.data.tokens

    losses = []
    for step in range(BATCHES):
        rows = batch(1, step, np.ones(len(table) // 5, int), 5, BATCH_SIZE, 3)
        pairs = make_token_batch(tokens, rows)
        logits = plain_logits(base, head, pairs, trainer.model.token_types, base.config.pad_token_id)
        log_probabilities = torch.log_softmax(logits, dim=1)
        loss = torch.zeros(())
        for place, row in enumerate(rows):
            smooth = 0.5 if variant.distribution == "uniform" or labels[row] else weak[row]
            epsilon = [0.3, 0.15, 0.0, 0.0][step] if variant == DECAYING else variant.epsilon
            target = (1 - epsilon) * labels[row] + epsilon * smooth
            loss = loss - (target * log_probabilities[place, 1] + (1 - target) * log_probabilities[place, 0])
        loss = loss / len(rows)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 0.1)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())

    outcome = finish(run)
    found = [row["train/loss"] for row in outcome.history if "train/loss" in row]
    np.testing.assert_allclose(found, losses, rtol=0, atol=1e-6)
    rates = [row["train/learning_rate"] for row in outcome.history if "train/loss" in row]
    np.testing.assert_allclose(rates, [5e-4, 1e-3, 1e-3, 5e-4])
    trained = trainer.model
    expected = [*base.embeddings.parameters(), *base.encoder.parameters(), *base.pooler.parameters()]
    mine = [*trained.embeddings.parameters(), *trained.upper.parameters(), *trained.pooler.parameters()]
    for one, other in zip([*mine, *trained.head.parameters()], [*expected, *head.parameters()], strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=0, atol=1e-6)


class SamePairs:
    """The same pairs for every question."""

    lengths = np.full(1000, 12)

    def read(self, rows: np.ndarray) -> PackedBatch:
        return ids_batch([12] * len(rows), [5] * len(rows))


def constant_trainer(world: World, dropout: float, rate: float) -> RankerTrainer:
    """Sees the same eight pairs in every batch."""
    settings = RankerTrainingSettings.model_validate(TRAINING | {"learning_rate": rate, "dropout": dropout})
    return RankerTrainer(fresh_model(world.bert), settings, 1, SamePairs())


def test_dropout_is_drawn_again_at_every_step(world: World, fresh: Fresh) -> None:
    pairs = RankerData(job(world, fresh())).select_pairs("train")
    whole = Segment(0, BATCHES * BATCH_SIZE, BASELINE)
    losses = {}
    for dropout in (0.0, 0.3):
        trainer = constant_trainer(world, dropout, rate=1e-12)
        trainer.train(whole, whole.stop, pairs)
        losses[dropout] = {row["train/loss"] for row in trainer.history}
    assert len(losses[0.0]) == 1
    assert len(losses[0.3]) == BATCHES


def test_dropout_depends_on_the_step_and_not_on_what_was_drawn_before(world: World, fresh: Fresh) -> None:
    pairs = RankerData(job(world, fresh())).select_pairs("train")
    whole = Segment(0, BATCHES * BATCH_SIZE, BASELINE)
    first = constant_trainer(world, 0.3, 1e-3)
    first.train(whole, 2 * BATCH_SIZE, pairs)
    state = first.make_checkpoint(final=False)
    state = Checkpoint(state.instances, {name: value.clone() for name, value in state.tensors.items()}, state.history)
    torch.rand(1234)
    first.train(whole, whole.stop, pairs)
    second = constant_trainer(world, 0.3, 1e-3)
    second.restore(state)
    second.train(whole, whole.stop, pairs)
    assert second.hash_weights() == first.hash_weights()
    assert second.history == first.history


def test_bf16_trains_to_a_finite_loss_near_that_of_fp32(world: World, fresh: Fresh) -> None:
    losses = {}
    for precision in ("fp32", "bf16"):
        outcome = finish(job(world, fresh(), T_WSLS, dropout=0.0, precision=precision))
        losses[precision] = [row["train/loss"] for row in outcome.history if "train/loss" in row]
        assert np.isfinite(outcome.scores).all()
    assert losses["bf16"] != losses["fp32"]
    np.testing.assert_allclose(losses["bf16"], losses["fp32"], atol=0.02)


def test_a_loss_that_is_not_finite_ends_the_run(world: World, fresh: Fresh) -> None:
    run = RankerRun(job(world, fresh()))
    with torch.no_grad():
        run.trainer.model.head.bias[0] = torch.inf
    with pytest.raises(FloatingPointError, match="the loss is nan after 0 instances"):
        run.advance()


@pytest.mark.parametrize(
    ("seen", "warmup", "decay", "expected"),
    [
        (90, 0.0, "constant", 1.0),
        (90, 0.0, "linear", 0.1),
        (0, 0.2, "constant", 0.5),
        (20, 0.2, "constant", 1.0),
        (0, 0.2, "linear", 0.5),
        (10, 0.2, "linear", 1.0),
        (60, 0.2, "linear", 0.5),
        (90, 0.2, "linear", 0.125),
        (0, 1.0, "linear", 0.1),
        (90, 1.0, "linear", 1.0),
    ],
)
def test_the_learning_rate_by_hand(seen: int, warmup: float, decay: str, expected: float) -> None:
    settings = RankerTrainingSettings.model_validate(
        {"instances": 100, "batch_size": 10, "warmup": warmup, "decay": decay}
    )
    assert learning_rate_factor(seen, settings) == pytest.approx(expected)


def test_without_warmup_the_linear_decay_is_that_of_transformers() -> None:
    """The schedule of the authors' code."""
    settings = RankerTrainingSettings.model_validate({"instances": 96, "batch_size": 4, "decay": "linear"})
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(()))], lr=1.0)
    schedule = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=0, num_training_steps=24)
    for step in range(24):
        assert learning_rate_factor(4 * step, settings) == pytest.approx(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    assert schedule.get_last_lr() == [0.0]
    assert learning_rate_factor(96, settings) == 0.0


@given(st.integers(1, 60), st.integers(2, 40), st.floats(0, 1), st.sampled_from(["constant", "linear"]))
@example(48, 32, 0.1, "linear")
@example(10, 10, 0.85, "linear")
def test_the_learning_rate_rises_then_falls_within_its_bounds(
    batches: int, batch_size: int, warmup: float, decay: str
) -> None:
    settings = RankerTrainingSettings.model_validate(
        {"instances": batches * batch_size, "batch_size": batch_size, "warmup": warmup, "decay": decay}
    )
    factors = [learning_rate_factor(step * batch_size, settings) for step in range(batches)]
    assert all(0 < factor <= 1 for factor in factors)
    warm = sum((step + 1) * batch_size <= warmup * settings.instances for step in range(batches))
    assert all(before < after for before, after in pairwise(factors[:warm]))
    assert all(before >= after for before, after in pairwise(factors[warm:]))
    if decay == "constant":
        assert set(factors[warm:]) <= {1}
