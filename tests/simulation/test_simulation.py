"""The driver among faults: one at each operation, those that a seed draws, and those that have found something."""

import pytest

from tests.simulation.machine import Fault
from tests.simulation.play import Simulation, play_schedules
from tests.simulation.schedules import Change, Damage, Schedule, TrialFault, WandbFault
from tests.trainables.small import World

_SECONDS, _SCHEDULES = 30.0, 900
"""Seconds and number of the schedules of `make test`, at most."""
_SMALL = {"variants": ["BERT"], "seeds": [1], "search": {"round_size": 1, "n_configurations": {}}, "queries": True}
_MORE = _SMALL | {"variants": ["BERT", "LS"], "search": {"round_size": 1, "n_configurations": {"LS": 1}}}
_SEARCH = {
    "variants": ["BERT", "WSLS"],
    "seeds": [12, 13],  # a run of the first proposal fails
    "search": {"round_size": 2, "n_configurations": {"WSLS": 3}},
}
_ONLINE = _SEARCH | {"tracking": {"mode": "online"}, "queries": True}
_SCORED = {**_SMALL, "tracking": {"mode": "online"}, "curriculum": {"variants": ["BERT"]}}
_SUITE = _SMALL | {"suite": True}
_EVICTING = {
    "variants": ["BERT", "T-LS", "WSLS"],
    "seeds": [36, 37],  # runs of two proposals fail, each in the first round
    "search": {"round_size": 1, "n_configurations": {"T-LS": 2, "WSLS": 2}},
    "cache": {"max_size": "300 B"},
    "models": "all",
    "confirm": {"seeds": [11]},
}
FOUND = {
    "a result that came twice stopped the study": Schedule(1, _SMALL, trials=(TrialFault("twice", 1),)),
    "the result of a lost trial comes while it runs again": Schedule(1, _SMALL, trials=(TrialFault("late", 1),)),
    "W&B that refuses, then hangs": Schedule(276, _ONLINE, wandb=(WandbFault("refuse", 1), WandbFault("hang", 9))),
}


@pytest.fixture(scope="module")
def simulation(world: World) -> Simulation:
    """Plays schedules."""
    return Simulation(world)


@pytest.mark.parametrize("name", FOUND)
def test_a_schedule_that_has_found_a_fault_finds_it_no_more(simulation: Simulation, name: str) -> None:
    simulation.play(FOUND[name])


@pytest.mark.parametrize("kind", ["kill", "power", "signal", "full", "io", "second", "slow"])
def test_a_fault_at_any_operation_changes_nothing(simulation: Simulation, kind: str) -> None:
    for at in range(1, simulation.get_reference(_SMALL).n_operations + 1):
        simulation.play(Schedule(at, _SMALL, (Fault(kind, at, at),)))


def test_what_a_kill_left_survives_a_power_cut_in_the_next_start(simulation: Simulation) -> None:
    n_operations = simulation.get_reference(_SMALL).n_operations
    for at in range(1, n_operations + 1):
        for later in (at + n_operations // 2, at + n_operations - 20):
            simulation.play(Schedule(at, _SMALL, (Fault("kill", at), Fault("power", later))))


@pytest.mark.parametrize("kind", ["kill", "power"])
def test_a_suite_is_killed_at_any_operation_and_leaves_nothing(simulation: Simulation, kind: str) -> None:
    for at in range(1, simulation.get_reference(_SUITE).n_operations + 1):
        simulation.play(Schedule(at, _SUITE, (Fault(kind, at, at),)))


@pytest.mark.parametrize("kind", ["cut", "empty", "flip", "delete", "stale", "unreadable"])
def test_damage_of_any_file_is_mended(simulation: Simulation, kind: str) -> None:
    n_files = len(simulation.get_reference(_ONLINE).results)
    for file in range(n_files):
        simulation.play(Schedule(file, _ONLINE, damages=(Damage(kind, 1, file),)))


def test_a_study_that_changes_after_a_kill_at_any_operation_is_the_changed_one_or_says_no(
    simulation: Simulation,
) -> None:
    for at in range(1, simulation.get_reference(_SMALL).n_operations + 1):
        simulation.play(Schedule(at, _SMALL, (Fault("kill", at),), changes=(Change(1, _MORE),)))
        for other in ({"inputs": "data"}, {"name": "other"}):
            simulation.play(Schedule(at, _SMALL, (Fault("kill", at),), changes=(Change(1, _SMALL | other),)))


def test_a_scoring_run_is_recorded_once_after_kills_and_lost_files(simulation: Simulation) -> None:
    reference = simulation.get_reference(_SCORED)
    for at in range(1, reference.n_operations + 1, 3):
        simulation.play(Schedule(at, _SCORED, (Fault("kill", at),)))
    kill = Fault("kill", reference.n_operations * 3 // 5)
    for file in range(len(reference.results) + 4):
        for faults in ((), (kill,)):
            simulation.play(Schedule(file, _SCORED, faults, damages=(Damage("delete", 1, file),)))


def test_no_lease_is_taken_while_its_holder_is_slow(simulation: Simulation) -> None:
    for at in range(1, simulation.get_reference(_SMALL).n_operations + 1, 2):
        simulation.play(Schedule(at, _SMALL, (Fault("second", at), Fault("slow", at + 1, 900))))


def test_no_weights_are_evicted_that_a_killed_study_needs(simulation: Simulation) -> None:
    reference = simulation.get_reference(_EVICTING)
    n_operations, names = reference.n_operations, [name.split("/") for name in reference.results]
    assert len({name[1] for name in names if name[0] == "models"}) == len(_EVICTING["variants"])
    for at in range(n_operations // 2, n_operations + 1, 2):
        simulation.play(Schedule(at, _EVICTING, (Fault("kill", at),)))


def test_the_report_of_a_study_that_is_killed_is_that_of_an_undisturbed_one(simulation: Simulation) -> None:
    n_before = simulation.get_reference(_ONLINE).n_operations
    n_operations = simulation.get_reference(_ONLINE | {"report": True}).n_operations
    for at in range(n_before - 20, n_operations + 1, (n_operations - n_before) // 5):
        simulation.play(Schedule(at, _ONLINE | {"report": True}, (Fault("kill", at),)))


def test_a_study_among_faults_ends_as_an_undisturbed_one(simulation: Simulation) -> None:
    n_played, _, failure = play_schedules(simulation, 0, _SECONDS, _SCHEDULES)
    assert n_played
    assert not failure, failure
