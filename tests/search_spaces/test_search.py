"""Proposals are a function of the seed and of what was told, and of nothing else."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from statistics import fmean
from typing import Any

import numpy as np
import optuna
import pytest

from search_spaces.ranker_search import STUDY_TYPE
from search_spaces.search import SeedAveragedSearch, choose_point, to_suggestions
from search_spaces.search_samplers import SAMPLERS
from search_spaces.space import Params, SystemSpace
from trainables.smoothing.schedules import VARIANTS
from trainables.utils.random import derive_seed

GRID = {
    "epsilon": (0.1, 0.2, 0.3, 0.4),
    "schedule": ("two_stage",),
    "switch": (0.25, 0.5, 0.75),
    "end": (0.6, 0.8),
    "rate": (5.0,),
    "a": (2.0,),
    "b": (2.0,),
}
EVERY_SCHEDULE = {**GRID, "schedule": ("linear", "two_stage", "exponential", "cosine", "beta")}
OPTIMISATION = {"learning_rate": (1e-5, 3e-5, 1e-4), "negatives": (1, 3)}
UNTUNED = {"learning_rate": 3e-5, "negatives": 1}
EVERY_SAMPLER = list(SAMPLERS)


def _family(name: str, smoothing: dict[str, Any], optimisation: dict[str, Any] | None = None) -> SystemSpace:
    return SystemSpace(name, VARIANTS[name], STUDY_TYPE.defaults, smoothing, optimisation or {}, UNTUNED)


FAMILIES = {
    "LS": _family("LS", GRID),
    "T-LS": _family("T-LS", GRID),
    "T-WSLS": _family("T-WSLS", EVERY_SCHEDULE),
    "T-LS, optimisation": _family("T-LS", GRID, OPTIMISATION),
    "BERT, optimisation": _family("BERT", {}, OPTIMISATION),
}


def score(point: Params) -> float:
    values = point.values
    return -abs(values.get("epsilon", 0) - 0.3) - abs(values.get("switch", 0.75) - 0.75)


def search(
    family: str = "T-LS", proposals: int = 8, sampler: str = "tpe", seed: int = 0, **changes: Any
) -> SeedAveragedSearch:
    return SeedAveragedSearch(FAMILIES[family], proposals, changes.pop("parallel", 2), sampler, seed, **changes)


def run(made: SeedAveragedSearch, sign: float = 1.0, known: Sequence[Params] = ()) -> list[Params]:
    """All proposals, told a score that depends on the point alone."""
    found: list[Params] = []
    while batch := made.ask(known[len(found) : len(found) + made.round_size]):
        assert len(batch) <= made.round_size
        found += batch
        made.tell([sign * score(point) for point in batch])
    return found


@pytest.mark.parametrize("sampler", EVERY_SAMPLER)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_sampler_tries_the_untuned_values_first_and_nothing_twice(sampler: str, family: str) -> None:
    made = search(family, 10, sampler)
    found = run(made)
    assert len(found) == len(set(found)) == min(10, made.space_size)
    first = found[0].values
    if FAMILIES[family].variant.distribution != "none":
        assert first["epsilon"] == 0.2
    if FAMILIES[family].variant.schedule != "constant":
        assert (first["schedule"], first["switch"]) == ("two_stage", 0.5)
    if "optimisation" in family:
        assert {name: first[name] for name in UNTUNED} == UNTUNED


def test_of_several_schedules_each_has_its_default_proposed_before_the_sampler_is_asked() -> None:
    found = run(search("T-WSLS", 5))
    assert [point.values["schedule"] for point in found] == ["two_stage", "linear", "exponential", "cosine", "beta"]
    assert found[1].values == {"epsilon": 0.2, "schedule": "linear", "end": 0.8}
    assert found[4].values == {"epsilon": 0.2, "schedule": "beta", "a": 2.0, "b": 2.0}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_grid_is_run_whole_and_in_its_order(family: str) -> None:
    made = search(family, 10_000, "grid")
    assert run(made) == made.configurations
    assert made.space_size == len(made.configurations)


@pytest.mark.parametrize("sampler", EVERY_SAMPLER)
def test_the_same_seed_proposes_the_same(sampler: str) -> None:
    assert run(search("T-WSLS", 9, sampler)) == run(search("T-WSLS", 9, sampler))


@pytest.mark.parametrize("sampler", ["tpe", "gp", "qmc"])
def test_another_seed_proposes_otherwise(sampler: str) -> None:
    assert len({tuple(run(search("T-WSLS", 9, sampler, seed))) for seed in range(4)}) > 1


@pytest.mark.parametrize(("sampler", "steered"), [("tpe", True), ("gp", True), ("qmc", False), ("grid", False)])
def test_results_steer_those_samplers_that_look_at_them(sampler: str, steered: bool) -> None:
    up, down = (run(search("T-LS", 9, sampler), sign) for sign in (1.0, -1.0))
    assert (up != down) == steered
    assert up[:2] == down[:2]


def test_a_sampler_that_learns_finds_better_points_than_one_that_does_not() -> None:
    """Means over seeds of the proposals' score; the fixed seeds make this a fact, not a chance."""
    level = {
        name: fmean(score(p) for s in range(seeds) for p in run(search("T-LS, optimisation", 14, name, s))[4:])
        for name, seeds in {"tpe": 8, "gp": 2, "qmc": 8}.items()
    }
    assert level["tpe"] > level["qmc"]
    assert level["gp"] > level["qmc"]


