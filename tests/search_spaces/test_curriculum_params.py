"""The space of curricula: every point once, nothing asked that does not count, the published values first."""

from itertools import product
from typing import Any

import optuna
import pytest

from search_spaces.curriculum_params import DEFAULTS
from search_spaces.ranker_search import STUDY_TYPE
from search_spaces.search import SeedAveragedSearch, choose_point
from search_spaces.space import SystemSpace
from trainables.smoothing.schedules import VARIANTS

GRID: dict[str, Any] = {
    "pacing": ("step", "linear", "root_2"),
    "score": ("turns", "BERT_loss"),
    "delta": (0.2, 0.33, 0.5),
    "duration": (0.5, 0.9),
}


def family(variant: str = "BERT", grid: dict[str, Any] = GRID) -> SystemSpace:
    smoothing = {"epsilon": (0.1, 0.2), "schedule": ("two_stage",), "switch": (0.5,)}
    return SystemSpace(f"{variant}-CL", VARIANTS[variant], STUDY_TYPE.defaults, smoothing, {}, {}, grid)


def test_every_point_is_there_once_and_step_has_no_delta() -> None:
    found = [point.values for point in family().points]
    gradual = [
        {"pacing": pacing, "score": score, "delta": delta, "duration": duration}
        for pacing, score, delta, duration in product(("linear", "root_2"), *list(GRID.values())[1:])
    ]
    steps = [
        {"pacing": "step", "score": score, "duration": duration}
        for score, duration in product(GRID["score"], GRID["duration"])
    ]
    assert len(found) == len(gradual) + len(steps)
    assert all(point in found for point in [*gradual, *steps])


def test_with_a_variant_it_is_the_product_of_both_spaces() -> None:
    alone, smoothed = family().points, family("T-WSLS").points
    assert len(smoothed) == 2 * len(alone)
    assert {point.curriculum for point in smoothed} == {point.curriculum for point in alone}


def test_the_published_values_come_first_where_the_grid_has_them() -> None:
    assert family().list_configurations()[0].values == DEFAULTS
    own = {**GRID, "pacing": ("step",), "score": ("turns", "sigma_SM"), "duration": (0.3, 0.6)}
    assert family(grid=own).list_default_configurations()[0].values == {
        "pacing": "step",
        "score": "turns",
        "duration": 0.3,
    }
    assert family(grid={}).list_configurations()[0].curriculum == ()


def test_a_sampler_answers_the_same_questions() -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    found = {choose_point(family(), study.ask()).curriculum for _ in range(300)}
    assert found == {point.curriculum for point in family().points}


@pytest.mark.parametrize("sampler", ["tpe", "qmc", "grid"])
def test_a_search_proposes_distinct_points_and_two_systems_different_ones(sampler: str) -> None:
    asked = []
    for name in ("CL", "T-LS-CL"):
        own = SystemSpace(name, VARIANTS["BERT"], STUDY_TYPE.defaults, {}, {}, {}, GRID)
        search, proposed = SeedAveragedSearch(own, 8, 2, sampler, 0), []
        while found := search.ask():
            proposed += found
            search.tell([point.values["duration"] for point in found])
        assert len(set(proposed)) == 8
        asked.append(proposed)
    assert (asked[0] == asked[1]) == (sampler == "grid")
