"""The driver among faults that a seed draws, and those that have found something."""

import pytest

from tests.simulation.machine import Fault
from tests.simulation.play import Simulation, play_schedules
from tests.simulation.schedules import Damage, Schedule, TrialFault, WandbFault
from tests.trainables.small import World

_SECONDS, _SCHEDULES = 60.0, 700
"""Seconds and number of the schedules of `make test`, at most."""
_SMALL = {"variants": ["BERT"], "seeds": [1], "search": {"round_size": 1, "n_configurations": {}}}
_SEARCH = {
    "variants": ["BERT", "WSLS"],
    "seeds": [1, 2],
    "search": {"round_size": 2, "n_configurations": {"WSLS": 3}},
}
_ONLINE = _SEARCH | {"tracking": {"mode": "online"}}
_SUITE = _SMALL | {"suite": True}
FOUND = {
    "a result that came twice stopped the study": Schedule(1, _SMALL, trials=(TrialFault("twice", 1),)),
    "without plan and results, a folder was none of the study": Schedule(
        168, _SEARCH, (Fault("power", 95, 524),), damages=(Damage("delete", 1, 857),)
    ),
    "the curve of a failed run stayed damaged": Schedule(319, _SEARCH, damages=(Damage("flip", 1, 834),)),
    "a power cut took the folder of a record": Schedule(8, _SMALL, (Fault("power", 49, 87),)),
    "a kill before it was synced, and a power cut took it later": Schedule(
        100867, _ONLINE, (Fault("kill", 227, 59), Fault("power", 268, 280))
    ),
    "a request for a record that was set aside stopped the uploads": Schedule(
        20, _ONLINE, (Fault("kill", 326, 27),), damages=(Damage("cut", 1, 128), Damage("flip", 2, 972))
    ),
    "a damaged table of queries stayed": Schedule(20, _ONLINE, damages=(Damage("cut", 1, 128), Damage("flip", 2, 972))),
    "a damaged checksum hid what follows": Schedule(335, _ONLINE, damages=(Damage("flip", 2, 347),)),
    "a killed suite left half of its plan": Schedule(60264, _SUITE, (Fault("kill", 69, 183),)),
    "a suite that was killed while it checked its folder left a file": Schedule(
        1000224, _SUITE, (Fault("power", 37, 337),)
    ),
    "W&B that refuses": Schedule(276, _ONLINE, wandb=(WandbFault("refuse", 1), WandbFault("hang", 9))),
}


@pytest.fixture(scope="module")
def simulation(world: World) -> Simulation:
    """Plays schedules."""
    return Simulation(world)


@pytest.mark.parametrize("name", FOUND)
def test_a_schedule_that_has_found_a_fault_finds_it_no_more(simulation: Simulation, name: str) -> None:
    simulation.play(FOUND[name])


def test_a_study_among_faults_ends_as_an_undisturbed_one(simulation: Simulation) -> None:
    n_played, _, failure = play_schedules(simulation, 0, _SECONDS, _SCHEDULES)
    assert n_played
    assert not failure, failure
