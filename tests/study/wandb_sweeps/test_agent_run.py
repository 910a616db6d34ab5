"""The run that a sweep's agent gives to a configuration, with the real client, offline.

Each is made in a process of its own, as the client reads the environment once.
"""

import getpass
import os
import platform
import re
import subprocess
from pathlib import Path

import pytest

from analysis.readers.wandb_offline import WandbRunData, _read_wandb_records, read_offline_runs
from study.tracking.agent_env import read_sweep_context
from study.wandb_sweeps.agent_run import open_agent_run
from tests.study.command import called

ROOT = Path(__file__).parents[3]
AGENTS = {"WANDB_SWEEP_ID": "abcd1234", "WANDB_RUN_ID": "parent01", "WANDB_PROJECT": "p", "WANDB_ENTITY": "team"}
PROGRAM = """
import os
from study.tracking.agent_env import read_sweep_context, remove_sweep_variables
from study.wandb_sweeps import agent_run

agent_run._TIMEOUT_S = 2 if {mode!r} == "online" else 60

where = read_sweep_context(os.environ)
for name in os.environ.keys() - remove_sweep_variables(os.environ).keys():
    del os.environ[name]
values = {{"variant": "LS", "epsilon": "0.2", "learning_rate": "1e-4"}}
with agent_run.open_agent_run(where, {mode!r}, values, print) as told:
    if told:
        told.config.update({{"study": "s", "configuration_id": "c", "specification_ids": ["a", "b"]}})
    {then}
"""
FINDS = 'told and told.log({"objective": 0.25, "objective/R10@1": 0.25})'
SEED = """
    import wandb
    seed = wandb.init(mode="offline", project="p", id="a", dir=".", settings=wandb.Settings(silent=True))
    seed.log({"dev/R10@1": 0.5})
    seed.finish()
    told.log({"objective": 0.25})
"""


def made(folder: Path, then: str = FINDS, mode: str = "offline", **changes: str) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    program = PROGRAM.format(mode=mode, then=then.strip())
    return called(folder, "-c", program, **(AGENTS | {"WANDB_DIR": str(folder)} | changes))


def runs(folder: Path) -> dict[str, WandbRunData]:
    return {run.id: run for run in read_offline_runs(folder / "wandb")}


def test_it_is_the_sweeps_run_with_what_the_configuration_found_and_says_neither_who_nor_where(tmp_path):
    result = made(tmp_path / "xyzzy")
    assert result.returncode == 0, result.stderr
    (run,) = runs(tmp_path / "xyzzy").values()
    assert (run.id, run.job_type) == ("parent01", "sweep")
    expected = {"variant": "LS", "epsilon": 0.2, "learning_rate": 1e-4}
    assert run.config == {**expected, "study": "s", "configuration_id": "c", "specification_ids": ["a", "b"]}
    found = {key: value for key, value in run.summary.items() if not key.startswith("_")}
    assert found == {"state": "finished", "objective": 0.25, "objective/R10@1": 0.25}
    (file,) = (tmp_path / "xyzzy").glob("wandb/offline-run-*/*.wandb")
    content = file.read_bytes()
    for secret in (str(tmp_path), str(ROOT), str(Path.home()) + os.sep, "xyzzy"):
        assert secret.encode() not in content
    for name in (platform.node(), getpass.getuser()):
        assert len(name) < 3 or not re.search(rf"\b{re.escape(name)}\b".encode(), content)
    records = list(_read_wandb_records(file))
    assert "environment" not in {record.WhichOneof("record_type") for record in records}
    (host,) = {record.run.host for record in records if record.WhichOneof("record_type") == "run"}
    assert host == "study"


def test_a_configuration_that_fails_fails_it_with_the_cause(tmp_path):
    result = made(tmp_path, 'raise RuntimeError("no good in /home/somebody/place\\nand more")')
    assert result.returncode == 1
    (run,) = runs(tmp_path).values()
    assert run.summary["state"] == "failed"
    assert run.summary["error"].startswith("no good in ")
    assert "somebody" not in run.summary["error"]
    assert "objective" not in run.summary


@pytest.mark.long
def test_one_that_is_stopped_says_so(tmp_path):
    result = made(tmp_path, "raise SystemExit(15)")
    assert result.returncode == 15
    (run,) = runs(tmp_path).values()
    assert (run.summary["state"], run.summary["error"]) == ("failed", "stopped from outside")


def test_a_run_of_the_study_next_to_it_is_a_run_of_its_own(tmp_path):
    result = made(tmp_path, SEED)
    assert result.returncode == 0, result.stderr
    found = runs(tmp_path)
    assert found.keys() == {"parent01", "a"}
    assert found["a"].summary["dev/R10@1"] == 0.5
    assert "objective" not in found["a"].summary
    assert found["parent01"].summary["objective"] == 0.25
    assert b"abcd1234" not in next((tmp_path / "wandb").glob("*-a/*.wandb")).read_bytes()
    assert b"abcd1234" in next((tmp_path / "wandb").glob("*-parent01/*.wandb")).read_bytes()


@pytest.mark.parametrize(("where", "mode"), [(None, "offline"), (read_sweep_context(AGENTS), "disabled")])
def test_without_a_sweep_or_disabled_nothing_is_written(where, mode, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_agent_run(where, mode, {"variant": "LS"}, print) as told:
        assert told is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"WANDB_BASE_URL": "http://127.0.0.1:9", "WANDB_API_KEY": "a" * 40},
        pytest.param({"HOME": "nowhere"}, marks=pytest.mark.long),
    ],
)
def test_a_server_that_is_away_or_a_key_that_is_missing_costs_only_this_run(tmp_path, changes):
    result = made(tmp_path, 'print("it ran")', "online", **changes)
    assert result.returncode == 0, result.stderr
    assert "cannot open the W&B run of the sweep" in result.stdout
    assert "it ran" in result.stdout
    assert "a" * 40 not in result.stdout + result.stderr