Judge = Callable[[Params], Sequence[float] | None]


def go_on(made: SeedAveragedSearch, judge: Judge, known: Sequence[Params] = ()) -> list[Params]:
    """All proposals, each told what the judge says, those known in advance taken as a study's log gives them."""
    found: list[Params] = []
    while batch := made.ask(known[len(found) : len(found) + made.round_size]):
        found += batch
        made.tell([judge(point) for point in batch])
    return found


def moody(point: Params) -> float | None:
    """A score that any change of the point changes; of every seventh point or so, none: its seeds failed."""
    drawn = derive_seed(0, repr(point), 0)
    return None if drawn % 7 == 0 else drawn % 101 / 101


@pytest.mark.parametrize(("family", "parallel"), [("T-WSLS", 1), ("T-WSLS", 3), ("T-LS, optimisation", 2)])
@pytest.mark.parametrize("sampler", ["tpe", "qmc", "grid"])
def test_a_search_that_is_told_again_what_it_proposed_goes_on_as_if_it_had_been_asked(
    sampler: str, family: str, parallel: int
) -> None:
    def made() -> SeedAveragedSearch:
        return search(family, 10, sampler, parallel=parallel, direction="minimize")

    whole = go_on(made(), moody)
    for count in range(1, 11):
        assert go_on(made(), moody, known=whole[:count]) == whole, count


@pytest.mark.parametrize(("parallel", "counts"), [(1, (3,)), (2, (3, 4))])
def test_the_gaussian_process_also_goes_on_the_same(parallel: int, counts: Sequence[int]) -> None:
    whole = go_on(search("T-LS", 7, "gp", parallel=parallel), moody)
    for count in counts:
        assert go_on(search("T-LS", 7, "gp", parallel=parallel), moody, known=whole[:count]) == whole


