"""`wandb sweep` and `wandb agent`: a grid that the server draws."""

import re
from pathlib import Path

from wandb_server import Server, client

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


def test_an_agent_runs_each_configuration_of_a_grid_once(server: Server, tmp_path: Path):
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "grid.yaml").write_text(GRID)
    printed = _run(server, tmp_path, "sweep", "grid.yaml")
    (name,) = re.findall(r"wandb agent laboratory/sweeps/(\w+)", printed)
    _run(server, tmp_path, "agent", f"laboratory/sweeps/{name}")
    sweep, runs = server.sweeps()[name], server.runs("sweeps")
    assert sweep.state == "FINISHED"
    assert len(sweep.agents) == 1
    assert [runs[run].config for run in sweep.runs] == [{"epsilon": epsilon, "seed": 7} for epsilon in (1, 2, 3)]
    assert [runs[run].summary for run in sweep.runs] == [{"loss": loss} for loss in (1, 4, 9)]
    assert {runs[run].state for run in sweep.runs} == {"finished"}


def _run(server: Server, place: Path, *command: str) -> str:
    """Run a command of W&B's client and return what it prints on its standard error."""
    process = client.start(server, place, *client.wandb(*command))
    try:
        output, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0, output + errors
    return errors
