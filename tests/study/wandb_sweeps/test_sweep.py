"""Configurations swept through the real command line, three at once, then the study that reuses them."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.plugins import ROOT
from tests.study.command import command, copy_cache, environment, records, run

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

T_LS = ("--sweep", "variant=T-LS", "epsilon=0.4", "switch=0.25")
OFF_GRID = ("--sweep", "variant=LS", "epsilon=0.25", "switch=0.5")
ONE = "resources.concurrent=1"


class Swept(NamedTuple):
    """Three sweeps at once, two of the same configuration, and then the study."""

    place: Path
    together: list["subprocess.CompletedProcess[str]"]
    before: dict[str, int]
    study: "subprocess.CompletedProcess[str]"
    search: dict[str, Any]


def together(place: Path, *sweeps: Sequence[str]) -> list["subprocess.CompletedProcess[str]"]:
    started = [
        subprocess.Popen(
            command(place, *own), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
        )
        for own in sweeps
    ]
    ended = [process.communicate(timeout=800) for process in started]
    return [
        subprocess.CompletedProcess(process.args, process.returncode, *said)
        for process, said in zip(started, ended, strict=True)
    ]


@pytest.fixture(scope="module")
def swept(finished_study, tmp_path_factory):
    place = tmp_path_factory.mktemp("swept")
    copy_cache(finished_study[0], place)
    at_once = together(place, (*T_LS, ONE), (*OFF_GRID, ONE), (*T_LS, ONE))
    before, study = records(place), run(place)
    search = json.loads((place / "study" / "search.json").read_text("utf-8"))["systems"]
    return Swept(place, at_once, before, study, search)


def told(result: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    """The last line."""
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return found


def test_each_says_in_its_last_line_what_it_found(swept):
    assert [result.returncode for result in swept.together] == [0, 0, 0], swept.together
    for result, values in zip(swept.together, ({"epsilon": 0.4, "switch": 0.25}, {"epsilon": 0.25}), strict=False):
        found = told(result)
        assert found.items() >= values.items()
        runs = [json.loads((swept.place / name).read_text("utf-8")) for name in swept.before if "record" in name]
        own = [run["summary"]["dev/R10@1"] for run in runs if run["configuration_id"] == found["configuration_id"]]
        assert len(own) == len(found["seeds"]) == 2
        assert found["objective"] == found["objective/R10@1"] == pytest.approx(sum(own) / 2)


def test_two_that_run_the_same_train_it_once(swept):
    first, _, second = swept.together
    assert told(first) == told(second)
    trained = [result for result in (first, second) if "trials at once" in result.stdout]
    assert len(trained) == 1


def test_what_the_configuration_does_not_take_is_told(swept):
    assert "LS does not take switch here: ignored" in swept.together[1].stdout


def test_no_test_set_is_looked_at(swept):
    assert len(swept.before) == 4
    assert not [name for name in swept.before if name.endswith("test.json")]


def test_the_study_reuses_the_runs(swept):
    assert swept.study.returncode == 0, swept.study.stdout + swept.study.stderr
    assert records(swept.place).items() >= swept.before.items()


def test_the_study_chooses_from_them_too(swept):
    rows = {(name, p["configuration_id"]): p for name, own in swept.search.items() for p in own["proposals"]}
    brought = {(row["values"]["epsilon"], row["values"].get("switch")) for row in rows.values() if row.get("swept")}
    assert brought == {(0.4, 0.25), (0.25, None)}
    for name, own in swept.search.items():
        best = max(own["proposals"], key=lambda row: row["mean"])
        assert rows[name, own["winner"]]["mean"] == best["mean"]
    assert f"{told(swept.together[0])['objective']:.4f}" in swept.study.stdout


def test_every_run_is_in_the_wandb_files_and_nothing_is_left_behind(swept):
    names = [path.name for path in (swept.place / "study" / "wandb").glob("offline-run-*")]
    ids = {Path(name).parent.name for name in records(swept.place)}
    assert all(any(name.endswith(f"-{run_id}") for name in names) for run_id in ids)
    left = [path.name for path in (swept.place / "study").rglob("*")]
    assert [name for name in left if name.startswith(".tune") or name.endswith(".claim")] == []


def test_a_seed_that_fails_is_status_1_with_its_cause_and_the_others_are_recorded(finished_study, tmp_path):
    copy_cache(finished_study[0], tmp_path)
    path = os.pathsep.join([str(ROOT / "tests" / "faults" / "injected"), str(ROOT)])
    faults = {
        "FAULTS": json.dumps({"0.3 1": "raise"}),
        "FAULTS_LOG": str(tmp_path / "happened.txt"),
        "PYTHONPATH": path,
    }
    broken = run(tmp_path, "--sweep", "variant=WSLS", "epsilon=0.30000000000000004", **faults)
    assert broken.returncode == 1
    (line,) = broken.stderr.splitlines()
    assert "no result of this configuration (WSLS epsilon 0.3 seed 1: RuntimeError: no good in " in line
    assert "rerun the same command to retry failed runs" in line
    assert "WSLS epsilon 0.3 seed 2" in broken.stdout
    assert "FAILED" in broken.stdout
    assert len(records(tmp_path)) == 2
