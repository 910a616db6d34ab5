"""A calibration is a few seconds of a real run, of whatever kind, and leaves nothing behind."""

import math
from typing import Any

import pytest

from tests.trainables import encoders as sentences
from tests.trainables import small
from tests.trainables.encoders import Encoders
from tests.trainables.small import Fresh, World
from trainables.rankers import ranker_backend as rankers
from trainables.sentence_encoders import encoder_backend as sentence_encoders
from trainables.specs.plugin import Throughput


def measured(found: Throughput) -> list[float]:
    return [rate for rate in found if rate is not None]


@pytest.mark.parametrize(("model", "frozen"), [(None, False), (small.FROZEN, True)], ids=["all layers", "frozen"])
def test_a_rankers_rates(world: World, fresh: Fresh, model: dict[str, Any] | None, frozen: bool) -> None:
    cache = fresh()
    found = rankers.measure_throughput(small.job(world, cache, small.LS, model), 0.1)
    assert all(math.isfinite(rate) and rate > 0 for rate in measured(found))
    assert (found.frozen is not None) == frozen
    assert not (cache / "stages").exists()


@pytest.mark.parametrize(
    ("variant", "model"), [(sentences.SIMCSE, {}), (sentences.T_GS, sentences.FROZEN)], ids=["SimCSE", "frozen T-GS"]
)
def test_a_sentence_encoders_rates(encoders: Encoders, variant: Any, model: dict[str, Any]) -> None:
    cache = encoders.fresh()
    found = sentence_encoders.measure_throughput(sentences.job(encoders, cache, variant, model), 0.1)
    assert all(math.isfinite(rate) and rate > 0 for rate in measured(found))
    assert (found.frozen is not None) == ("frozen_layers" in model)
    assert not (cache / "stages").exists()