def by_definition(family: SystemSpace, sampler: str, parallel: int, seed: int) -> list[Params]:
    """The oracle: every round asks a study of its own, which holds what was told before and nothing else."""
    told: dict[Params, Sequence[float] | None] = {}
    points = family.list_configurations()
    count = min(20, len(points))
    while len(told) < count:
        study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler())
        for point, values in told.items():
            study.enqueue_trial(to_suggestions(point, family.grid))
            trial = study.ask()
            assert choose_point(family, trial) == point
            if values is None:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                study.tell(trial, values)
        drawn_by = derive_seed(seed, f"search/{family.system}", 1 + len(told) // parallel) % 2**32
        study.sampler = SAMPLERS[sampler](drawn_by, parallel)
        asked: list[Params] = []
        while len(asked) < min(parallel, count - len(told)):
            unseen = [point for point in points if point not in told and point not in asked]
            untuned = [point for point in family.list_default_configurations() if point in unseen]
            for _ in range(3):
                if untuned:
                    study.enqueue_trial(to_suggestions(untuned[0], family.grid))
                trial = study.ask()
                if (point := choose_point(family, trial)) in unseen:
                    break
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                point = nearest(point, unseen, family)
                study.enqueue_trial(to_suggestions(point, family.grid))
                assert choose_point(family, study.ask()) == point
            asked.append(point)
        told |= {point: moody(point) for point in asked}
    return list(told)


def nearest(wanted: Params, unseen: Sequence[Params], family: SystemSpace) -> Params:
    """The first of those with the smallest sum of distances from the wanted ones, each a share of its range."""

    def apart(one: Any, other: Any, values: Sequence[Any]) -> Fraction:
        if isinstance(one, str) or isinstance(other, str) or None in (one, other):
            return Fraction(one != other)
        return Fraction(abs(one - other), len(values) - 1)

    def distance(point: Params) -> Fraction:
        one, other = to_suggestions(wanted, family.grid), to_suggestions(point, family.grid)
        return sum((apart(one.get(k), other.get(k), family.grid[k]) for k in {*one, *other}), Fraction())

    return min(unseen, key=distance)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize(
    ("sampler", "family", "parallel", "seed"),
    [
        *(("tpe", family, parallel, seed) for family in FAMILIES for parallel, seed in ((1, 0), (3, 1))),
        ("gp", "LS", 2, 0),
    ],
)
def test_a_round_is_proposed_by_a_sampler_of_its_own_from_what_was_told_and_nothing_else(
    sampler: str, family: str, parallel: int, seed: int
) -> None:
    expected = by_definition(FAMILIES[family], sampler, parallel, seed)
    assert go_on(search(family, len(expected), sampler, seed, parallel=parallel), moody) == expected


class Stubborn(optuna.samplers.RandomSampler):
    """Proposes the middle of every range, again and again."""

    def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
        if isinstance(param_distribution, optuna.distributions.CategoricalDistribution):
            return param_distribution.choices[0]
        return (param_distribution.low + param_distribution.high) // 2


@pytest.mark.parametrize("sizes", [(11, 11, 4), (4, 4, 6, 3), (8, 3, 5)])
def test_of_points_that_are_equally_near_the_first_is_taken(
    sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Distances are exact: of rounded ones the order of adding would decide, which no two processes share."""
    monkeypatch.setattr("search_spaces.search.SAMPLERS", {"stubborn": lambda seed, startup: Stubborn(seed)})
    values = {f"{'abcdef'[place]}{size}": tuple(range(size)) for place, size in enumerate(sizes)}
    family = SystemSpace("BERT", VARIANTS["BERT"], STUDY_TYPE.defaults, {}, values, dict.fromkeys(values, 0))
    found = go_on(SeedAveragedSearch(family, 90, 30, "stubborn", 0), lambda point: [0.0])
    middle = Params(optimisation=tuple((name, (len(own) - 1) // 2) for name, own in values.items()))
    assert found[1] == middle
    unseen = [point for point in family.list_configurations() if point not in found[:2]]
    for point in found[2:]:
        assert point == nearest(middle, unseen, family)
        unseen.remove(point)


@pytest.mark.parametrize("seed", range(2))
def test_of_a_sampler_that_looks_at_no_results_the_size_of_a_round_changes_nothing(seed: int) -> None:
    """Here the untuned values of five schedules go first: a sequence begins with what was told before it."""
    alone = run(search("T-WSLS", 20, "qmc", seed, parallel=1))
    for parallel in (2, 3, 4, 5):
        assert run(search("T-WSLS", 20, "qmc", seed, parallel=parallel)) == alone


@pytest.mark.parametrize("sampler", ["tpe", "gp", "grid"])
def test_what_is_known_is_not_asked_for_again(sampler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To ask for thousands of proposals takes minutes. An earlier start may have proposed more than are wanted now."""
    whole = run(search("T-LS", 8, sampler))
    asked: list[None] = []
    ask = optuna.Study.ask
    monkeypatch.setattr(optuna.Study, "ask", lambda self: asked.append(None) or ask(self))
    assert run(search("T-LS", 7, sampler), known=whole) == whole[:7]
    assert not asked


def test_what_is_known_but_cannot_have_been_proposed_is_not_believed() -> None:
    """Any round may be told wrongly: points twice, points of earlier rounds, foreign points, too few, too many."""
    whole, rng = run(search("T-LS", 8)), np.random.default_rng(1)
    foreign = Params((("epsilon", 0.9), ("schedule", "two_stage"), ("switch", 0.5)))
    for _ in range(60):
        made, found = search("T-LS", 8), list[Params]()
        while len(found) < 8:
            right = whole[len(found) : len(found) + 2]
            seen = [found[place] for place in rng.integers(len(found), size=2)] if found else right
            wrong = [
                [right[0], right[0]],
                [right[0], foreign],
                [foreign, foreign],
                [seen[0], right[1]],
                [right[0], seen[0]],
                seen,
                right[:1],
                right,
                [],
            ][rng.integers(9)]
            batch = made.ask(wrong)
            assert batch == right, wrong
            found += batch
            made.tell([score(point) for point in batch])


def test_a_failed_configuration_does_not_stop_the_search() -> None:
    made, count = search("T-WSLS", 5), 0
    while batch := made.ask():
        count += len(batch)
        made.tell([None] * len(batch))
    assert count == 5


def test_a_round_taken_back_was_never_proposed() -> None:
    made = search("T-LS", 6)
    made.tell([score(point) for point in made.ask()])
    assert made.ask()
    made.cancel_last_ask()
    assert made.ask() == []
    assert made.list_remaining() == []
    assert made.n_configurations == 2


def test_only_what_has_several_values_is_varied() -> None:
    assert search("T-LS").searched_values == {"epsilon": [0.1, 0.2, 0.3, 0.4], "switch": [0.25, 0.5, 0.75]}
    assert set(search("T-WSLS").searched_values) == {"epsilon", "schedule", "switch", "end"}
    assert set(search("BERT, optimisation").searched_values) == set(OPTIMISATION)
