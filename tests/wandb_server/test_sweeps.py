"""`wandb sweep` and `wandb agent`: a grid that the server draws, and a search by Optuna at the client."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.wandb_server import Server, ServerRun, client

pytestmark = pytest.mark.slow

PROGRAM = (
    client.PRELUDE
    + """
run = wandb.init(settings=SETTINGS)
run.log({"loss": run.config["epsilon"] ** 2})
run.finish()
"""
)
METRIC = "program: train.py\nproject: sweeps\nmetric: {name: loss, goal: minimize}\n"
GRID = METRIC + "method: grid\nparameters: {epsilon: {values: [1, 2, 3]}, seed: {value: 7}}\n"
SEARCH = (
    METRIC
    + """
method: custom
run_cap: 1
scheduler: {engine: optuna}
parameters: {epsilon: {min: 0.0, max: 1.0}}
"""
)


class Finished(NamedTuple):
    """What a sweep became."""

    state: str
    runs: list[ServerRun]


@pytest.fixture(scope="module")
def finished(server: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finished]:
    """Two sweeps at once, because an agent mostly waits."""
    place = tmp_path_factory.mktemp("sweeps")
    (place / "train.py").write_text(PROGRAM)
    names = _sweeps(server, place, {"grid": GRID, "search": SEARCH})
    paths = {kind: f"laboratory/sweeps/{name}" for kind, name in names.items()}
    commands: list[tuple[str, ...]] = [("agent", path) for path in paths.values()]
    commands.append(("sweep-scheduler", "--batch-size=1", "--poll-interval=1", paths["search"]))
    processes = [client.start(server, place, *client.wandb(*command)) for command in commands]
    try:
        for process in processes:
            output, errors = process.communicate(timeout=120)
            assert process.returncode == 0, output + errors
    finally:
        for process in processes:
            process.kill()
    runs = server.runs("sweeps")
    found = {kind: server.sweeps()[name] for kind, name in names.items()}
    return {kind: Finished(sweep.state, [runs[run] for run in sweep.runs]) for kind, sweep in found.items()}


def _sweeps(server: Server, place: Path, configs: dict[str, str]) -> dict[str, str]:
    """The names of new sweeps."""
    for kind, config in configs.items():
        (place / f"{kind}.yaml").write_text(config)
    processes = {kind: client.start(server, place, *client.wandb("sweep", f"{kind}.yaml")) for kind in configs}
    printed = {kind: process.communicate(timeout=60)[1] for kind, process in processes.items()}
    return {kind: re.findall(r"wandb agent laboratory/sweeps/(\w+)", text)[0] for kind, text in printed.items()}


def test_a_grid_is_run_once_each(finished: dict[str, Finished]):
    state, runs = finished["grid"]
    assert state == "FINISHED"
    assert [run.config for run in runs] == [{"epsilon": epsilon, "seed": 7} for epsilon in (1, 2, 3)]
    assert [run.summary for run in runs] == [{"loss": loss} for loss in (1, 4, 9)]
    assert {run.state for run in runs} == {"finished"}


def test_a_search_at_the_client_ends_at_its_cap(finished: dict[str, Finished]):
    state, runs = finished["search"]
    assert state == "FINISHED"
    (ended,) = [run for run in runs if run.state == "finished"]
    assert {run.state for run in runs} <= {"finished", "pending"}
    assert ended.summary == {"loss": ended.config["epsilon"] ** 2}


def test_agents_tell_their_host(finished: dict[str, Finished], server: Server):
    assert all(len(sweep.agents) == 1 for sweep in server.sweeps().values())
