"""A step of training is what the papers say, and an evaluation is a cosine a pair."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import nn
from transformers import AutoModel

from tests.trainables.encoders import BATCH_SIZE, BATCHES, FROZEN, GS, SIMCSE, T_GS, TOTAL, Encoders, job
from tests.trainables.small import finish, padded
from trainables.contrastive.loss import draw_noise, info_nce
from trainables.models.packing import PackedBatch
from trainables.sentence_encoders import encoder_trainer as encoder_training
from trainables.sentence_encoders.encoder_run import EncoderRun
from trainables.specs.sentence_encoder import NoiseSmoothing
from trainables.training.batching import sample_by_epoch

LINEAR = GS.model_copy(update={"schedule": "linear", "end": 0.5, "weight": 0.8})
HALF = GS.model_copy(update={"multiple": 0.3})


def plain(base: nn.Module, head: nn.Module | None, batch: PackedBatch, padding: int) -> torch.Tensor:
    """Embeddings as transformers and torch make them."""
    inputs = padded(batch)
    del inputs["token_type_ids"]
    inputs["input_ids"][inputs["attention_mask"] == 0] = padding
    hidden = base(**inputs).last_hidden_state
    if head is not None:
        return torch.tanh(head(hidden[:, 0]))
    mask = inputs["attention_mask"][:, :, None]
    return (hidden * mask).sum(1) / mask.sum(1)


@pytest.mark.parametrize(
    ("family", "pooling", "variant", "weights"),
    [
        ("bert", "cls", SIMCSE, [0, 0, 0, 0]),
        ("bert", "cls", GS, [1, 1, 1, 1]),
        ("bert", "mean", T_GS, [1, 1, 0, 0]),
        ("bert", "mean", LINEAR, [0.8, 0.4, 0, 0]),
        ("bert", "cls", HALF, [1] * 4),
        ("roberta", "cls", LINEAR, [0.8, 0.4, 0, 0]),
        ("roberta", "mean", GS, [1, 1, 1, 1]),
    ],
    ids=["SimCSE", "GS", "T-GS", "linear", "M = 2", "RoBERTa", "RoBERTa, mean"],
)
def test_training_is_plain_simcse_in_torch(
    encoders: Encoders,
    family: str,
    variant: NoiseSmoothing,
    weights: list[float],
    pooling: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a large epsilon, since Adam with a small one turns the rounding of gradients near 0 into whole steps."""
    monkeypatch.setattr("trainables.training.trainer._ADAM_EPSILON", 1e-3)
    path, temperature = encoders.path(family), 0.1
    settings = {"dropout": 0.0, "weight_decay": 0.1, "temperature": temperature}
    run = EncoderRun(job(encoders, encoders.fresh(), variant, {"pooling": pooling}, path, fork_points=(), **settings))
    base, model = AutoModel.from_pretrained(path, add_pooling_layer=False).eval(), run.trainer.model
    head = nn.Linear(32, 32) if pooling == "cls" else None
    if head is not None and model.head is not None:
        head.load_state_dict(model.head.state_dict())
    parameters = [*base.parameters(), *(head.parameters() if head else [])]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.1, eps=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / BATCHES)
    count, losses = len(encoders.prepared.read_sentences()), []
    for step, weight in enumerate(weights):
        batch = run.data.read(sample_by_epoch(1, step, count, BATCH_SIZE))
        first, second = (plain(base, head, batch, base.config.pad_token_id) for _ in range(2))
        strange = draw_noise(1, step, round(variant.multiple * BATCH_SIZE), 32)
        cosine = nn.functional.cosine_similarity
        views = (cosine(first[:, None], second[None], dim=2) / temperature).exp()
        strangers = (cosine(first[:, None], strange[None], dim=2) / temperature).exp().sum(1)
        loss = -(views.diagonal() / (views.sum(1) + weight * strangers)).log().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    outcome = finish(run)
    rows = [row for row in outcome.history if "train/loss" in row]
    np.testing.assert_allclose([row["train/loss"] for row in rows], losses, rtol=0, atol=1e-5)
    assert [row["train/weight"] for row in rows] == pytest.approx(weights)
    np.testing.assert_allclose([row["train/learning_rate"] for row in rows], [1e-3, 7.5e-4, 5e-4, 2.5e-4])
    mine = [*model.embeddings.parameters(), *model.upper.parameters(), *model.head_parameters().values()]
    for one, other in zip(mine, parameters, strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=0, atol=1e-5)


