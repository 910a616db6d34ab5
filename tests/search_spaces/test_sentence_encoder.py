"""What may vary in sentence encoders: one name for one behaviour, and what cannot be is refused in a line."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.sentence_encoder import KIND
from search_spaces.space import points
from study.config.loader import load
from study.config.spaces import family, searched, size
from study.plan.shared_training import shared, unshared
from trainables.contrastive.loss import info_nce
from trainables.specs.sentence_encoder import NoiseSettings
from trainables.utils.errors import UserError

BASE = ["training.instances=640", "training.batch_size=64", "training.evaluations=2"]


def mistake(*overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        load("gs-infonce", overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@given(mean=st.floats(-3, 3), deviation=st.floats(0.1, 10))
def test_noise_of_one_name_gives_one_loss(mean: float, deviation: float) -> None:
    asked = NoiseSettings(distribution="gaussian", multiple=2.0, weight=1.0, mean=mean, deviation=deviation)
    named = asked.normalised()
    assert (named.mean, named.deviation) == (pytest.approx(mean / deviation, abs=1e-12), 1.0)
    assert named.normalised() == named
    drawn = np.random.default_rng(1).normal(size=(16, 4))
    views = torch.from_numpy(np.random.default_rng(2).normal(size=(2, 8, 4)))
    losses = [
        info_nce(*views, 0.05, torch.from_numpy(one.mean + one.deviation * drawn)).item() for one in (asked, named)
    ]
    assert math.isclose(*losses, rel_tol=1e-7)


@pytest.mark.parametrize("nothing", [{"multiple": 0.0}, {"weight": 0.0}, {"schedule": "two_stage", "switch": 0.0}])
def test_no_noise_is_the_baseline(nothing: dict[str, Any]) -> None:
    asked = {"distribution": "gaussian", "multiple": 3.0, "weight": 1.0, "mean": 0.5, "deviation": 2.0}
    assert NoiseSettings.model_validate(asked | nothing).normalised() == NoiseSettings()


def test_the_sweep_over_m_is_the_papers() -> None:
    study = load("gs-infonce-noise", BASE)
    assert searched(study) == {"GS-InfoNCE": 7}
    found = [point.values["multiple"] for point in points(family(study, "GS-InfoNCE"))]
    assert found == [0.5, 1.0, 2.0, 3.0, 4.0, 8.0, 16.0]
    assert family(study, "GS-InfoNCE").defaults()[0].values == {
        "weight": 1.0, "multiple": 3.0, "mean": 0.0, "deviation": 1.0
    }  # fmt: skip


def test_every_point_is_a_variant_of_its_own() -> None:
    study = load(
        "gs-infonce",
        [*BASE, 'variants=["SimCSE","GS-InfoNCE","T-GS-InfoNCE"]', "search.mean=[-0.5, 0.5]", "search.deviation=[1.0]"],
    )
    for name in ("GS-InfoNCE", "T-GS-InfoNCE"):
        found = [KIND.smoothed(name, dict(point.smoothing)).normalised() for point in points(family(study, name))]
        assert len(set(found)) == len(found) == size(study, name)


def test_a_second_stage_without_noise_goes_on_from_the_first() -> None:
    study = load(
        "gs-infonce", [*BASE, 'variants=["SimCSE","GS-InfoNCE","T-GS-InfoNCE"]', "search.switch=[0.25, 0.5, 0.75]"]
    )
    assert unshared(study).low == 5 * 640 * 5  # SimCSE, GS-InfoNCE and three switch points, each with five seeds
    assert shared(study).low == shared(study).high == 5 * (640 + 640 + (640 - 192) + (640 - 320) + (640 - 512))


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("search.deviation=[0.5, 1.0]", "does not depend on its sigma"),
        ("analysis.metric=MAP", "STS or STS/STS-B"),
        ("analysis.metric=STS/STS12", "STS or STS/STS-B"),
        ("training.checkpoint=MAP", "last, STS or STS/STS-B"),
        ('search.objectives=["STS", "ECE"]', "one: the development set has one set"),
        ("search.multiple=[0.001]", "at least 0.0078125"),
        ("search.batch_size=[1, 64]", "whole numbers from 2 on"),
        ('curriculum.variants=["SimCSE"]', "has no order"),
        ('variants=["GS-InfoNCE"]', "the baseline SimCSE among them"),
        ('variants=["SimCSE", "LS"]', "out of SimCSE, GS-InfoNCE, T-GS-InfoNCE"),
        ("search.epsilon=[0.1]", "a known key"),
        ('task.sets=["STS17"]', "'STS12', 'STS13'"),
        ("model.pooling=max", "'cls' or 'mean'"),
        ("training.temperature=0", "greater than 0"),
        ("trainable=ranker", "one of cross-encoder, sentence-encoder"),
        ('trainable=["a"]', "one of cross-encoder, sentence-encoder"),
        ("trainable=3", "one of cross-encoder, sentence-encoder"),
    ],
)
def test_a_mistake_is_told_in_a_line(override: str, told: str) -> None:
    assert told in mistake(*BASE, override)


def test_the_metric_is_one_that_the_test_set_has_too() -> None:
    assert "STS-B among task.sets" in mistake(*BASE, 'task.sets=["STS12"]', "analysis.metric=STS/STS-B")


@pytest.mark.parametrize("metric", ["STS", "STS/STS-B"])
def test_rankers_are_not_judged_by_similarity(metric: str) -> None:
    for key in ("analysis.metric", "training.checkpoint"):
        with pytest.raises(UserError, match=key):
            load("quick", [f"{key}={metric}"])
