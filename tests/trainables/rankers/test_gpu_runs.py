"""Every kind of run of a ranker on a GPU: to float precision the run on the CPU, with masks that are drawn once."""

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.trainables.deaths import same
from tests.trainables.rankers.test_curriculum_runs import curricular
from tests.trainables.rankers.test_label_noise import noisy
from tests.trainables.rankers.test_losses import smoothed
from tests.trainables.rankers.test_retrieved import retrieved  # noqa: F401
from tests.trainables.rankers.test_teacher import teacher  # noqa: F401
from tests.trainables.small import (
    BATCH_SIZE,
    FROZEN,
    LS,
    T_WSLS,
    TRAINING,
    WSLS,
    Fresh,
    World,
    finish,
    fresh_model,
    ids_batch,
    job,
)
from tests.trainables.training.test_gpu import gpu, on_gpu, ready
from trainables.exchange.classifier import load_classifier
from trainables.losses import LOSSES
from trainables.models import attention
from trainables.models.packing import PackedBatch
from trainables.rankers.ranker_export import export_model
from trainables.rankers.ranker_run import RankerData, RankerRun
from trainables.rankers.ranker_trainer import RankerTrainer
from trainables.specs.checkpoint_chain import Segment
from trainables.specs.ranker import LabelSmoothing, RankerTrainingSettings
from trainables.specs.trial import TrialSpec

pytestmark = gpu
EXACT = {"dropout": 0.0, "tokens_per_micro_batch": 100}
ADAPTERS = {"lora": {"rank": 4}}


def plain(variant: LabelSmoothing = LS, model: dict[str, Any] | None = None, **settings: Any) -> Any:
    return lambda world, cache: job(world, cache, variant, model, **EXACT, **settings)


def relaxed(loss: str) -> LabelSmoothing:
    return LabelSmoothing(loss=loss, distribution="relaxation", epsilon=0.2)


RUNS: dict[str, Callable[[World, Path], TrialSpec]] = {
    **{loss: plain(smoothed(loss)) for loss in LOSSES},
    "relaxed cross-entropy": plain(relaxed("cross_entropy")),
    "relaxed lce of several relevant": lambda world, cache: noisy(plain(relaxed("lce"))(world, cache), 0.6, "flipped"),
    "mean": plain(WSLS, {"pooling": "mean"}),
    "frozen": plain(T_WSLS, FROZEN),
    "adapters": plain(T_WSLS, ADAPTERS),
    "adapters of upper layers": plain(T_WSLS, FROZEN | ADAPTERS, gradient_checkpointing=True),
    "test": plain(action="test"),
    "roberta": lambda world, cache: job(world, cache, LS, path=world.roberta, **EXACT),
    "best weights": plain(checkpoint="R5@1", evaluations=4),
    "label noise": lambda world, cache: noisy(plain(T_WSLS)(world, cache), 0.4),
    "curriculum": lambda world, cache: _exact(curricular(world, cache, LS, score="words_context")),
}


def _exact(trial: TrialSpec) -> TrialSpec:
    specification = trial.specification
    assert specification.training is not None
    training = specification.training.model_copy(update=EXACT)
    return trial.model_copy(update={"specification": specification.model_copy(update={"training": training})})


def assert_same_run(make: Callable[[], TrialSpec]) -> None:
    found, expected = (finish(ready(own)) for own in (on_gpu(make()), make()))
    losses = [[row.get("train/loss", 0.0) for row in run.history] for run in (found, expected)]
    np.testing.assert_allclose(*losses, rtol=0, atol=1e-4)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=0, atol=5e-3)
    assert found.best_evaluation == expected.best_evaluation


@pytest.mark.parametrize("name", RUNS)
def test_a_run_on_a_gpu_is_that_on_the_cpu(world: World, fresh: Fresh, name: str) -> None:
    assert_same_run(lambda: RUNS[name](world, fresh()))


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_bf16_on_a_gpu_is_near_fp32_whole_and_in_parts(world: World, fresh: Fresh, pooling: str) -> None:
    made = [
        job(
            world,
            fresh(),
            T_WSLS,
            {"pooling": pooling},
            dropout=0.0,
            precision=precision,
            tokens_per_micro_batch=tokens,
        )
        for precision, tokens in (("fp32", 2048), ("bf16", 2048), ("bf16", 60))
    ]
    runs = [finish(made[0]), *(finish(on_gpu(own)) for own in made[1:])]
    expected, *found = ([row["train/loss"] for row in run.history if "train/loss" in row] for run in runs)
    for losses in found:
        assert losses != expected
        np.testing.assert_allclose(losses, expected, atol=0.01)


@pytest.mark.parametrize("loss", ["kl", "margin_mse"])
def test_a_gpu_learns_from_a_teacher(world: World, fresh: Fresh, teacher: str, loss: str) -> None:  # noqa: F811
    taught = LabelSmoothing(loss=loss, teacher=teacher, temperature=1.0)
    assert_same_run(lambda: job(world, fresh(), taught, **EXACT))