def test_noise_is_drawn_once_a_batch_and_never_without_weight(
    encoders: Encoders, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[torch.Tensor] = []
    used: list[torch.Tensor | None] = []

    def watched(*arguments: Any) -> torch.Tensor:
        drawn.append(draw_noise(*arguments))
        return drawn[-1]

    def loss(first: torch.Tensor, second: torch.Tensor, tau: float, strange: torch.Tensor | None, weight: float) -> Any:
        used.append(strange)
        return info_nce(first, second, tau, strange, weight)

    monkeypatch.setattr(encoder_training, "draw_noise", watched)
    monkeypatch.setattr(encoder_training, "info_nce", loss)
    finish(job(encoders, encoders.fresh(), GS))
    assert len(drawn) == len(used) == BATCHES
    assert all(torch.equal(one, other) for one, other in zip(drawn, used, strict=True) if other is not None)
    assert not any(one is None for one in used)
    assert [one.shape for one in drawn] == [(3 * BATCH_SIZE, 32)] * BATCHES
    assert len({one.numpy().tobytes() for one in drawn}) == BATCHES
    before, drawn[:], used[:] = [one.clone() for one in drawn], [], []
    finish(job(encoders, encoders.fresh(), T_GS))
    assert all(torch.equal(one, other) for one, other in zip(drawn, before, strict=False))
    assert len(drawn) == BATCHES // 2
    assert used[BATCHES // 2 :] == [None] * (BATCHES // 2)


@pytest.mark.parametrize(
    ("family", "model"),
    [("bert", {}), ("roberta", FROZEN), ("bert", {"pooling": "mean"})],
    ids=["cls", "frozen", "mean"],
)
def test_scores_are_cosines_of_embeddings_without_head_and_dropout(
    encoders: Encoders, family: str, model: dict[str, Any]
) -> None:
    path = encoders.path(family)
    run = EncoderRun(job(encoders, encoders.fresh(), GS, model, path))
    outcome = finish(run)
    sentences, found = run.data.tokens, []
    for one, other in zip(*sentences.get_pairs("dev"), strict=True):
        with torch.inference_mode():
            vectors = [run.trainer.model(run.data.read(np.array([row])))[0].double().numpy() for row in (one, other)]
        found.append(vectors[0] @ vectors[1] / np.linalg.norm(vectors[0]) / np.linalg.norm(vectors[1]))
    np.testing.assert_allclose(outcome.scores, found, rtol=0, atol=1e-6)
    gold = encoders.prepared.read_pairs("dev")["relevant"]
    assert outcome.metric == pytest.approx(100 * spearmanr(outcome.scores, gold).statistic, abs=1e-9)


def test_every_sentence_of_an_evaluation_is_encoded_once(encoders: Encoders, monkeypatch: pytest.MonkeyPatch) -> None:
    run, read = EncoderRun(job(encoders, encoders.fresh())), list[int]()
    take = type(run.data).read
    monkeypatch.setattr(type(run.data), "read", lambda data, rows: (read.extend(rows.tolist()), take(data, rows))[1])
    sentences = run.data.tokens
    first, second = sentences.get_pairs("test")
    scores = run.trainer.score_pairs(np.tile(first, 2), np.tile(second, 2))
    assert sorted(read) == sorted({*first.tolist(), *second.tolist()})
    assert (np.diff(sentences.lengths[read]) >= 0).all()
    np.testing.assert_array_equal(scores[: len(first)], scores[len(first) :])
    np.testing.assert_array_equal(run.trainer.score_pairs(second, first), scores[: len(first)])


def test_no_batch_holds_a_sentence_twice_and_what_an_epoch_leaves_out_changes(
    encoders: Encoders, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = len(encoders.prepared.read_sentences())
    run = EncoderRun(job(encoders, encoders.fresh(), instances=9 * 64, batch_size=64, evaluations=1, fork_points=()))
    read, take = list[list[int]](), type(run.data).read
    monkeypatch.setattr(type(run.data), "read", lambda data, rows: (read.append(rows.tolist()), take(data, rows))[1])
    finish(run)
    whole = [{*read[3 * epoch], *read[3 * epoch + 1], *read[3 * epoch + 2]} for epoch in range(3)]
    assert [len(set(batch)) for batch in read[:9]] == [64] * 9
    assert [len(seen) for seen in whole] == [3 * 64] * 3
    assert count - 3 * 64 == len({*range(count)} - whole[0]) > 0
    assert len({frozenset(seen) for seen in whole}) == 3


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_dropout_is_drawn_again_at_every_step(
    encoders: Encoders, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    """The same sentences in the same order every time, at next to no learning rate."""
    monkeypatch.setattr(encoder_training, "sample_batch", lambda seed, step, sentences, size: np.arange(size))
    losses = {}
    for rate in (0.0, 0.3):
        settings = {"dropout": rate, "learning_rate": 1e-12, "fork_points": (), "precision": precision}
        history = finish(job(encoders, encoders.fresh(), **settings)).history
        losses[rate] = {row["train/loss"] for row in history if "train/loss" in row}
    assert len(losses[0.0]) == 1
    assert len(losses[0.3]) == BATCHES
    assert np.isfinite(list(losses[0.3])).all()


def test_bf16_trains_near_fp32_and_evaluates_otherwise(encoders: Encoders) -> None:
    found = {}
    for precision in ("fp32", "bf16"):
        settings = {"dropout": 0.0, "precision": precision, "evaluation_precision": precision}
        found[precision] = finish(job(encoders, encoders.fresh(), GS, **settings))
    losses = [[row["train/loss"] for row in found[name].history if "train/loss" in row] for name in found]
    assert losses[0] != losses[1]
    np.testing.assert_allclose(losses[0], losses[1], atol=0.1)
    assert len(losses[0]) == TOTAL // BATCH_SIZE
    assert not np.array_equal(found["fp32"].scores, found["bf16"].scores)
