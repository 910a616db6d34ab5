"""A space is a list of points, and a trial's answers lead to one of them."""

from itertools import product
from math import prod
from typing import Any

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.ranker_search import STUDY_TYPE
from search_spaces.search import choose_point, to_suggestions
from search_spaces.space import Grid, SystemSpace, collect_values, split_into_branches
from tests.search_spaces.test_search import EVERY_SCHEDULE, FAMILIES
from trainables.smoothing.schedules import VARIANTS, get_defaults


def make_space(name: str, grid: Grid) -> SystemSpace:
    return SystemSpace(name, VARIANTS[name], STUDY_TYPE.defaults, grid, {}, {})


@given(st.lists(st.integers(1, 4), max_size=5))
def test_a_space_without_conditions_is_the_product_of_its_values(sizes: list[int]) -> None:
    grid = {f"h{i}": tuple(range(10, 10 + size)) for i, size in enumerate(sizes)}
    space = SystemSpace("BERT", VARIANTS["BERT"], STUDY_TYPE.defaults, {}, grid, {})
    assert [tuple(point.values.values()) for point in space.points] == list(product(*grid.values()))


def by_hand(grid: Grid) -> set[tuple[tuple[str, Any], ...]]:
    """The oracle: plain loops over the schedules and what each takes."""
    found = set()
    for epsilon, schedule in product(grid["epsilon"], grid["schedule"]):
        names = list(get_defaults(schedule))
        for chosen in product(*(grid[name] for name in names)):
            found.add((("epsilon", epsilon), ("schedule", schedule), *zip(names, chosen, strict=True)))
    return found


def test_a_schedule_has_its_own_settings_and_no_others() -> None:
    found = make_space("T-LS", EVERY_SCHEDULE).points
    assert {point.smoothing for point in found} == by_hand(EVERY_SCHEDULE)
    assert len(found) == len(set(found)) == 4 * (3 + 2 + 1 + 1 + 1)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_point_is_a_variant_and_no_two_are_the_same(name: str) -> None:
    found = make_space(name, EVERY_SCHEDULE).points
    made = {STUDY_TYPE.make_smoothing(name, dict(point.smoothing)).canonicalize() for point in found}
    assert len(made) == len(found)
    assert {variant.distribution for variant in made} == {VARIANTS[name].distribution}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_trial_that_answers_with_a_points_places_arrives_at_it(name: str) -> None:
    family = FAMILIES[name]
    for point in family.list_configurations():
        answers = to_suggestions(point, {**family.smoothing_grid, **family.optimisation_grid})
        assert choose_point(family, optuna.trial.FixedTrial(answers)) == point


def test_points_part_by_what_they_have_and_each_branch_is_a_product() -> None:
    grid = {"epsilon": (0.1, 0.2), "schedule": ("two_stage", "cosine", "beta"), "switch": (0.25, 0.5, 0.75)}
    grid |= {"a": (1.0, 2.0), "b": (1.0, 2.0)}
    found = make_space("T-LS", grid).points
    parted = split_into_branches(found)
    assert sorted(point for branch in parted for point in branch) == sorted(found)
    names = [("epsilon", "schedule", "switch"), ("epsilon", "schedule"), ("epsilon", "schedule", "a", "b")]
    assert [tuple(collect_values(branch)) for branch in parted] == names
    for branch in parted:
        assert len(branch) == prod(len(own) for own in collect_values(branch).values())
    assert collect_values(found) == {name: list(own) for name, own in grid.items()}
    assert split_into_branches([]) == []
