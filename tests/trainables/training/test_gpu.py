"""A run on a GPU is the run on the CPU, to float precision."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.trainables import encoders as sentences
from tests.trainables.encoders import Encoders
from tests.trainables.small import LS, Fresh, World, finish, job
from trainables.specs.environment import detect_environment
from trainables.specs.plugin import get_trainable
from trainables.specs.trial import TrialSpec
from trainables.utils.errors import UserError

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")


def on_gpu(made: TrialSpec) -> TrialSpec:
    specification = made.specification.model_copy(update={"environment": detect_environment("cuda")})
    return made.model_copy(update={"specification": specification})


def ready(made: TrialSpec) -> TrialSpec:
    """Its precompute is done there too."""
    for _ in get_trainable(made.specification).training_backend.precompute(made, lambda: None):
        pass
    return made


@gpu
def test_a_gpu_trains_what_the_cpu_trains(world: World, fresh: Fresh) -> None:
    settings = {"dropout": 0.0, "instances": 32}
    ours, theirs = finish(on_gpu(job(world, fresh(), LS, **settings))), finish(job(world, fresh(), LS, **settings))
    losses = [[row["train/loss"] for row in run.history if "train/loss" in row] for run in (ours, theirs)]
    np.testing.assert_allclose(*losses, rtol=0, atol=1e-5)
    np.testing.assert_allclose(ours.scores, theirs.scores, rtol=0, atol=1e-3)


@gpu
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_gpu_trains_the_same_bits_again(world: World, fresh: Fresh, precision: str) -> None:
    first, second = (finish(on_gpu(job(world, fresh(), LS, dropout=0.1, precision=precision))) for _ in range(2))
    assert first.weights_hash == second.weights_hash
    assert np.array_equal(first.scores, second.scores)


@gpu
def test_a_gpu_trains_the_encoder_that_the_cpu_trains(encoders: Encoders) -> None:
    ours, theirs = (sentences.job(encoders, encoders.fresh(), sentences.T_GS, dropout=0.0) for _ in range(2))
    found, expected = finish(on_gpu(ours)), finish(theirs)
    losses = [[row["train/loss"] for row in run.history if "train/loss" in row] for run in (found, expected)]
    np.testing.assert_allclose(*losses, rtol=0, atol=1e-4)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=0, atol=1e-3)


@gpu
@pytest.mark.parametrize(
    ("precision", "model"),
    [("fp32", {}), ("bf16", {"pooling": "mean"}), ("bf16", sentences.FROZEN)],
    ids=["cls", "mean", "frozen"],
)
def test_a_gpu_trains_the_same_encoder_again(encoders: Encoders, precision: str, model: dict[str, Any]) -> None:
    first, second = (
        finish(ready(on_gpu(sentences.job(encoders, encoders.fresh(), sentences.GS, model, precision=precision))))
        for _ in range(2)
    )
    assert first.weights_hash == second.weights_hash
    assert np.array_equal(first.scores, second.scores)


@gpu
def test_layers_of_an_encoder_that_are_computed_again_draw_the_same_masks(encoders: Encoders) -> None:
    model, first = {"lora": {"rank": 4, "dropout": 0.2}}, sentences.GS
    plain, again = (
        finish(on_gpu(sentences.job(encoders, encoders.fresh(), first, model, gradient_checkpointing=is_on)))
        for is_on in (False, True)
    )
    assert plain.weights_hash == again.weights_hash
    assert plain.history == again.history


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA GPU here")
def test_without_a_gpu_one_is_an_error_in_one_line() -> None:
    with pytest.raises(UserError, match=r"resources\.gpu"):
        detect_environment("cuda")