def test_a_gpu_ranks_what_was_retrieved(retrieved: World, tmp_path: Path) -> None:  # noqa: F811
    caches = iter((tmp_path / "one", tmp_path / "other"))

    def rank(cache: Path) -> TrialSpec:
        trial = job(retrieved, retrieved.fresh_cache(cache), LS, FROZEN, **EXACT)
        return trial.model_copy(update={"metric": "nDCG@10"})

    assert_same_run(lambda: rank(next(caches)))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_layers_that_are_computed_again_draw_the_same_masks(world: World, fresh: Fresh, precision: str) -> None:
    model = {"lora": {"rank": 4, "dropout": 0.2}}
    settings = {"precision": precision, "dropout": 0.1, "tokens_per_micro_batch": 100}
    plain, again = (
        finish(on_gpu(job(world, fresh(), LS, model, **settings, gradient_checkpointing=is_on)))
        for is_on in (False, True)
    )
    assert same(again, plain)


@pytest.mark.parametrize(
    ("precision", "cuda_graphs", "model"),
    [("fp32", False, {}), ("bf16", False, {}), ("bf16", True, {}), ("bf16", False, ADAPTERS), ("bf16", True, ADAPTERS)],
)
def test_an_interrupted_run_on_a_gpu_goes_on_bit_for_bit(
    world: World, fresh: Fresh, precision: str, cuda_graphs: bool, model: dict[str, Any]
) -> None:
    settings = {"precision": precision, "dropout": 0.1, "checkpoint": "R5@1", "evaluations": 4}
    settings["cuda_graphs"] = cuda_graphs
    whole = finish(on_gpu(job(world, fresh(), LS, model, **settings)))
    trial, tries = on_gpu(job(world, fresh(), LS, model, fork_points=(), interval=0.0, **settings)), 0
    while True:
        run = RankerRun(trial)
        end = run.advance()
        run.close()
        if end is not None:
            break
        tries += 1
    assert same(end, whole)
    assert tries > 1


def test_an_exported_model_of_a_gpu_gives_its_scores(world: World, fresh: Fresh, tmp_path: Path) -> None:
    trial = on_gpu(job(world, fresh(), LS, precision="bf16"))
    run = RankerRun(trial)
    finish(run)
    weights = {name: value.detach().cpu() for name, value in run.trainer.model.trainable_parameters().items()}
    export_model(trial, weights, tmp_path / "model")
    rows = run.data.select_pairs("test").first_row + np.arange(20)
    with torch.inference_mode():
        found = load_classifier(tmp_path / "model")(run.data.read(rows)).numpy()
    np.testing.assert_allclose(found, run.trainer.compute_log_odds(rows, "fp32"), rtol=0, atol=1e-4)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_no_mask_of_attention_is_drawn_twice(
    monkeypatch: pytest.MonkeyPatch, world: World, fresh: Fresh, precision: str
) -> None:
    """All texts are equal, so that the masks of two micro-batches could be."""
    masks = list[Tensor]()

    def spy(name: str) -> None:
        attend = getattr(attention, name)

        def attend_and_record(query: Tensor, key: Tensor, value: Tensor, *others: Any) -> Tensor:
            # With equal weights and values of 1 and 0, the output is the mask.
            ones = torch.eye(query.shape[-1], device=query.device, dtype=query.dtype)
            rows = torch.arange(len(query), device=query.device) % len(ones)
            output: Tensor = attend(query * 0, key * 0, ones[rows][:, None].expand(value.shape).contiguous(), *others)
            masks.append(output.detach().cpu() > 0)
            return output

        monkeypatch.setattr(attention, name, attend_and_record)

    spy("_attend_in_groups")
    spy("_attend_varlen")
    training = {**TRAINING, "precision": precision, "dropout": 0.5, "tokens_per_micro_batch": BATCH_SIZE * 16 // 2}
    settings, pairs = RankerTrainingSettings.model_validate(training), RankerData(job(world, fresh()))
    trainer = RankerTrainer(fresh_model(world.bert).to("cuda"), settings, 1, EqualTexts())
    trainer.train(Segment(0, 2 * BATCH_SIZE, LS), 2 * BATCH_SIZE, pairs.select_pairs("train"))
    assert len(masks) == 2 * 2 * 3  # steps, micro-batches, layers
    assert all(0.4 < mask.float().mean() < 0.6 for mask in masks)
    assert not any(torch.equal(one, other) for one, other in combinations(masks, 2))


class EqualTexts:
    """A source of texts of 16 tokens, as many as a head has numbers."""

    lengths = np.full(1000, 16)

    def read(self, rows: np.ndarray) -> PackedBatch:
        return PackedBatch(ids_batch([16], [8]).inputs.repeat(len(rows)), np.full(len(rows), 16), np.full(len(rows), 8))


def test_a_loss_on_a_gpu_that_is_not_finite_has_the_number_of_its_step(world: World, fresh: Fresh) -> None:
    run = RankerRun(on_gpu(job(world, fresh(), LS)))
    bias, seen = run.trainer.model.head.bias, list[int]()

    def break_weights() -> None:
        seen.append(run.trainer.instances_seen)
        if len(seen) == 2:
            with torch.no_grad():
                bias[0] = torch.inf

    with pytest.raises(FloatingPointError, match=f"the loss is nan after {2 * BATCH_SIZE} instances"):
        run.trainer.train(Segment(0, 4 * BATCH_SIZE, LS), 4 * BATCH_SIZE, run._train_pairs, break_weights)
    assert seen == [BATCH_SIZE, 2 * BATCH_SIZE, 3 * BATCH_SIZE, 4 * BATCH_SIZE]
