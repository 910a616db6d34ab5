"""A calibration is a few seconds of a real run, of any kind, and leaves nothing behind."""

import math
from typing import Any

import pytest

from tests.trainables import encoders as sentences
from tests.trainables import small
from tests.trainables.encoders import Encoders
from tests.trainables.small import Fresh, World
from trainables.specs.plugin import get_trainable
from trainables.specs.trial import TrialSpec


def check(trial: TrialSpec, is_frozen: bool) -> None:
    found = get_trainable(trial.specification).training_backend.measure_throughput(trial, 0.1)
    assert all(math.isfinite(rate) and rate > 0 for rate in found if rate is not None)
    assert (found.frozen is not None) == is_frozen
    assert not (trial.cache / "stages").exists()


@pytest.mark.parametrize(("model", "frozen"), [(None, False), (small.FROZEN, True)], ids=["all layers", "frozen"])
def test_a_rankers_rates(world: World, fresh: Fresh, model: dict[str, Any] | None, frozen: bool) -> None:
    check(small.job(world, fresh(), small.LS, model), frozen)


@pytest.mark.parametrize(
    ("variant", "model"), [(sentences.SIMCSE, {}), (sentences.T_GS, sentences.FROZEN)], ids=["SimCSE", "frozen T-GS"]
)
def test_a_sentence_encoders_rates(encoders: Encoders, variant: Any, model: dict[str, Any]) -> None:
    check(sentences.job(encoders, encoders.fresh(), variant, model), "frozen_layers" in model)
