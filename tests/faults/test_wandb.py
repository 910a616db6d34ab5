"""Whole studies and sweeps against a W&B server that goes away: in the end it has everything, once."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from analysis.report import main as report
from records import run_record as record
from tests.study.command import SMALL, command, comparisons, copy_cache, environment, records
from tests.study.mirrors import whole
from wandb_server import Server, ServerRun

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parents[2]
PROJECT = "small"


def trained(server: Server) -> dict[str, ServerRun]:
    """The runs of the table."""
    return {key: run for key, run in server.runs(PROJECT).items() if "specification_id" in run.config}


def client(server: Server, *arguments: str, folder: Path, **changes: str) -> "subprocess.Popen[str]":
    """W&B's command line, in a folder from which the study's packages are found."""
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    own = {"PYTHONPATH": paths, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.Popen(
        [sys.executable, "-m", "wandb", *arguments],
        cwd=folder,
        env=environment(**server.environment(), **own, **changes),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_study_with_a_server_that_dies_half_way_is_there_whole_and_once(finished_study, tmp_path, monkeypatch):
    copy_cache(finished_study[0], tmp_path)
    with Server(tmp_path / "server") as server:
        process = subprocess.Popen(
            command(tmp_path, "tracking.mode=online"),
            env=environment(**server.environment()),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        deadline = time.monotonic() + 600
        while sum(run.state == "finished" for run in trained(server).values()) < 5:
            assert time.monotonic() < deadline
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.2)
        before = len(records(tmp_path))
        server.kill()
        while len(records(tmp_path)) < before + 4:  # the study goes on without it
            assert time.monotonic() < deadline
            time.sleep(0.2)
        server.start()
        told, _ = process.communicate(timeout=900)
        assert process.returncode == 0, told
        folder = tmp_path / "study"
        found = trained(server)
        assert found.keys() == {path.parent.name for path in folder.glob("runs/*/record.json")}
        for run in found.values():
            tested = record.read_run_record(folder, run.id, "test") is not None
            whole(run, folder, ("dev", "test") if tested else ("dev",))
        kinds = [run.job_type for key, run in server.runs(PROJECT).items() if key not in found]
        assert sorted(kind or "" for kind in kinds) == ["plan", "queries", "report", "search"]
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        assert report([f"wandb:{server.entity}/{PROJECT}", "--output", str(tmp_path / "report")]) == 0
    assert comparisons(tmp_path / "report") == comparisons(folder / "report")
    own = {"difference", "targets", "adjusted", "verdict"}
    offline = comparisons(finished_study[0] / "study" / "report")
    assert [{key: one[key] for key in own} for one in comparisons(tmp_path / "report")] == [
        {key: one[key] for key in own} for one in offline
    ]


def test_a_sweep_of_six_configurations_is_in_the_report_of_its_project(finished_study, tmp_path, monkeypatch):
    copy_cache(finished_study[0], tmp_path)
    study = [setting for setting in SMALL if not setting.startswith("search.")]
    study += [f"output.folder={tmp_path / 'study'}", f"cache.folder={tmp_path / 'cache'}"]
    study += [
        'variants=["BERT", "T-LS"]',
        "search.epsilon=[0.1, 0.2]",
        "search.sampler=grid",
        "search.n_configurations.T-LS=6",
    ]
    export = [sys.executable, "-m", "study.run", "quick", *study, "--export-sweep", str(tmp_path / "sweeps")]
    subprocess.run(export, env=environment(PYTHONPATH=str(ROOT)), cwd=tmp_path, check=True, timeout=120)
    with Server(tmp_path / "server") as server:
        begun = client(server, "sweep", str(tmp_path / "sweeps" / "t-ls.yaml"), folder=tmp_path)
        told, _ = begun.communicate(timeout=120)
        named = re.search(r"wandb agent (\S+)", told)
        assert named, told
        agent = client(server, "agent", named[1], folder=tmp_path)
        told, _ = agent.communicate(timeout=1500)
        assert agent.returncode == 0, told
        (sweep,) = server.sweeps().values()
        runs = server.runs(PROJECT)
        parents = [runs[key] for key in sweep.runs]
        assert (sweep.state, len(parents)) == ("FINISHED", 6)
        points = {(run.config["epsilon"], run.config["switch"]) for run in parents}
        assert points == {(epsilon, switch) for epsilon in (0.1, 0.2) for switch in (0.25, 0.5, 0.75)}
        seeds = trained(server)
        for parent in parents:
            own = [seeds[key] for key in parent.config["specification_ids"]]
            assert (parent.state, parent.job_type, parent.summary["state"]) == ("finished", "sweep", "finished")
            assert sorted(run.config["seed"] for run in own) == [1, 2]
            assert {run.group for run in own} == {parent.config["configuration_id"]}
            assert not any(run.sweep for run in own)
            assert parent.summary["objective"] == sum(run.summary["dev/R10@1"] for run in own) / 2
            for run in own:
                whole(run, tmp_path / "study", ("dev",))
        assert not list((tmp_path / "study").glob("runs/*/test.json"))
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        address = f"wandb:{server.entity}/{PROJECT}"
        assert report([address, "--output", str(tmp_path / "before")]) == 0
        assert rows(tmp_path / "before") == {(key, run.config["seed"]) for key, run in by_configuration(seeds)}
        whole_study = subprocess.run(
            [sys.executable, "-m", "study.run", "quick", *study, "tracking.mode=online"],
            env=environment(**server.environment()),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert whole_study.returncode == 0, whole_study.stdout + whole_study.stderr
        assert report([address, "--output", str(tmp_path / "after")]) == 0
        found = rows(tmp_path / "after")
        assert rows(tmp_path / "before") <= found
        assert found == {(key, run.config["seed"]) for key, run in by_configuration(trained(server))}
        assert comparisons(tmp_path / "after") == comparisons(tmp_path / "study" / "report")
        assert json.dumps(comparisons(tmp_path / "after")).count('"verdict"') == 3


def by_configuration(runs: dict[str, ServerRun]) -> list[tuple[str, ServerRun]]:
    return [(run.config["configuration_id"], run) for run in runs.values()]


def rows(folder: Path) -> set[tuple[str, int | None]]:
    """Configuration and seed of every run that a report counts. It must count each once."""
    import pandas as pd

    table = pd.read_csv(folder / "results.csv")
    table = table[table["split"] == "dev"]
    found = [
        (key, None if pd.isna(seed) else int(seed)) for key, seed in zip(table.configuration, table.seed, strict=True)
    ]
    assert len(found) == len(set(found))
    return set(found)
