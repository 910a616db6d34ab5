"""Spaces of sentence encoders: one name for one behaviour, and impossible settings are an error in a line."""

from typing import Any

import pytest

from search_spaces.sentence_encoder_search import STUDY_TYPE
from study.config.loader import load_study
from study.config.spaces import count_configurations, count_proposals, make_system_space
from study.plan.shared_training import bound_instances_with_sharing, bound_instances_without_sharing
from trainables.specs.sentence_encoder import NoiseSmoothing

BASE = ["training.instances=640", "training.batch_size=64", "training.evaluations=2"]


@pytest.mark.parametrize("nothing", [{"multiple": 0.0}, {"weight": 0.0}, {"schedule": "two_stage", "switch": 0.0}])
def test_no_noise_is_the_baseline(nothing: dict[str, Any]) -> None:
    asked = {"distribution": "gaussian", "multiple": 3.0, "weight": 1.0}
    assert NoiseSmoothing.model_validate(asked | nothing).canonicalize() == NoiseSmoothing()


def test_the_sweep_over_m_is_the_papers() -> None:
    study = load_study("gs-infonce-noise", BASE)
    assert count_proposals(study) == {"GS-InfoNCE": 7}
    found = [point.values["multiple"] for point in make_system_space(study, "GS-InfoNCE").points]
    assert found == [0.5, 1.0, 2.0, 3.0, 4.0, 8.0, 16.0]
    assert make_system_space(study, "GS-InfoNCE").list_default_configurations()[0].values == {
        "weight": 1.0,
        "multiple": 3.0,
    }


def test_every_point_is_a_variant_of_its_own() -> None:
    study = load_study(
        "gs-infonce",
        [*BASE, 'variants=["SimCSE","GS-InfoNCE","T-GS-InfoNCE"]', "search.weight=[0.5, 1.0]"],
    )
    for name in ("GS-InfoNCE", "T-GS-InfoNCE"):
        found = [
            STUDY_TYPE.make_smoothing(name, dict(point.smoothing)).canonicalize()
            for point in make_system_space(study, name).points
        ]
        assert len(set(found)) == len(found) == count_configurations(study, name)


def test_a_second_stage_without_noise_goes_on_from_the_first() -> None:
    study = load_study(
        "gs-infonce",
        [*BASE, 'variants=["SimCSE","GS-InfoNCE","T-GS-InfoNCE"]', "search.schedule_settings.switch=[0.25, 0.5, 0.75]"],
    )
    assert (
        bound_instances_without_sharing(study).low == 5 * 640 * 5
    )  # SimCSE, GS-InfoNCE and three switch points, each with five seeds
    assert (
        bound_instances_with_sharing(study).low
        == bound_instances_with_sharing(study).high
        == 5 * (640 + 640 + (640 - 192) + (640 - 320) + (640 - 512))
    )
